// The kernel of dense_spmm: a thread block multiplies a part of the depth for a tile of C, and its
// cluster adds the parts.
//
// One warp copies the operands of several stages ahead, A as one block and B by a tensor map; the
// other warps multiply by wgmma: C^T = B^T A^T, so that B, which has to be rounded to TF32, is the
// operand that passes through registers. Each thread block of the cluster owns some rows of the
// tile: the others send it their sums of these, and it adds them in the order of the parts.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/bulk_copies.cuh"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/device/store_elements.cuh"
#include "kernels/spmm/dense/numbers.cuh"

namespace tessera::dense_spmm {

struct Arguments {
  const unsigned char* a;  // [row tiles][stages][Schedule::a_bytes()], steps as in DenseTiles
  int rows, cols, n;
  int stages;      // of the whole depth
  int parts_log2;  // of the thread blocks that share it

  __device__ int parts() const { return 1 << parts_log2; }

  const void* b;  // [cols x n]
  void* c;        // [rows x n]
  bool c_in_16_bits;
  Scaling scaling;
  const std::int32_t* places;  // of the rows of C, or null
};

/// What of the depth a thread block multiplies, and for which tile of C.
struct Item {
  int part;
  int first_stage, count;
  int row_tile, first_col;

  __device__ Item(const Arguments& arguments, int columns)
      : part(static_cast<int>(blockIdx.x) & (arguments.parts() - 1)),
        first_stage(dense_spmm::first_stage(arguments.stages, arguments.parts_log2, part)),
        count(dense_spmm::first_stage(arguments.stages, arguments.parts_log2, part + 1) -
              first_stage),
        row_tile(static_cast<int>(blockIdx.x) >> arguments.parts_log2),
        first_col(static_cast<int>(blockIdx.y) * columns) {}
};

/// The barriers in shared memory.
template <Schedule kSchedule>
struct Barriers {
  std::uint32_t base;

