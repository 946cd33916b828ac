// The teams that run the steps of `matched` on a GPU (matched_steps.hpp), and the kernels that give
// them their items. Items that deserve a thread block are listed first, and the blocks take one
// after another from the list; the order in which they do so has no influence on the result.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "reorder/matched_partners.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

constexpr int kStepThreads = 256;
constexpr int kWarpsOfBlock = 4;
constexpr int kBlockThreads = 256;
constexpr int kWideThreads = 1024;

/// Bytes of the largest hash tables for candidates, and the most slots in use without long
/// searches.
constexpr std::size_t kWarpTable = 4096, kBlockTable = 32768;
TESSERA_HOST_DEVICE constexpr std::uint32_t room(std::uint32_t slots) { return slots / 4 * 3; }
constexpr std::size_t table_bytes(std::size_t slots_bytes) { return slots_bytes + sizeof(Key); }

/// The memory in which thread blocks count candidates: a counter for each cluster where that is
/// small, else a table. Wide blocks have counters, of as many clusters at a time as fit.
/// Five thread blocks of kBlockThreads fit on a processor of an H100 or H200.
constexpr std::size_t kMostBlockBytes = 45056;
constexpr std::size_t counter_bytes(std::int32_t clusters) {
  return (std::size_t{2} * static_cast<std::size_t>(clusters) + 15) / 16 * 16;
}

/// A warp or a thread block. Its members are only called on the device; nvcc compiles the steps for
/// the host too, and wants to be able to call them there.
template <int kThreads>
class Team {
 public:
  static constexpr int kWarps = kThreads / 32;
  struct Exchange {
    Key keys[kWarps * kPartners];
    std::uint32_t sum;
  };

  /// `words` of 32 bits are shared at `shared`; more than a warp shares `exchange`, too.
  __device__ Team(void* shared, std::uint32_t words, Exchange* exchange)
      : shared_(shared), words_(words), exchange_(exchange) {}

