// Products of vectors on the device. The upload makes A's operands and the workspaces; each launch
// converts B to FP16 or INT8, where the operands need it, and multiplies.

#include "kernels/spmm/vector_tiles/vector_tiles_gpu.hpp"

#include <climits>
#include <cmath>

#include "kernels/spmm/vector_tiles/vector_tiles.cuh"
#include "kernels/tensor_core/int8_scale.hpp"

namespace tessera::vector_tiles {
namespace {

/// B, as a conversion reads it.
struct Source {
  const float* b;  // [rows x n]
  std::int64_t rows, n;
  std::int64_t pitch;  // of the workspace, elements
  int lanes;           // of a row: see ConversionSchedule
  bool aligned_to_16_bytes;
};

/// Calls visit(row, col, the four columns from there on) for all of the padded B, with zeros beyond
/// the edge of B.
template <class Visit>
__device__ void for_each_four_columns(const Source& source, Visit visit) {
  const std::int64_t first_row =
      ConversionSchedule::first_row(blockIdx.x, threadIdx.x / 32, source.lanes);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t row = first_row + lane / source.lanes;
  if (row >= source.rows) return;
  const float* from = source.b + row * source.n;
  for (std::int64_t col = lane % source.lanes * ConversionSchedule::kLaneCols; col < source.pitch;
       col += ConversionSchedule::kLaneCols * source.lanes) {
    float4 four{0, 0, 0, 0};
    if (source.aligned_to_16_bytes) {
      if (col < source.n) four = *reinterpret_cast<const float4*>(from + col);
    } else {
      if (col < source.n) four.x = from[col];
      if (col + 1 < source.n) four.y = from[col + 1];
      if (col + 2 < source.n) four.z = from[col + 2];
      if (col + 3 < source.n) four.w = from[col + 3];
    }
    visit(row, col, four);
  }
}

__global__ void __launch_bounds__(ConversionSchedule::kThreads)
    to_fp16(Source source, std::uint16_t* to) {
  for_each_four_columns(source, [&](std::int64_t row, std::int64_t col, float4 four) {
    *reinterpret_cast<uint2*>(to + row * source.pitch + col) = {PackedFp16::pair(four.x, four.y),
                                                                PackedFp16::pair(four.z, four.w)};
  });
}

/// Finds the bits of the largest magnitude. A NaN has larger bits than any number.
__global__ void __launch_bounds__(ConversionSchedule::kThreads)
    find_largest(Source source, unsigned* largest) {
  unsigned most = 0;
  for_each_four_columns(source, [&](std::int64_t, std::int64_t, float4 four) {
    const float each[4] = {four.x, four.y, four.z, four.w};
    for (const float value : each) most = max(most, __float_as_uint(value) & 0x7fffffffu);
  });
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0 && most > 0) atomicMax(largest, most);
}

__device__ std::uint32_t quantize(float value, float scale) {
  if (scale == 0) return 0;
  const int rounded = __float2int_rn(__fdiv_rn(value, scale));  // 0 for a NaN
  return static_cast<std::uint32_t>(max(-kLargestInt8, min(rounded, kLargestInt8))) & 0xff;
}

__global__ void __launch_bounds__(ConversionSchedule::kThreads)
    to_int8(Source source, const float* largest, std::uint8_t* to) {
  const float scale = scale_of(*largest);
  for_each_four_columns(source, [&](std::int64_t row, std::int64_t col, float4 four) {
    *reinterpret_cast<std::uint32_t*>(to + row * source.pitch + col) =
        quantize(four.x, scale) | quantize(four.y, scale) << 8 | quantize(four.z, scale) << 16 |
        quantize(four.w, scale) << 24;
  });
}

/// Prepares the rows of C of split windows for atomics: a thread block for each window.
__global__ void begin_split_windows(KernelArguments product) {
  const std::int64_t window = product.tasks[product.meeting.splits[blockIdx.x].first_task].window;
  const std::int64_t row = window * product.vector_rows;
  const std::int64_t end = min(row + product.vector_rows, product.rows);
  begin_adding(product.c, row * product.n + threadIdx.x, end * product.n, product.scaling);
}

/// A's values, in their order, as bytes of operands.
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
      : schedule_(plan.schedule),
        scale_(plan.operand() == Operand::kInt8 ? a.values : std::span<const float>()),
        col_indices_(a.col_indices),
        values_(operands_of(a, plan.operand(), scale_)),
        tasks_(plan.tasks.tasks),
        splits_(plan.tasks.splits),
        slots_(static_cast<std::size_t>(plan.schedule.chunks() * plan.tasks.slots *
                                        slot_bytes(plan.groups())) /
               sizeof(float4)),
        arrivals_(std::vector<std::uint32_t>(static_cast<std::size_t>(plan.schedule.chunks()) *
                                             plan.tasks.splits.size())) {
    require<Unsupported>(n <= INT_MAX, "kernels over vectors take at most {} columns of B, not {}",
                         INT_MAX, n);
    const std::int64_t pitch = gathered_cols(operand(), n);
    const ConversionSchedule conversion(a.cols, pitch);
    source_.rows = a.cols, source_.n = n, source_.pitch = pitch, source_.lanes = conversion.lanes;
    conversion_blocks_ = conversion.thread_blocks();
    const std::int64_t grid = std::max(schedule_.thread_blocks(), conversion_blocks_);
    require<Unsupported>(grid <= INT_MAX,
                         "a product of vectors needs {} thread blocks; a grid has at most {}", grid,
                         INT_MAX);
    if (has_workspace(operand()))
      workspace_ =
          DeviceArray<std::uint8_t>(static_cast<std::size_t>(pitch * a.cols * b_bytes(operand())));
    if (operand() == Operand::kInt8) largest_ = DeviceArray<float>(std::size_t{1});
    product_ = {.rows = a.rows,
                .n = n,
                .vector_rows = a.vector_rows,
                .col_indices = col_indices_.data(),
                .values = values_.data(),
                .tasks = tasks_.data(),
                .num_tasks = static_cast<std::uint32_t>(schedule_.num_tasks),
                .meeting = {splits_.data(), static_cast<std::uint32_t>(plan.tasks.splits.size()),
                            plan.tasks.slots, slots_.data(), arrivals_.data()},
                .atomic = plan.atomic,
                .stages = schedule_.stages,
                .b = workspace_.data(),
                .pitch = static_cast<std::uint32_t>(pitch),
                .c_in_16_bytes = false,
                .c = nullptr,
                .scaling = {},
                .a_scale = scale_.value(),
                .largest_b = largest_.data()};
    shared_bytes_ = static_cast<std::size_t>(schedule_.shared_bytes());
    load_now(begin_split_windows, to_fp16, find_largest, to_int8, kernel(false), kernel(true));
    allow_shared_memory(static_cast<std::int64_t>(shared_bytes_), kernel(false), kernel(true));
  }

