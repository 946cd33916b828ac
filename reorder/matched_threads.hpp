// The threads of a CPU, as the executor of the steps that `matched` and other orders for a GPU are
// made of (matched_steps.hpp); matched_gpu.cuh has that of a GPU.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_placement.hpp"
#include "reorder/matched_steps.hpp"
#include "reorder/watch.hpp"

namespace tessera::matched {

/// What a team shares, and counts of clusters.
struct Scratch {
  std::vector<Key> shared;
  std::vector<std::uint32_t> counts;   // [clusters] 0 between items
  std::vector<std::int32_t> clusters;  // that have a count
};

/// A team of one thread.
class Alone {
 public:
  explicit Alone(Scratch& scratch) : scratch_(scratch) {}

  void* shared() const { return scratch_.shared.data(); }
  bool is_first() const { return true; }
  void sync() const {}
  void add(std::uint32_t* sum, std::uint32_t value) const { *sum += value; }
  Key largest(Key mine) const { return mine; }
  template <class Body>
  void for_each(std::uint32_t count, Body body) const {
    for (std::uint32_t i = 0; i < count; ++i) body(i);
  }
  template <class Prepare, class Body>
  void for_each_in_ranges(std::uint32_t count, Prepare prepare, Body body) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Range range = prepare(i);
      for (std::uint32_t place = range.begin; place < range.end; place += kTogether) {
        Visit visits[kTogether];
        for (std::uint32_t j = 0; j < kTogether; ++j)
          visits[j] = {place + j < range.end ? place + j : kNoPlace, place + j == range.begin};
        body(visits);
      }
    }
  }
  template <class ForAll>
  bool count(std::int32_t clusters, std::uint32_t, std::uint32_t, int, const Judge& judge,
             ForAll for_all, BestKeys& best) const {
    auto& counts = scratch_.counts;
    if (counts.size() < static_cast<std::size_t>(clusters)) counts.resize(clusters);
    for_all([&](std::int32_t cluster) {
      if (counts[cluster]++ == 0) scratch_.clusters.push_back(cluster);
      return true;
    });
    for (const std::int32_t cluster : scratch_.clusters)
      best.add(judge.key(cluster, std::exchange(counts[cluster], 0)));
    scratch_.clusters.clear();
    return true;
  }
  void store_largest(const BestKeys& best, int kept, Key* found) const {
    std::copy_n(best.keys, kept, found);
  }
  void store_sum(std::uint32_t sum, std::uint32_t* to) const { *to = sum; }

 private:
  Scratch& scratch_;
};

class Threads {
 public:
  static void raise(Key* largest, Key value) {
    std::atomic_ref<Key> shared(*largest);
    Key before = shared.load(std::memory_order_relaxed);
    while (before < value && !shared.compare_exchange_weak(before, value)) {
    }
  }
  static void add(std::uint32_t* sum, std::uint32_t value) {
    std::atomic_ref<std::uint32_t>(*sum).fetch_add(value, std::memory_order_relaxed);
  }
};

class OnThreads {
 public:
  template <class T>
  using Array = std::vector<T>;

  explicit OnThreads(Watch& watch) : watch_(watch) {}

  template <class T>
  Array<T> array(std::int64_t size) const {
    return Array<T>(static_cast<std::size_t>(size));
  }
  bool stops() const { return watch_.stop(); }
  void phase(const char*) const {}