  __host__ __device__ void* shared() const { return shared_; }
  __host__ __device__ std::uint32_t lane() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x % kThreads;
#else
    return 0;
#endif
  }
  __host__ __device__ bool is_first() const { return lane() == 0; }
  __host__ __device__ void sync() const {
#ifdef __CUDA_ARCH__
    if constexpr (kThreads == 32)
      __syncwarp();
    else
      __syncthreads();
#endif
  }
  __host__ __device__ void add([[maybe_unused]] std::uint32_t* sum,
                               [[maybe_unused]] std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    atomicAdd(sum, value);
#endif
  }
  /// The largest of all threads' numbers, for all threads.
  __host__ __device__ Key largest(Key mine) const {
#ifdef __CUDA_ARCH__
    mine = largest_of_warp(mine);
    if constexpr (kWarps > 1) {
      if (threadIdx.x % 32 == 0) exchange_->keys[threadIdx.x / 32] = mine;
      __syncthreads();
      for (int warp = 0; warp < kWarps; ++warp) mine = most(mine, exchange_->keys[warp]);
      __syncthreads();
    }
#endif
    return mine;
  }
  template <class Body>
  __host__ __device__ void for_each(std::uint32_t count, Body body) const {
    for (std::uint32_t i = lane(); i < count; i += kThreads) body(i);
  }
  /// Calls body(visits) for the places in the ranges that prepare(0) to prepare(count - 1) return,
  /// kTogether of them at a time, until it returns false. The threads of a warp prepare a range
  /// each, and deal the places of all of these among them: ranges have very different lengths.
  template <class Prepare, class Body>
  __host__ __device__ void for_each_in_ranges([[maybe_unused]] std::uint32_t count,
                                              [[maybe_unused]] Prepare prepare,
                                              [[maybe_unused]] Body body) const {
#ifdef __CUDA_ARCH__
    constexpr unsigned kAll = 0xffffffffu;
    const std::uint32_t thread = threadIdx.x % 32, warp = lane() / 32;
    for (std::uint32_t begin = 0; begin + warp < count; begin += kThreads) {
      const std::uint32_t mine = begin + thread * kWarps + warp;
      const Range range = mine < count ? prepare(mine) : Range{0, 0};
      const std::uint32_t size = range.end - range.begin;
      std::uint32_t end = size;  // of the range among the places of all
      for (unsigned step = 1; step < 32; step *= 2) {
        const std::uint32_t lower = __shfl_up_sync(kAll, end, step);
        if (thread >= step) end += lower;
      }
      const std::uint32_t all = __shfl_sync(kAll, end, 31);
      const std::uint32_t shift = range.begin - (end - size);
      for (std::uint32_t first = 0; first < all; first += 32 * kTogether) {
        Visit visits[kTogether];
        for (int i = 0; i < kTogether; ++i) {
          const std::uint32_t number = first + 32 * i + thread;
          std::uint32_t owner = 0;  // ranges that end before
          for (std::uint32_t step = 16; step > 0; step /= 2)
            if (__shfl_sync(kAll, end, static_cast<int>(owner + step - 1)) <= number) owner += step;
          const std::uint32_t place = number + __shfl_sync(kAll, shift, static_cast<int>(owner));
          visits[i] = {number < all ? place : kNoPlace,
                       place == __shfl_sync(kAll, range.begin, static_cast<int>(owner))};
        }
        if (!__all_sync(kAll, body(visits))) return;
      }
    }
#endif
  }

  /// Counts each of the clusters that for_all(add) adds, at most `most` different ones and each at
  /// most `times` times, and adds the `kept` best to the best keys of the threads. False where they
  /// need more memory than the team shares.
  template <class ForAll>
  __host__ __device__ bool count(std::int32_t clusters, std::uint32_t most, std::uint32_t times,
                                 int kept, const Judge& judge, ForAll for_all,
                                 BestKeys& best) const {
    constexpr bool kIsBlock = kThreads == kBlockThreads;
    constexpr std::size_t kBytes = kIsBlock ? kBlockTable : kWarpTable;
    if (kThreads == kWideThreads || (kIsBlock && counter_bytes(clusters) <= kMostBlockBytes)) {
      count_in_parts(clusters, times, kept, judge, for_all, best);
      return true;
    }
    // A slot has a name and a count.
    const std::uint32_t bits = bits_of(times);
    return bits + bits_of(static_cast<std::uint32_t>(clusters)) <= 32
               ? count_in_table<std::uint32_t, kBytes>(bits, most, kept, judge, for_all, best)
               : count_in_table<Key, kBytes>(32, most, kept, judge, for_all, best);
  }

  /// The largest `kept` keys of all threads, in descending order.
  __host__ __device__ void store_largest([[maybe_unused]] BestKeys best, [[maybe_unused]] int kept,
                                         [[maybe_unused]] Key* found) const {
#ifdef __CUDA_ARCH__
    if constexpr (kWarps == 1) {
      for_largest_of_warp(best, kept, [&](int i, Key key) { found[i] = key; });
    } else {
      Key* const mine = exchange_->keys + threadIdx.x / 32 * kPartners;
      for_largest_of_warp(best, kept, [&](int i, Key key) { mine[i] = key; });
      __syncthreads();
      if (threadIdx.x < 32) {
        BestKeys all;
        for (int warp = threadIdx.x; warp < kWarps; warp += 32)
          for (int i = 0; i < kept; ++i) all.add(exchange_->keys[warp * kPartners + i]);
        for_largest_of_warp(all, kept, [&](int i, Key key) { found[i] = key; });
      }
      __syncthreads();
    }
#endif
  }

  __host__ __device__ void store_sum([[maybe_unused]] std::uint32_t sum,
                                     [[maybe_unused]] std::uint32_t* to) const {
#ifdef __CUDA_ARCH__
    sum = __reduce_add_sync(0xffffffffu, sum);
    if constexpr (kWarps == 1) {
      if (is_first()) *to = sum;
    } else {
      if (is_first()) exchange_->sum = 0;
      __syncthreads();
      if (threadIdx.x % 32 == 0) atomicAdd(&exchange_->sum, sum);
      __syncthreads();
      if (is_first()) *to = exchange_->sum;
    }
#endif
  }

 private:
  /// A cluster and the columns in common with it; 0: no cluster.
  struct Counted {
    std::int32_t cluster;
    std::uint32_t common;
  };