  __device__ std::uint32_t full(int slot) const { return base + 8 * slot; }
  __device__ std::uint32_t free(int slot) const {
    return base + 8 * (kSchedule.ring_stages() + slot);
  }
  __device__ std::uint32_t sums() const { return base + 16 * kSchedule.ring_stages(); }
};

/// Copies a line of a stage of B element by element, where rows of B are not at multiples of 16
/// bytes; all lanes call it.
template <class Numbers, Schedule kSchedule>
__device__ void copy_elements(const Arguments& arguments, unsigned char* to, int row, int col,
                              int lane) {
  using Bits = std::conditional_t<Numbers::kElementBytes == 4, std::uint32_t, std::uint16_t>;
  const auto* const b = static_cast<const Bits*>(arguments.b);
  for (int i = lane; i < kSchedule.stage_depth() * kSchedule.line_cols(); i += 32) {
    const int k = i / kSchedule.line_cols(), j = i % kSchedule.line_cols();
    const bool real = row + k < arguments.cols && col + j < arguments.n;
    const int byte = j * Numbers::kElementBytes;
    *reinterpret_cast<Bits*>(to + k * kLineBytes + 16 * (byte / 16 ^ k % 8) + byte % 16) =
        real ? b[std::int64_t{row + k} * arguments.n + col + j] : Bits{0};
  }
}

/// The copies of all stages of a thread block, by one warp.
template <class Numbers, Schedule kSchedule, bool kAligned>
__device__ void copy_operands(const Arguments& arguments, const CUtensorMap& map, const Item& item,
                              unsigned char* memory, Barriers<kSchedule> barriers, int lane) {
  int slot = 0, parity = 1;
  for (int i = 0; i < item.count; ++i) {
    if (i >= kSchedule.ring_stages()) wait_for_phase(barriers.free(slot), parity);
    unsigned char* const stage = memory + slot * kSchedule.stage_bytes();
    const std::uint32_t to = shared_address(stage), full = barriers.full(slot);
    const int number = item.first_stage + i;
    const int row = number * kSchedule.stage_depth();
    if (lane == 0) {
      arrive_and_expect(full, kAligned ? kSchedule.stage_bytes() : kSchedule.a_bytes());
      copy_bulk(to,
                arguments.a +
                    std::int64_t{item.row_tile * arguments.stages + number} * kSchedule.a_bytes(),
                kSchedule.a_bytes(), full);
    }
    for (int line = 0; line < kSchedule.lines(); ++line) {
      const int at = kSchedule.a_bytes() + line * kSchedule.line_bytes();
      const int col = item.first_col + line * kSchedule.line_cols();
      if constexpr (!kAligned)
        copy_elements<Numbers, kSchedule>(arguments, stage + at, row, col, lane);
      else if (lane == 0)
        copy_box(to + at, map, col, row, full);
    }
    if constexpr (!kAligned) arrive(full);
    if (++slot == kSchedule.ring_stages()) slot = 0, parity ^= 1;
  }
}

/// The sums of four warps for their 64 columns and the thread block's part of the depth.
template <class Numbers, Schedule kSchedule, bool kAligned>
__device__ void multiply_stages(const Item& item, const unsigned char* memory,
                                Barriers<kSchedule> barriers, int group, int warp, int lane,
                                float (&sums)[32]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kStepBytes = kSchedule.a_bytes() / kStageSteps;
  const unsigned char* const first_line =
      memory + kSchedule.a_bytes() +
      group * (kSchedule.lines() / kSchedule.groups) * kSchedule.line_bytes();
  int slot = 0, parity = 0;
  std::uint32_t left[kStageSteps][4], next[kStageSteps][4];
  const auto load = [&](std::uint32_t(&to)[kStageSteps][4]) {
    wait_for_phase(barriers.full(slot), parity);
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step)
      Numbers::load(first_line + slot * kSchedule.stage_bytes(), kSchedule.line_bytes(), warp, lane,
                    step, to[step]);
  };
  if (item.count > 0) load(left);
#pragma unroll 1
  for (int i = 0; i < item.count; ++i) {
    const std::uint64_t right = right_descriptor(memory + slot * kSchedule.stage_bytes());
    const std::uint32_t is_free = barriers.free(slot);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step)
      Numbers::multiply(sums, left[step], right + step * (kStepBytes >> 4));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (++slot == kSchedule.ring_stages()) slot = 0, parity ^= 1;
    if (i + 1 < item.count) load(next);  // meanwhile
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    // All lanes have read their part of B. Where B is not copied in bulk, every lane says so
    // itself.
    __syncwarp();
    if (!kAligned || lane == 0) arrive(is_free);
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step) {
      // The MMAs read these registers until here: without this use the compiler would load the next
      // operands into them.
      asm volatile("" ::"r"(left[step][0]), "r"(left[step][1]), "r"(left[step][2]),
                   "r"(left[step][3]));
      for (int k = 0; k < 4; ++k) left[step][k] = next[step][k];
    }
  }
#endif
}

/// Leaves a lane's sums in shared memory, rows of the tile after rows.
template <class Numbers, Schedule kSchedule>
__device__ void leave_sums(unsigned char* memory, int group, int warp, int lane,
                           const float (&sums)[32]) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const int col = kGroupCols * group + Numbers::column(warp, lane / 4, upper);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = 8 * (i / 2) + 2 * (lane % 4) + i % 2;
      *reinterpret_cast<float*>(memory + row * kSchedule.sum_pitch() + 4 * col) =
          sums[4 * (i / 2) + 2 * upper + i % 2];
    }
  }
}

/// Writes four sums side by side.
template <class Numbers, bool kAligned>
__device__ void store_vector(const Arguments& arguments, int row, int col, float4 sums) {
  if (row >= arguments.rows || col >= arguments.n) return;
  const int place = arguments.places == nullptr ? row : arguments.places[row];
  const std::int64_t at = std::int64_t{place} * arguments.n + col;
  if constexpr (Numbers::kElementBytes == 2) {
    if (arguments.c_in_16_bits)
      return store_4_halves<typename Numbers::Element, kAligned>(
          static_cast<std::uint16_t*>(arguments.c) + at, sums, arguments.n - col,
          arguments.scaling);
  }
  store_16_bytes<kAligned>(static_cast<float*>(arguments.c) + at, sums, arguments.n - col,
                           arguments.scaling, Store::kStreaming);
}

