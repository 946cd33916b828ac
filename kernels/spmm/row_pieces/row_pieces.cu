// Arrays and launches of the kernels over row parts. See kernels/spmm/row_pieces/row_pieces.hpp.

#include "formats/csr.hpp"
#include "kernels/spmm/row_pieces/row_pieces_gpu.hpp"

namespace tessera::row_pieces {
namespace {

constexpr std::int64_t kMaxCols = std::int64_t{1} << 29;  // 32 bits count the bytes of a row of B
constexpr std::int64_t kMaxGrid = 0x7fffffff;             // thread blocks
constexpr std::size_t kBeyond = 64;  // nonzeros behind the last that loads of several may touch

/// A copy on the device with zeros behind it.
template <class T>
DeviceArray<T> padded(const Array<T>& host) {
  DeviceArray<T> device(host.size() + kBeyond);
  cuda_check(cudaMemset(device.data(), 0, device.size() * sizeof(T)), "clearing device memory");
  if (host.size() > 0) device.upload(std::span<const T>(host));
  return device;
}

/// Clears rows of C: those without a nonzero and those that atomics add to.
__global__ void clear_rows(const std::uint32_t* rows, std::uint32_t count, std::int64_t n,
                           Scaling scaling, float* c) {
  const std::uint32_t index = cleared_index(blockIdx.x, threadIdx.x / 32);
  if (index >= count) return;
  float* row = c + std::int64_t{rows[index]} * n;
  for (std::int64_t i = threadIdx.x % 32; i < n; i += 32) row[i] = scaled(scaling, 0, row + i);
}

class Multiplication final : public GpuMultiplication {
 public:
  Multiplication(const CsrMatrix& a, std::int64_t n, const Method& method, SelectInstances select)
      : Multiplication(a, n, method, select, method.cut(a)) {}

  std::vector<int> registers() const override {
    std::vector<int> all;
    if (cleared_.size() > 0) all.push_back(registers_of(clear_rows));
    all.push_back(registers_of(kernels_.aligned));
    return all;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    arguments_.b = operands.b_fp32(), arguments_.c = operands.c_fp32(),
    arguments_.scaling = operands.scaling;
    if (cleared_.size() > 0 && arguments_.n > 0) {
      const auto count = static_cast<std::uint32_t>(cleared_.size());
      clear_rows<<<static_cast<unsigned>(clearing_blocks(count)), kClearThreads, 0, stream>>>(
          cleared_.data(), count, arguments_.n, operands.scaling, operands.c_fp32());
      cuda_check(cudaGetLastError(), "launching the clearing of rows");
    }
    if (schedule_.thread_blocks() == 0) return;
    const Kernel run = fits(operands) ? kernels_.aligned : kernels_.any;
    run<<<static_cast<unsigned>(schedule_.thread_blocks()), schedule_.shape.threads(),
          static_cast<std::size_t>(schedule_.shared_bytes()), stream>>>(arguments_);
    cuda_check(cudaGetLastError(), name_.c_str());
  }

 private:
  Multiplication(const CsrMatrix& a, std::int64_t n, const Method& method, SelectInstances select,
                 const Plan& plan)
      : name_("launching " + method.name),
        schedule_{.shape = method.shape(a, n), .num_units = plan.num_units(), .n = n},
        kernels_(select(schedule_.shape)),
        row_parts_(plan.row_parts),
        shares_(plan.shares),
        split_rows_(plan.split_rows),
        split_row_of_slot_(plan.split_row_of_slot),
        cleared_(plan.cleared(method.atomic)),
        col_indices_(padded(a.col_indices)),
        values_(padded(a.values)) {
    require<Unsupported>(n <= kMaxCols, "{} takes at most {} columns of B, not {}", method.name,
                         kMaxCols, n);
    const std::int64_t chunks = schedule_.chunks(), num_slots = std::ssize(plan.split_row_of_slot);
    if (!method.atomic) {
      slots_ = DeviceArray<float>(
          static_cast<std::size_t>(slot_offset(chunks, num_slots, 0, schedule_.shape.columns())));
      arrivals_ = DeviceArray<std::uint32_t>(
          std::vector<std::uint32_t>(static_cast<std::size_t>(chunks) * plan.split_rows.size(), 0));
    }
    require<Unsupported>(schedule_.thread_blocks() <= kMaxGrid,
                         "{} needs {} thread blocks; a grid has at most {}", method.name,
                         schedule_.thread_blocks(), kMaxGrid);
    arguments_ = {.row_parts = row_parts_.data(),
                  .shares = shares_.data(),
                  .num_units = static_cast<std::uint32_t>(plan.num_units()),
                  .blocks_of_units = static_cast<std::uint32_t>(schedule_.blocks_of_units()),
                  .split_rows = split_rows_.data(),
                  .split_row_of_slot = split_row_of_slot_.data(),
                  .num_split_rows = std::ssize(plan.split_rows),
                  .num_slots = num_slots,
                  .slots = slots_.data(),
                  .arrivals = arrivals_.data(),
                  .atomic = method.atomic,
                  .col_indices = col_indices_.data(),
                  .values = values_.data(),
                  .n = n,
                  .b = nullptr,
                  .c = nullptr,
                  .scaling = {}};
    load_now(clear_rows, kernels_.aligned, kernels_.any);
  }

  bool fits(const Operands& operands) const {
    const auto bytes = static_cast<std::uintptr_t>(4 * kernels_.width);
    return arguments_.n % kernels_.width == 0 &&
           reinterpret_cast<std::uintptr_t>(operands.b) % bytes == 0 &&
           reinterpret_cast<std::uintptr_t>(operands.c) % bytes == 0;
  }

  std::string name_;
  Schedule schedule_;
  KernelInstances kernels_;
  DeviceArray<RowPart> row_parts_;
  DeviceArray<std::uint32_t> shares_;
  DeviceArray<SplitRow> split_rows_;
  DeviceArray<std::uint32_t> split_row_of_slot_;
  DeviceArray<std::uint32_t> cleared_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceArray<float> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  KernelArguments arguments_ = {};
};

class GpuRowPieces final : public GpuSpmm {
 public:
  GpuRowPieces(Method method, SelectInstances select)
      : method_(std::move(method)), select_(select) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<Multiplication>(packed_as<CsrPacked>(packed).matrix, n, method_,
                                            select_);
  }

 private:
  Method method_;
  SelectInstances select_;
};

}  // namespace

std::unique_ptr<GpuSpmm> make_gpu_spmm(Method method, SelectInstances select) {
  return std::make_unique<GpuRowPieces>(std::move(method), select);
}

}  // namespace tessera::row_pieces