#ifdef __CUDA_ARCH__
  __device__ static Key largest_of_warp(Key mine) {
    const auto high = static_cast<std::uint32_t>(mine >> 32);
    const std::uint32_t most_high = __reduce_max_sync(0xffffffffu, high);
    const std::uint32_t low = high == most_high ? static_cast<std::uint32_t>(mine) : 0;
    return Key{most_high} << 32 | __reduce_max_sync(0xffffffffu, low);
  }
  /// Calls store(i, key) in one thread for the i-th largest key of a warp, i < kept. No two threads
  /// have the same key.
  template <class Store>
  __device__ static void for_largest_of_warp(BestKeys& best, int kept, Store store) {
    for (int i = 0; i < kept; ++i) {
      const Key key = largest_of_warp(best.keys[0]);
      if (key != 0 && best.keys[0] == key) best.remove_first();
      if (threadIdx.x % 32 == 0) store(i, key);
    }
  }
#endif

  __host__ __device__ static std::uint32_t bits_of([[maybe_unused]] std::uint32_t number) {
#ifdef __CUDA_ARCH__
    return 32 - static_cast<std::uint32_t>(__clz(static_cast<int>(number)));
#else
    return 0;
#endif
  }

  /// Adds the best of the counts that for_counts(body) calls body(counted) for, several at a time.
  /// First every thread judges its largest; what cannot be as good as the `kept` best of its warp
  /// is not judged.
  template <class ForCounts>
  __host__ __device__ void add_best([[maybe_unused]] int kept, [[maybe_unused]] const Judge& judge,
                                    [[maybe_unused]] ForCounts for_counts,
                                    [[maybe_unused]] BestKeys& best) const {
#ifdef __CUDA_ARCH__
    Counted largest = {judge.own, 0};
    for_counts([&](const auto& counted) {
      for (const Counted& one : counted)
        if (one.common > largest.common) largest = one;
    });
    std::uint32_t worth =
        largest.common > 0 ? judge.worth(largest.common, judge.columns_of(largest.cluster)) : 0;
    std::uint32_t enough = 0;
    for (int i = 0; i < kept; ++i) {
      enough = __reduce_max_sync(0xffffffffu, worth);
      const unsigned holders = __ballot_sync(0xffffffffu, worth == enough);
      if (threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(holders)) - 1))
        worth = 0;
    }
    const std::uint32_t least_count = judge.least_common(enough);
    for_counts([&](const auto& counted) {
      constexpr int kCount = sizeof counted / sizeof(Counted);
      bool is_any = false;
      for (const Counted& one : counted) is_any |= one.common >= least_count;
      if (!is_any) return;
      // All are read together, as in FindPartners.
      std::uint32_t columns[kCount] = {};
      if (judge.columns != nullptr)
        for (int i = 0; i < kCount; ++i)
          columns[i] =
              judge.columns[counted[i].common >= least_count ? counted[i].cluster : judge.own];
      for (int i = 0; i < kCount; ++i)
        if (counted[i].common >= least_count &&
            judge.is_worth(counted[i].common, columns[i], enough))
          best.add(
              key_of(judge.worth(counted[i].common, columns[i]), judge.own, counted[i].cluster));
    });
