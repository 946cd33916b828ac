// The device half of kernels/spmm/vector_tiles/vector_tiles.hpp: operands of each type, the copies
// of rows of B to shared memory, the MMAs of a TC block and the writes to C.
//
// Lane l has g = l / 4 and t = l % 4: four columns of every 32 of B, rows pack t to pack t + pack -
// 1 of every 4 pack of a TC block, and rows 2t and 2t + 1 of the window's C.
#pragma once

#include "kernels/device/async_copies.cuh"
#include "kernels/device/loads.cuh"
#include "kernels/device/store_16_bytes.cuh"
#include "kernels/spmm/row_windows/split_windows.cuh"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"
#include "kernels/tensor_core/half_operands.cuh"
#include "kernels/tensor_core/mma.cuh"

namespace tessera::vector_tiles {

using window_tasks::Task;

struct KernelArguments {
  std::int64_t rows, n;
  int vector_rows;
  const std::int32_t* col_indices;  // [vectors]
  const void* values;               // [vectors * vector_rows] as operands
  const Task* tasks;                // [num_tasks]
  std::uint32_t num_tasks;
  window_tasks::SplitWindowSums meeting;
  bool atomic;
  int stages;
  const void* b;        // the gathered rows: B or the workspace
  std::uint32_t pitch;  // from one of them to the next, elements
  bool c_in_16_bytes;
  float* c;
  Scaling scaling;
  float a_scale;           // kInt8: the scale of A
  const float* largest_b;  // kInt8: the largest magnitude of B
};

using Kernel = void (*)(KernelArguments);

/// The kernel of an instance of each pipeline. `aligned`: rows of B are aligned to 16 bytes.
Kernel staged_kernel(const Instance& instance, bool aligned);
Kernel registers_kernel(const Instance& instance, bool aligned);

/// Looks `instance` up in kInstances at compile time for each of its rows: kernel_at<i>(aligned)
/// gives the kernel of row i. Null for an instance that is not in the table.
template <template <std::size_t> class KernelAt>
Kernel find_kernel(const Instance& instance, bool aligned) {
  const Instance* found = find_instance(instance.pipeline, instance.operand, instance.depth,
                                        instance.mapped, instance.groups);
  if (found == nullptr) return nullptr;
  const auto index = static_cast<std::size_t>(found - kInstances.data());
  Kernel kernel = nullptr;
  const auto try_all = [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((i == index ? static_cast<void>(kernel = KernelAt<i>::get(aligned)) : static_cast<void>(0)),
     ...);
  };
  try_all(std::make_index_sequence<kInstances.size()>());
  return kernel;
}

/// The scale of INT8 operands in a matrix with that largest magnitude: the value of a 1.
__device__ inline float scale_of(float largest) { return __fdiv_rn(largest, 127.0f); }

// Operand types: the four columns of a row of B that a lane loads (Columns4), and their conversion,
// kPack rows at a time, to registers of the left operand, one for each column.

struct Tf32Operands {
  using Element = float;
  using Columns4 = float4;
  using Value = std::uint32_t;
  using Sum = float;
  static constexpr int kPack = 1;
  __device__ static Columns4 join(const Element (&e)[4]) { return {e[0], e[1], e[2], e[3]}; }
  __device__ static void columns(const Columns4 (&rows)[1], std::uint32_t (&columns)[4]) {
    columns[0] = round_operand_to_tf32(rows[0].x), columns[1] = round_operand_to_tf32(rows[0].y);
    columns[2] = round_operand_to_tf32(rows[0].z), columns[3] = round_operand_to_tf32(rows[0].w);
  }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[2],
                             const std::uint32_t (&b)[1]) {
    mma_m16n8k4_tf32(d, a, b);
  }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k8_tf32(d, a, b);
  }
};

struct Fp16Mma {
  using Value = std::uint16_t;
  using Sum = float;
  static constexpr int kPack = 2;
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[2],
                             const std::uint32_t (&b)[1]) {
    mma_m16n8k8_fp16(d, a, b);
  }
  __device__ static void mma(float (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k16_fp16(d, a, b);
  }
};