  std::vector<int> registers() const override {
    std::vector<int> registers;
    if (operand() == Operand::kInt8)
      registers = {registers_of(find_largest), registers_of(to_int8)};
    if (operand() == Operand::kFp16) registers = {registers_of(to_fp16)};
    registers.push_back(registers_of(kernel(true)));
    return registers;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (schedule_.thread_blocks() == 0) return;
    const bool aligned = aligned_to_16_bytes(product_.n, operands);
    KernelArguments product = product_;
    product.c = operands.c_fp32(), product.c_in_16_bytes = aligned,
    product.scaling = operands.scaling;
    if (has_workspace(operand()))
      convert_b(operands.b_fp32(), stream);
    else
      product.b = operands.b_fp32();
    if (product.atomic && product.meeting.num_splits > 0) {
      begin_split_windows<<<product.meeting.num_splits, 256, 0, stream>>>(product);
      cuda_check(cudaGetLastError(), "launching the preparation of split windows");
    }
    kernel(aligned)<<<static_cast<unsigned>(schedule_.thread_blocks()), kThreads, shared_bytes_,
                      stream>>>(product);
    cuda_check(cudaGetLastError(), "launching a product of vectors");
  }

 private:
  void convert_b(const float* b, cudaStream_t stream) {
    if (conversion_blocks_ == 0) return;
    Source source = source_;
    source.b = b;
    source.aligned_to_16_bytes = source.n % 4 == 0 && reinterpret_cast<std::uintptr_t>(b) % 16 == 0;
    const auto blocks = static_cast<unsigned>(conversion_blocks_);
    if (operand() == Operand::kFp16) {
      to_fp16<<<blocks, ConversionSchedule::kThreads, 0, stream>>>(
          source, reinterpret_cast<std::uint16_t*>(workspace_.data()));
    } else {
      cuda_check(cudaMemsetAsync(largest_.data(), 0, sizeof(float), stream), "clearing a scale");
      find_largest<<<blocks, ConversionSchedule::kThreads, 0, stream>>>(
          source, reinterpret_cast<unsigned*>(largest_.data()));
      to_int8<<<blocks, ConversionSchedule::kThreads, 0, stream>>>(source, largest_.data(),
                                                                   workspace_.data());
    }
    cuda_check(cudaGetLastError(), "launching the conversion of B");
  }

  Operand operand() const { return schedule_.instance.operand; }

  Kernel kernel(bool aligned) const {
    return schedule_.instance.pipeline == Pipeline::kStaged
               ? staged_kernel(schedule_.instance, aligned)
               : registers_kernel(schedule_.instance, aligned);
  }

  Schedule schedule_;
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
  std::int64_t conversion_blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

}  // namespace

std::unique_ptr<GpuMultiplication> upload(const Vectors& a, const Plan& plan, std::int64_t n) {
  return std::make_unique<Multiplication>(a, plan, n);
}

}  // namespace tessera::vector_tiles