#endif
  }

  /// In slots that have `bits` of a count, and above them a cluster + 1, or 0 where they are free.
  template <class Slot, std::size_t kBytes, class ForAll>
  __host__ __device__ bool count_in_table([[maybe_unused]] std::uint32_t bits,
                                          [[maybe_unused]] std::uint32_t most,
                                          [[maybe_unused]] int kept,
                                          [[maybe_unused]] const Judge& judge,
                                          [[maybe_unused]] ForAll for_all,
                                          [[maybe_unused]] BestKeys& best) const {
#ifdef __CUDA_ARCH__
    constexpr std::uint32_t kLeastBits = 6, kMostSlots = kBytes / sizeof(Slot);
    std::uint32_t size_bits = kLeastBits;
    while (1u << size_bits < kMostSlots && room(1u << size_bits) < most) ++size_bits;
    const std::uint32_t size = 1u << size_bits;
    auto* const used = static_cast<volatile std::uint32_t*>(shared_);
    auto* const slots = reinterpret_cast<Slot*>(static_cast<Key*>(shared_) + 1);  // [size]
    for_each(size, [&](std::uint32_t i) { slots[i] = 0; });
    if (is_first()) *used = 0;
    sync();
    for_all([&](std::int32_t cluster) {
      const Slot name = static_cast<Slot>(cluster) + 1;
      std::uint32_t i = (static_cast<std::uint32_t>(name) * 0x9e3779b1u) >> (32 - size_bits);
      for (;; i = (i + 1) & (size - 1)) {
        Slot slot = *static_cast<volatile Slot*>(&slots[i]);
        if (slot == 0) {
          if (*used > room(size)) return false;
          slot = atomicCAS(&slots[i], Slot{0}, name << bits | 1);
          if (slot == 0) {
            atomicAdd(static_cast<std::uint32_t*>(shared_), 1u);
            return true;
          }
        }
        if (slot >> bits == name) break;
      }
      atomicAdd(reinterpret_cast<std::uint32_t*>(&slots[i]), 1u);
      return true;
    });
    sync();
    const bool has_all = *used <= room(size);
    if (has_all)
      add_best(
          kept, judge,
          [&](auto body) {
            constexpr std::uint32_t kSlots = 4;
            for (std::uint32_t i = lane(); i < size; i += kSlots * kThreads) {
              Counted counted[kSlots];
              for (std::uint32_t j = 0; j < kSlots; ++j) {
                const std::uint32_t other = i + j * kThreads;
                const Slot slot = other < size ? slots[other] : 0;
                counted[j] = {static_cast<std::int32_t>(slot >> bits) - 1,
                              static_cast<std::uint32_t>(slot & ((Slot{1} << bits) - 1))};
              }
              body(counted);
            }
          },
          best);
    sync();
    return has_all;
#else
    return true;
#endif
  }

  /// In counters of 16 bits, or of 32 where a count can be as large.
  template <class ForAll>
  __host__ __device__ void count_in_parts([[maybe_unused]] std::int32_t clusters,
                                          [[maybe_unused]] std::uint32_t times,
                                          [[maybe_unused]] int kept,
                                          [[maybe_unused]] const Judge& judge,
                                          [[maybe_unused]] ForAll for_all,
                                          [[maybe_unused]] BestKeys& best) const {
#ifdef __CUDA_ARCH__
    auto* const words = static_cast<std::uint32_t*>(shared_);
    const std::uint32_t in_word = times <= 0xffff ? 2 : 1,
                        all = static_cast<std::uint32_t>(clusters);
    for (std::uint32_t begin = 0; begin < all; begin += in_word * words_) {
      const std::uint32_t size = least(in_word * words_, all - begin);
      const std::uint32_t quads = (size + 4 * in_word - 1) / (4 * in_word);
      for_each(quads, [&](std::uint32_t i) { reinterpret_cast<uint4*>(words)[i] = {0, 0, 0, 0}; });
      sync();
      for_all([&](std::int32_t cluster) {
        const std::uint32_t i = static_cast<std::uint32_t>(cluster) - begin;
        if (i < size) atomicAdd(&words[i / in_word], i % in_word == 0 ? 1u : 0x10000u);
        return true;
      });
      sync();
      const auto for_counts = [&](auto body) {
        for_each(quads, [&](std::uint32_t i) {
          const uint4 quad = reinterpret_cast<const uint4*>(words)[i];
          if ((quad.x | quad.y | quad.z | quad.w) == 0) return;
          const std::uint32_t counts[] = {quad.x, quad.y, quad.z, quad.w};
          Counted counted[8];
          for (std::uint32_t j = 0; j < 4; ++j) {
            const auto cluster = static_cast<std::int32_t>(begin + in_word * (4 * i + j));
            counted[2 * j] = {cluster, in_word == 2 ? counts[j] & 0xffff : counts[j]};
            counted[2 * j + 1] = {cluster + 1, in_word == 2 ? counts[j] >> 16 : 0};
          }
          body(counted);
        });
      };
      add_best(kept, judge, for_counts, best);
      sync();
    }
#endif
  }

  void* shared_;
  std::uint32_t words_;
  Exchange* exchange_;
};

struct DeviceThreads {
  __host__ __device__ static void raise([[maybe_unused]] Key* largest, [[maybe_unused]] Key value) {
#ifdef __CUDA_ARCH__
    atomicMax(largest, value);
#endif
  }
  __host__ __device__ static void add([[maybe_unused]] std::uint32_t* sum,
                                      [[maybe_unused]] std::uint32_t value) {
#ifdef __CUDA_ARCH__
    atomicAdd(sum, value);
#endif
  }
};

template <class Step>
__global__ void __launch_bounds__(kStepThreads) run_step(Step step, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x;
  if (i < count) step(i);
}