struct Fp16OfFp32Operands : Fp16Mma {
  using Element = float;
  using Columns4 = float4;
  __device__ static Columns4 join(const Element (&e)[4]) { return {e[0], e[1], e[2], e[3]}; }
  __device__ static void columns(const Columns4 (&rows)[2], std::uint32_t (&columns)[4]) {
    columns[0] = PackedFp16::pair(rows[0].x, rows[1].x),
    columns[1] = PackedFp16::pair(rows[0].y, rows[1].y);
    columns[2] = PackedFp16::pair(rows[0].z, rows[1].z),
    columns[3] = PackedFp16::pair(rows[0].w, rows[1].w);
  }
};

struct Fp16Operands : Fp16Mma {
  using Element = std::uint16_t;
  using Columns4 = uint2;
  __device__ static Columns4 join(const Element (&e)[4]) {
    return {e[0] | std::uint32_t{e[1]} << 16, e[2] | std::uint32_t{e[3]} << 16};
  }
  __device__ static void columns(const Columns4 (&rows)[2], std::uint32_t (&columns)[4]) {
    constexpr std::uint32_t kLow = 0x5410, kHigh = 0x7632;
    columns[0] = __byte_perm(rows[0].x, rows[1].x, kLow);
    columns[1] = __byte_perm(rows[0].x, rows[1].x, kHigh);
    columns[2] = __byte_perm(rows[0].y, rows[1].y, kLow);
    columns[3] = __byte_perm(rows[0].y, rows[1].y, kHigh);
  }
};

struct Int8Operands {
  using Element = std::int8_t;
  using Columns4 = std::uint32_t;
  using Value = std::uint8_t;
  using Sum = int;
  static constexpr int kPack = 4;
  /// A transposition of 4 x 4 bytes.
  __device__ static void columns(const Columns4 (&rows)[4], std::uint32_t (&columns)[4]) {
    std::uint32_t pairs[2][2];  // [rows 0 and 1, rows 2 and 3][columns 0 and 1, 2 and 3]
    for (int i = 0; i < 2; ++i) {
      pairs[i][0] = __byte_perm(rows[2 * i], rows[2 * i + 1], 0x5140);
      pairs[i][1] = __byte_perm(rows[2 * i], rows[2 * i + 1], 0x7362);
    }
    for (int j = 0; j < 2; ++j) {
      columns[2 * j] = __byte_perm(pairs[0][j], pairs[1][j], 0x5410);
      columns[2 * j + 1] = __byte_perm(pairs[0][j], pairs[1][j], 0x7632);
    }
  }
  __device__ static void mma(int (&d)[4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[2]) {
    mma_m16n8k32_int8(d, a, b);
  }
};

/// A TC block of A as the right operand of an MMA; a register has kPack vectors of row g.
template <class Operands, int kDepth>
struct RightOperand {
  static constexpr int kPack = Operands::kPack, kRegisters = kDepth / (4 * kPack);
  std::uint32_t registers[kRegisters];

  /// Loads the TC block that begins with vector `first` ahead of its use; the task ends before
  /// vector `last`.
  __device__ void load(const KernelArguments& product, std::uint32_t first, std::uint32_t last,
                       int lane) {
    using Value = typename Operands::Value;
    const int width = static_cast<int>(min(last - first, std::uint32_t{kDepth}));
    const int row = lane / 4;
    const Value* values = static_cast<const Value*>(product.values) +
                          std::uint64_t{first} * static_cast<std::uint32_t>(product.vector_rows) +
                          row * width;
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      const int k = (4 * r + lane % 4) * kPack;
      registers[r] = 0;
      if (row >= product.vector_rows || k >= width) continue;
      if (kPack == 1 || width % kPack == 0) {
        registers[r] = load_ahead(reinterpret_cast<const std::uint32_t*>(values + k));
      } else {
        for (int i = 0; i < kPack; ++i)
          if (k + i < width)
            registers[r] |= std::uint32_t{values[k + i]} << (8 * sizeof(Value) * i);
      }
    }
  }
};

/// The column index of vector first + lane, or kNoColumn beyond the TC block.
template <int kDepth>
__device__ std::int32_t load_index(const KernelArguments& product, std::uint32_t first,
                                   std::uint32_t last, int lane) {
  if (lane >= kDepth || first + lane >= last) return kNoColumn;
  return load_ahead(product.col_indices + first + lane);
}

