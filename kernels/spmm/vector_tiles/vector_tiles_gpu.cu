// Products of vectors on the device: A's operands and the workspaces when A is uploaded; B into
// FP16 or INT8, and the product, in each launch.

#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

#include <climits>
#include <cmath>

#include "kernels/spmm/vector_tiles/vector_tiles.cuh"
#include "kernels/tensor_core/int8_scale.hpp"

namespace tessera::vector_tiles {
namespace {

/// B on its way into the workspace.
struct Source {
  const float* b;  // [rows x n]
  std::int64_t rows, n;
  std::int64_t pitch;  // of the workspace, elements
  int lanes;           // of a row
  bool aligned_to_16_bytes;
};

/// Calls visit(row, col, the four columns from there on) for all of the padded B; zeros beyond its
/// edge.
template <class Visit>
__device__ void for_each_piece(const Source& source, Visit visit) {
  const std::int64_t warp =
      std::int64_t{blockIdx.x} * ConversionShape::kConversionWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t row = warp * (32 / source.lanes) + lane / source.lanes;
  if (row >= source.rows) return;
  const float* from = source.b + row * source.n;
  for (std::int64_t col = lane % source.lanes * 4; col < source.pitch; col += 4 * source.lanes) {
    float4 piece{0, 0, 0, 0};
    if (source.aligned_to_16_bytes) {
      if (col < source.n) piece = *reinterpret_cast<const float4*>(from + col);
    } else {
      if (col < source.n) piece.x = from[col];
      if (col + 1 < source.n) piece.y = from[col + 1];
      if (col + 2 < source.n) piece.z = from[col + 2];
      if (col + 3 < source.n) piece.w = from[col + 3];
    }
    visit(row, col, piece);
  }
}

constexpr int kConversionThreads = 32 * ConversionShape::kConversionWarps;

__global__ void __launch_bounds__(kConversionThreads) to_fp16(Source source, std::uint16_t* to) {
  for_each_piece(source, [&](std::int64_t row, std::int64_t col, float4 piece) {
    *reinterpret_cast<uint2*>(to + row * source.pitch + col) = {
        PackedFp16::pair(piece.x, piece.y), PackedFp16::pair(piece.z, piece.w)};
  });
}

/// The largest magnitude; as bits, of which a NaN has more than anything.
__global__ void __launch_bounds__(kConversionThreads)
    find_largest(Source source, unsigned* largest) {
  unsigned most = 0;
  for_each_piece(source, [&](std::int64_t, std::int64_t, float4 piece) {
    const float each[4] = {piece.x, piece.y, piece.z, piece.w};
    for (const float value : each) most = max(most, __float_as_uint(value) & 0x7fffffffu);
  });
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0 && most > 0) atomicMax(largest, most);
}

__device__ std::uint32_t quantize(float value, float scale) {
  if (scale == 0) return 0;
  const int rounded = __float2int_rn(__fdiv_rn(value, scale));  // 0 of a NaN
  return static_cast<std::uint32_t>(max(-kLargestInt8, min(rounded, kLargestInt8))) & 0xff;
}

__global__ void __launch_bounds__(kConversionThreads)
    to_int8(Source source, const float* largest, std::uint8_t* to) {
  const float scale = scale_of(*largest);
  for_each_piece(source, [&](std::int64_t row, std::int64_t col, float4 piece) {
    *reinterpret_cast<std::uint32_t*>(to + row * source.pitch + col) =
        quantize(piece.x, scale) | quantize(piece.y, scale) << 8 | quantize(piece.z, scale) << 16 |
        quantize(piece.w, scale) << 24;
  });
}

/// What cut windows are before atomics add to them: a thread block for each.
__global__ void begin_cut_windows(KernelArguments product) {
  const std::int64_t window = product.tasks[product.meeting.splits[blockIdx.x].first_task].window;
  const std::int64_t row = window * product.vector_rows;
  const std::int64_t end = min(row + product.vector_rows, product.rows);
  begin_adding(product.c, row * product.n + threadIdx.x, end * product.n, product.scaling);
}

/// A's values as operands, in their order.
std::vector<std::uint8_t> operands_of(const Vectors& a, Operand operand, const Int8Scale& scale) {
  const std::size_t bytes = static_cast<std::size_t>(a_bytes(operand));
  std::vector<std::uint8_t> operands(a.values.size() * bytes);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    std::uint32_t bits = 0;
    if (operand == Operand::kTf32)
      bits = std::bit_cast<std::uint32_t>(convert(a.values[i], Conversion::kTf32));
    else if (operand == Operand::kInt8)
      bits = static_cast<std::uint8_t>(scale.quantize(a.values[i]));
    else
      bits = fp16_bits(convert(a.values[i], Conversion::kFp16));
    for (std::size_t byte = 0; byte < bytes; ++byte)
      operands[i * bytes + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
  }
  return operands;
}

class Multiplication final : public GpuMultiplication {
 public:
  Multiplication(const Vectors& a, const Plan& plan, std::int64_t n)
      : plan_(plan),
        depth_(a.depth),
        scale_(plan.operand == Operand::kInt8 ? a.values : std::span<const float>()),
        col_indices_(a.col_indices),
        values_(operands_of(a, plan.operand, scale_)),
        tasks_(plan.tasks.tasks),
        splits_(plan.tasks.splits),
        slots_(static_cast<std::size_t>(plan.num_chunks(n) * plan.tasks.slots * 64 * plan.groups)),
        arrivals_(std::vector<std::uint32_t>(static_cast<std::size_t>(plan.num_chunks(n)) *
                                             plan.tasks.splits.size())) {
    require<Unsupported>(n <= INT_MAX, "{} columns of B are more than the kernels count", n);
    const std::int64_t pitch = gathered_cols(plan.operand, n);
    const ConversionShape shape(a.cols, pitch);
    source_.rows = a.cols, source_.n = n, source_.pitch = pitch, source_.lanes = shape.lanes;
    conversion_blocks_ = shape.thread_blocks();
    const auto count = static_cast<std::int64_t>(plan.tasks.tasks.size());
    thread_blocks_ = (count + kWarps - 1) / kWarps * plan.num_chunks(n);
    require<Unsupported>(std::max(thread_blocks_, conversion_blocks_) <= INT_MAX,
                         "{} thread blocks are more than a grid holds",
                         std::max(thread_blocks_, conversion_blocks_));
    if (has_workspace(plan.operand))
      workspace_ = DeviceArray<std::uint8_t>(
          static_cast<std::size_t>(pitch * a.cols * b_bytes(plan.operand)));
    if (plan.operand == Operand::kInt8) largest_ = DeviceArray<float>(std::size_t{1});
    product_ = {.rows = a.rows,
                .n = n,
                .vector_rows = a.vector_rows,
                .col_indices = col_indices_.data(),
                .values = values_.data(),
                .tasks = tasks_.data(),
                .num_tasks = static_cast<std::uint32_t>(count),
                .meeting = {splits_.data(), static_cast<std::uint32_t>(plan.tasks.splits.size()),
                            plan.tasks.slots, slots_.data(), arrivals_.data()},
                .atomic = plan.atomic,
                .stages = plan.stages,
                .b = workspace_.data(),
                .pitch = static_cast<std::uint32_t>(pitch),
                .c_in_16_bytes = false,
                .c = nullptr,
                .scaling = {},
                .a_scale = scale_.value(),
                .largest_b = largest_.data()};
    shared_bytes_ = static_cast<std::size_t>(plan.shared_bytes(a.depth));
    load_now(begin_cut_windows, to_fp16, find_largest, to_int8, kernel(false), kernel(true));
    allow_shared_memory(static_cast<std::int64_t>(shared_bytes_), kernel(false), kernel(true));
  }