/// All rounds in one launch, whose blocks are on the device at once and wait for each other. Ends
/// after a round in which `first` does nothing anywhere.
template <class Start, class First, class Second>
__global__ void __launch_bounds__(kStepThreads)
    run_rounds(std::int64_t count, int rounds, Start start, First first, Second second,
               volatile std::uint32_t* goes_on) {
  const auto grid = cooperative_groups::this_grid();
  const auto for_each = [&](auto step) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kStepThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kStepThreads + threadIdx.x; i < count;
         i += stride)
      step(i);
  };
  if (blockIdx.x == 0 && threadIdx.x < rounds) goes_on[threadIdx.x] = 0;
  for_each(start);
  for (int round = 0; round < rounds; ++round) {
    grid.sync();
    for_each([&](std::int64_t i) {
      if (first(DeviceThreads{}, round, i)) goes_on[round] = 1;
    });
    grid.sync();
    if (goes_on[round] == 0) return;
    for_each([&](std::int64_t i) { second(round, i); });
  }
}

/// Items for thread blocks, and how many of them blocks have taken.
struct Queue {
  std::uint32_t size, taken;
};

/// Whether wide blocks take the largest items of a step: those that count candidates.
template <class Step>
constexpr bool kHasWide = !requires {
  Step::kSharedBytes;
};

/// The bytes that a warp shares for a step.
template <class Step>
constexpr std::size_t warp_bytes() {
  if constexpr (kHasWide<Step>)
    return table_bytes(kWarpTable);
  else
    return Step::kSharedBytes;
}

/// Whether a step is done with an item; only some steps can give one up.
template <class Step, class Member>
__device__ bool is_done(const Step& step, const Member& team, std::int64_t item) {
  if constexpr (requires { bool{step(team, item)}; }) {
    return step(team, item);
  } else {
    step(team, item);
    return true;
  }
}

__device__ inline void append(Queue* queue, std::uint32_t* items, std::int64_t item) {
  items[atomicAdd(&queue->size, 1u)] = static_cast<std::uint32_t>(item);
}

/// What the compiler is to leave registers for, where a step counts candidates: as many blocks as
/// share the memory of a processor. 0: it decides.
template <class Step>
constexpr int least_blocks(int blocks) {
  return kHasWide<Step> ? blocks : 0;
}

/// Warps do the items that deserve no more, and list the others.
template <class Step>
__global__ void __launch_bounds__(32 * kWarpsOfBlock, least_blocks<Step>(10))
    run_in_warps(Step step, std::int64_t count, Queue* queues, std::uint32_t* block_items,
                 std::uint32_t* wide_items) {
  extern __shared__ __align__(16) Key shared[];
  const std::int64_t item = std::int64_t{blockIdx.x} * kWarpsOfBlock + threadIdx.x / 32;
  if (item >= count) return;
  Size size = step.size_of(item);
  if (size == Size::kWarp) {
    constexpr std::size_t kKeys = warp_bytes<Step>() / sizeof(Key);
    const Team<32> team(shared + threadIdx.x / 32 * kKeys, 2 * kKeys, nullptr);
    if (is_done(step, team, item)) return;
    size = Size::kBlock;
  }
  if (threadIdx.x % 32 != 0) return;
  if (size == Size::kWide && kHasWide<Step>)
    append(queues + 1, wide_items, item);
  else
    append(queues, block_items, item);
}

/// Blocks do the listed items and share `words` of 32 bits; those that they give up go to the next
/// list.
template <int kThreads, class Step>
__global__ void __launch_bounds__(kThreads, least_blocks<Step>(kThreads == kBlockThreads ? 5 : 1))
    run_in_blocks(Step step, std::uint32_t words, Queue* queue, const std::uint32_t* items,
                  Queue* next_queue, std::uint32_t* next_items) {
  extern __shared__ __align__(16) Key shared[];
  __shared__ typename Team<kThreads>::Exchange exchange;
  __shared__ std::uint32_t next;
  for (;;) {
    if (threadIdx.x == 0) next = atomicAdd(&queue->taken, 1u);
    __syncthreads();
    const std::uint32_t ticket = next;
    __syncthreads();
    if (ticket >= queue->size) return;
    if (!is_done(step, Team<kThreads>(shared, words, &exchange), items[ticket]) && threadIdx.x == 0)
      append(next_queue, next_items, items[ticket]);
  }
}

}  // namespace tessera::matched