/// Adds the sums of all parts in their order, for the rows that this thread block owns, and writes
/// them. `own` has its sums of all rows, `received` those of its rows by the other parts.
template <class Numbers, Schedule kSchedule, bool kAligned>
__device__ void add_parts(const Arguments& arguments, const Item& item, const unsigned char* own,
                          const unsigned char* received) {
  constexpr int kVectors = kSchedule.columns() / 4;  // of a row
  const int rows = kTileRows >> arguments.parts_log2, first = item.part * rows;
  const int part_bytes = rows * kSchedule.sum_pitch();
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < rows * kVectors; i += 128 * kSchedule.groups) {
    const int row = i / kVectors, vector = i % kVectors;
    const int at = row * kSchedule.sum_pitch() + 16 * vector;
    const auto sums_of = [&](int part) {
      return *reinterpret_cast<const float4*>((part == item.part ? own : received) +
                                              part * part_bytes + at);
    };
    float4 sum = sums_of(0);
#pragma unroll 1
    for (int part = 1; part < arguments.parts(); ++part) {
      const float4 next = sums_of(part);
      sum.x += next.x, sum.y += next.y, sum.z += next.z, sum.w += next.w;
    }
    store_vector<Numbers, kAligned>(arguments, item.row_tile * kTileRows + first + row,
                                    item.first_col + 4 * vector, sum);
  }
}

/// Sends the sums of the rows that other thread blocks own to them.
template <Schedule kSchedule>
__device__ void send_sums(int parts, int part, const unsigned char* own,
                          const unsigned char* received, std::uint32_t barrier) {
  const int rows = kTileRows / parts, bytes = rows * kSchedule.sum_pitch();
  const int to = static_cast<int>(threadIdx.x);
  if (to >= parts || to == part) return;
  copy_to_cluster(address_in_cluster(shared_address(received + part * bytes), to),
                  shared_address(own + to * bytes), bytes, address_in_cluster(barrier, to));
}

template <class Numbers, int kGroups, bool kAligned>
__global__ void __launch_bounds__(128 * kGroups + 32, 1)
    multiply(const Arguments arguments, const __grid_constant__ CUtensorMap map) {
  constexpr Schedule kSchedule{.groups = kGroups, .element_bytes = Numbers::kElementBytes};
  constexpr int kMultipliers = 128 * kGroups;  // threads
  extern __shared__ __align__(1024) unsigned char memory[];
  unsigned char* const received = memory + kSchedule.ring_bytes();
  const Barriers<kSchedule> barriers{shared_address(memory + kSchedule.barriers_at())};
  const Item item(arguments, kSchedule.columns());
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == kMultipliers) {
    if constexpr (kAligned) prefetch_map(map);
    for (int slot = 0; slot < kSchedule.ring_stages(); ++slot) {
      init_barrier(barriers.full(slot), kAligned ? 1 : 33);
      init_barrier(barriers.free(slot), kAligned ? kMultipliers / 32 : kMultipliers);
    }
    init_barrier(barriers.sums(), 1);
    publish_barriers();
    const int own_bytes = kSchedule.sums_bytes() >> arguments.parts_log2;
    arrive_and_expect(barriers.sums(), kSchedule.sums_bytes() - own_bytes);
  }
  __syncthreads();
  arrive_at_cluster();  // the barrier of the sums may be used by others
  begin_product();
  if (warp == kMultipliers / 32) {
    copy_operands<Numbers, kSchedule, kAligned>(arguments, map, item, memory, barriers, lane);
    __syncwarp();
    wait_for_cluster();
  } else {
    float sums[32] = {};
    multiply_stages<Numbers, kSchedule, kAligned>(item, memory, barriers, warp / 4, warp % 4, lane,
                                                  sums);
    wait_for_cluster();
    asm volatile("bar.sync 1, %0;" ::"n"(kMultipliers) : "memory");  // the ring is not read
    leave_sums<Numbers, kSchedule>(memory, warp / 4, warp % 4, lane, sums);
    fence_for_bulk_copies();
    asm volatile("bar.sync 1, %0;" ::"n"(kMultipliers) : "memory");
    send_sums<kSchedule>(arguments.parts(), item.part, memory, received, barriers.sums());
    wait_for_phase(barriers.sums(), 0);
    add_parts<Numbers, kSchedule, kAligned>(arguments, item, memory, received);
  }
  // No thread block ends while others copy its sums.
  arrive_at_cluster();
  wait_for_cluster();
}

}  // namespace tessera::dense_spmm