/// Adds 32 columns of a TC block to `sums`: rows[r][i] is row (4 r + t) kPack + i of its rows of B.
template <class Operands, int kDepth, class Rows>
__device__ void multiply(const Rows& rows, const RightOperand<Operands, kDepth>& a,
                         typename Operands::Sum (&sums)[2][4]) {
  constexpr int kRegisters = RightOperand<Operands, kDepth>::kRegisters;
  std::uint32_t left[2][2 * kRegisters];
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) {
    std::uint32_t columns[4];
    Operands::columns(rows[r], columns);
#pragma unroll
    for (int i = 0; i < 4; ++i) left[i / 2][2 * r + i % 2] = columns[i];
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) Operands::mma(sums[m], left[m], a.registers);
}

/// A lane's part of the copies of rows of B: 16 bytes of a row at a time.
template <class Operands, int kDepth, int kGroups, bool kAligned>
class Copier {
 public:
  using Element = typename Operands::Element;
  static constexpr int kLaneCols = 16 / static_cast<int>(sizeof(Element));
  static constexpr int kLanes = kGroups * kGroupCols / kLaneCols;  // of a row
  static constexpr int kRowsAtOnce = 32 / kLanes, kSteps = kDepth / kRowsAtOnce;
  static constexpr int kPitch = row_pitch(static_cast<int>(sizeof(Element)), kGroups);
  static_assert(kSteps >= 1, "a TC block has the rows of a copy");

  __device__ Copier(const KernelArguments& product, std::int64_t first_col, int lane)
      : row_(lane / kLanes), pitch_(product.pitch) {
    const int in_row = lane % kLanes * kLaneCols;
    const std::int64_t col = first_col + in_row;
    cols_ =
        static_cast<int>(min(max(product.pitch - col, std::int64_t{0}), std::int64_t{kLaneCols}));
    b_ = static_cast<const Element*>(product.b) + (cols_ > 0 ? col : 0);
    place_ = static_cast<std::uint32_t>(in_row) * sizeof(Element);
  }

  /// Copies rows of B to the stage at `stage` in shared memory. `index`: see load_index.
  __device__ void copy(std::int32_t index, unsigned char* stage) const {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int k = i * kRowsAtOnce + row_;
      const std::int32_t row = __shfl_sync(~0u, index, k);
      unsigned char* to = stage + row_in_stage(k, Operands::kPack) * kPitch + place_;
      const Element* from = b_ + std::uint64_t{static_cast<std::uint32_t>(max(row, 0))} * pitch_;
      if constexpr (kAligned) {
        copy_async<16>(to, from, row >= 0 && cols_ > 0);
      } else {
        for (int j = 0; j < kLaneCols; ++j) {
          const bool real = row >= 0 && j < cols_;
          copy_async<sizeof(Element)>(to + j * sizeof(Element), real ? from + j : b_, real);
        }
      }
    }
  }

 private:
  int row_;              // of the first rows that are copied at once
  std::uint32_t pitch_;  // of B, elements
  int cols_;             // columns of the lane within B
  const Element* b_;     // the lane's columns of row 0
  std::uint32_t place_;  // of its columns in a row of a stage, bytes
};

/// Adds a TC block in a stage times A to the sums of the lane.
template <class Operands, int kDepth, int kGroups>
__device__ void multiply_stage(const unsigned char* stage, int lane,
                               const RightOperand<Operands, kDepth>& a,
                               typename Operands::Sum (&sums)[kGroups][2][4]) {
  using Columns4 = typename Operands::Columns4;
  using Element = typename Operands::Element;
  constexpr int kPack = Operands::kPack, kRegisters = RightOperand<Operands, kDepth>::kRegisters;
  constexpr int kPitch = Copier<Operands, kDepth, kGroups, true>::kPitch;
  // Row kPack t + i is i fours further, at t of them.
  const unsigned char* from = stage + lane % 4 * kPitch + lane / 4 * sizeof(Columns4);
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    Columns4 rows[kRegisters][kPack];
#pragma unroll
    for (int r = 0; r < kRegisters; ++r)
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        rows[r][i] = *reinterpret_cast<const Columns4*>(
            from + row_in_stage(4 * kPack * r + i, kPack) * kPitch +
            group * kGroupCols * sizeof(Element));
    multiply<Operands, kDepth>(rows, a, sums[group]);
  }
}