  template <class Step>
  void for_each(std::int64_t count, const Step& step) const {
    constexpr std::int64_t kGrain = 16384;
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) step(i);
    });
  }
  /// Rounds until one does nothing; `first` returns whether it did.
  template <class Start, class First, class Second>
  void for_rounds(std::int64_t count, int rounds, const Start& start, const First& first,
                  const Second& second) const {
    for_each(count, start);
    for (int round = 0; round < rounds; ++round) {
      std::atomic<bool> goes_on = false;
      for_each(count, [&](std::int64_t i) {
        if (first(Threads{}, round, i)) goes_on.store(true, std::memory_order_relaxed);
      });
      if (!goes_on) return;
      for_each(count, [&](std::int64_t i) { second(round, i); });
    }
  }
  template <class Step>
  void for_teams(std::int64_t count, const Step& step) {
    constexpr std::int64_t kGrain = 256;
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      scratch_.use([&](Scratch& scratch) {
        if constexpr (requires { Step::kSharedBytes; })
          scratch.shared.resize(std::max(scratch.shared.size(), Step::kSharedBytes / sizeof(Key)));
        const Alone team(scratch);
        for (std::int64_t i = begin; i < end; ++i) step(team, i);
      });
    });
  }
  /// sums[i] = the sum of the summands before i.
  template <class Summand>
  void running_sum(const Summand& summand, std::uint32_t* sums, std::int64_t count) const {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = sum;
      sum += summand(i);
    }
  }
  template <class T>
  void copy(const T* from, T* to, std::int64_t count) const {
    std::copy_n(from, count, to);
  }

  /// The nonzeros by column, those of a column in their order. Threads count chunks of nonzeros, at
  /// most as many chunks as take four bytes per nonzero.
  void sort_by_column(const std::int32_t* cols, std::int64_t nnz, std::int32_t columns,
                      std::uint32_t* sorted) const {
    const std::int64_t chunks =
        std::clamp<std::int64_t>(nnz / std::max(1, columns), 1, std::max(1, num_threads()));
    const std::int64_t size = std::max<std::int64_t>(1, (nnz + chunks - 1) / chunks);
    std::vector<std::vector<std::uint32_t>> next(static_cast<std::size_t>(chunks));
    parallel_for(nnz, size, [&](std::int64_t begin, std::int64_t end) {
      auto& mine = next[begin / size];
      mine.assign(static_cast<std::size_t>(columns), 0);
      for (std::int64_t k = begin; k < end; ++k) ++mine[cols[k]];
    });
    std::uint32_t before = 0;
    for (std::int32_t col = 0; col < columns; ++col)
      for (auto& chunk : next)
        if (!chunk.empty()) before += std::exchange(chunk[col], before);
    parallel_for(nnz, size, [&](std::int64_t begin, std::int64_t end) {
      auto& mine = next[begin / size];
      for (std::int64_t k = begin; k < end; ++k)
        sorted[mine[cols[k]]++] = static_cast<std::uint32_t>(k);
    });
  }
  /// Sorts values by the low `bits` of their keys, equal ones in their order.
  void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys,
                  const std::uint32_t* values, std::uint32_t* sorted_values, std::int64_t count,
                  int bits) const {
    const std::uint32_t mask = bits < 32 ? (1u << bits) - 1 : ~0u;
    std::vector<Key> places(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      places[i] = Key{keys[i] & mask} << 32 | static_cast<std::uint32_t>(i);
    std::sort(places.begin(), places.end());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto from = static_cast<std::uint32_t>(places[i]);
      sorted_keys[i] = keys[from];
      sorted_values[i] = values[from];
    }
  }
  /// Sorts the holders of each column by their positions.
  void place_columns(std::int32_t columns, const PlaceColumns& step) const {
    constexpr std::int64_t kGrain = 1024;
    parallel_for(columns, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::pair<std::int32_t, std::uint32_t>> holders;  // position, entry
      for (std::int64_t col = begin; col < end; ++col) {
        holders.clear();
        std::uint32_t place = step.col_offsets[col];
        for (std::uint32_t entry = place; entry < step.col_offsets[col + 1]; ++entry)
          holders.emplace_back(step.position(entry), entry);
        std::sort(holders.begin(), holders.end());
        for (const auto& holder : holders) step.put(holder.second, place++);
      }
    });
  }

 private:
  Watch& watch_;
  ScratchPool<Scratch> scratch_;
};

/// The order that a search finds with the threads of this machine.
template <class Search, class Options>
Permutation order_on_threads(const char* name, const CsrMatrix& matrix, const Options& options,
                             Watch& watch) {
  require_fits(name, matrix.rows, matrix.nnz());
  OnThreads threads(watch);
  Search search(threads,
                {matrix.rows, matrix.cols, matrix.nnz(), matrix.row_offsets.data(),
                 matrix.col_indices.data()},
                options);
  search.run();
  return Permutation(std::move(search.order()));
}

}  // namespace tessera::matched