  std::vector<int> registers() const override {
    std::vector<int> registers;
    if (plan_.operand == Operand::kInt8)
      registers = {registers_of(find_largest), registers_of(to_int8)};
    if (plan_.operand == Operand::kFp16) registers = {registers_of(to_fp16)};
    registers.push_back(registers_of(kernel(true)));
    return registers;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    const bool aligned = aligned_to_16_bytes(product_.n, operands);
    KernelArguments product = product_;
    product.c = operands.c, product.c_in_16_bytes = aligned, product.scaling = operands.scaling;
    if (has_workspace(plan_.operand))
      convert_b(operands.b, stream);
    else
      product.b = operands.b;
    if (product.atomic && product.meeting.num_splits > 0) {
      begin_cut_windows<<<product.meeting.num_splits, 256, 0, stream>>>(product);
      cuda_check(cudaGetLastError(), "launching the beginning of cut windows");
    }
    kernel(aligned)<<<static_cast<unsigned>(thread_blocks_), kThreads, shared_bytes_, stream>>>(
        product);
    cuda_check(cudaGetLastError(), "launching a product of vectors");
  }

 private:
  void convert_b(const float* b, cudaStream_t stream) {
    if (conversion_blocks_ == 0) return;
    Source source = source_;
    source.b = b;
    source.aligned_to_16_bytes = source.n % 4 == 0 && reinterpret_cast<std::uintptr_t>(b) % 16 == 0;
    const auto blocks = static_cast<unsigned>(conversion_blocks_);
    if (plan_.operand == Operand::kFp16) {
      to_fp16<<<blocks, kConversionThreads, 0, stream>>>(
          source, reinterpret_cast<std::uint16_t*>(workspace_.data()));
    } else {
      cuda_check(cudaMemsetAsync(largest_.data(), 0, sizeof(float), stream), "clearing a scale");
      find_largest<<<blocks, kConversionThreads, 0, stream>>>(
          source, reinterpret_cast<unsigned*>(largest_.data()));
      to_int8<<<blocks, kConversionThreads, 0, stream>>>(source, largest_.data(),
                                                         workspace_.data());
    }
    cuda_check(cudaGetLastError(), "launching the conversion of B");
  }

  Kernel kernel(bool aligned) const {
    return plan_.staged ? staged_kernel(plan_.operand, depth_, plan_.groups, aligned)
                        : registers_kernel(plan_.operand, depth_, plan_.mapped, aligned);
  }

  Plan plan_;
  int depth_;
  Int8Scale scale_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<std::uint8_t> values_;
  DeviceArray<Task> tasks_;
  DeviceArray<window_tasks::Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  DeviceArray<std::uint8_t> workspace_;
  DeviceArray<float> largest_;
  KernelArguments product_ = {};
  Source source_ = {};
  std::int64_t thread_blocks_ = 0, conversion_blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

}  // namespace

std::unique_ptr<GpuMultiplication> upload(const Vectors& a, const Plan& plan, std::int64_t n) {
  return std::make_unique<Multiplication>(a, plan, n);
}

}  // namespace tessera::vector_tiles