/// Column `i` of a lane's four in a group of 32.
template <bool kMapped>
__device__ int col_of(int lane, int i) {
  return kMapped ? lane / 4 * 4 + i : lane / 4 + 8 * i;
}

/// Writes a lane's four sums to a row of C. No other function does.
template <bool kMapped>
__device__ void put(const KernelArguments& product, std::int64_t row, std::int64_t group_col,
                    int lane, float4 sums, bool adds) {
  const std::int64_t col = group_col + col_of<kMapped>(lane, 0);
  float* to = product.c + row * product.n + col;
  const std::int64_t cols = product.n - col;
  if constexpr (kMapped) {
    if (adds)
      add_16_bytes(to, sums, cols, product.scaling.alpha, product.c_in_16_bytes);
    else if (product.c_in_16_bytes)
      store_16_bytes<true>(to, sums, cols, product.scaling);
    else
      store_16_bytes<false>(to, sums, cols, product.scaling);
  } else {
    const float each[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (8 * i >= cols) continue;
      if (adds)
        atomicAdd(to + 8 * i, product.scaling.alpha * each[i]);
      else
        to[8 * i] = scaled(product.scaling, each[i], to + 8 * i);
    }
  }
}

/// The value of C of a sum of the tensor cores.
__device__ inline float value_of(const KernelArguments&, float sum) { return sum; }
__device__ inline float value_of(const KernelArguments& product, int sum) {
  const float a_scaled = __fmul_rn(static_cast<float>(sum), product.a_scale);
  return __fmul_rn(a_scaled, scale_of(*product.largest_b));
}

/// Brings the sums of task `index` for a chunk of columns to C.
template <bool kMapped, int kGroups, class Sum>
__device__ void deliver(const KernelArguments& product, std::uint32_t index, std::int64_t chunk,
                        const Task& task, int lane, const Sum (&sums)[kGroups][2][4]) {
  float4 values[slot_vectors(kGroups)];  // rows 2t and 2t + 1 of each 32 columns
#pragma unroll
  for (int i = 0; i < 2 * kGroups; ++i) {
    const auto& of = sums[i / 2];
    const int j = i % 2;
    values[i] = {value_of(product, of[0][j]), value_of(product, of[0][2 + j]),
                 value_of(product, of[1][j]), value_of(product, of[1][2 + j])};
  }
  const bool adds = task.split != 0 && product.atomic;
  if (task.split != 0 && !adds) {
    const window_tasks::Split split = product.meeting.splits[task.split - 1];
    if (!window_tasks::combine_split_window(product.meeting,
                                            {task.split - 1, index - split.first_task, split.parts},
                                            chunk, lane, values))
      return;
  }
#pragma unroll
  for (int i = 0; i < 2 * kGroups; ++i) {
    const int in_window = lane % 4 * 2 + i % 2;
    const std::int64_t row = task.window * std::int64_t{product.vector_rows} + in_window;
    if (in_window >= product.vector_rows || row >= product.rows) continue;
    put<kMapped>(product, row, (chunk * kGroups + i / 2) * kGroupCols, lane, values[i], adds);
  }
}

/// Calls run(task, chunk of columns) for the item of the warp.
template <class Run>
__device__ void run_task(const KernelArguments& product, Run run) {
  const WarpItem item = item_of(blockIdx.x, threadIdx.x / 32, product.num_tasks);
  if (item.task < product.num_tasks) run(item.task, std::int64_t{item.chunk});
}

/// The device type of an operand.
template <Operand kOperand>
struct OperandsOf;
template <>
struct OperandsOf<Operand::kTf32> {
  using Type = Tf32Operands;
};
template <>
struct OperandsOf<Operand::kFp16AsIs> {
  using Type = Fp16OfFp32Operands;
};
template <>
struct OperandsOf<Operand::kFp16> {
  using Type = Fp16Operands;
};
template <>
struct OperandsOf<Operand::kInt8> {
  using Type = Int8Operands;
};

}  // namespace tessera::vector_tiles
