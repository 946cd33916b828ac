// Arrays and launches of the kernels on pieces of rows. See kernels/spmm/row_pieces/row_pieces.hpp.

#include "formats/csr.hpp"
#include "kernels/spmm/row_pieces/row_pieces_gpu.hpp"

namespace tessera::row_pieces {
namespace {

constexpr std::int64_t kMaxCols = std::int64_t{1} << 29;  // a row of B in 32-bit bytes
constexpr std::size_t kBeyond = 64;                       // nonzeros that a group may run over

/// A copy on the device with zeros behind it.
template <class T>
DeviceArray<T> padded(const Array<T>& host) {
  DeviceArray<T> device(host.size() + kBeyond);
  cuda_check(cudaMemset(device.data(), 0, device.size() * sizeof(T)), "clearing device memory");
  if (host.size() > 0) device.upload(std::span<const T>(host));
  return device;
}

/// Rows without a nonzero, and those that atomics add to.
__global__ void clear_rows(const std::uint32_t* rows, std::uint32_t count, std::int64_t n,
                           Scaling scaling, float* c) {
  const std::uint32_t index = blockIdx.x * kClearRows + threadIdx.x / 32;
  if (index >= count) return;
  float* row = c + std::int64_t{rows[index]} * n;
  for (std::int64_t i = threadIdx.x % 32; i < n; i += 32) row[i] = scaled(scaling, 0, row + i);
}

class Multiplication final : public GpuMultiplication {
 public:
  Multiplication(const CsrMatrix& a, std::int64_t n, const Method& method, Pick pick)
      : Multiplication(a, n, method, pick, method.cut(a)) {}

  std::vector<int> registers() const override {
    std::vector<int> all;
    if (cleared_.size() > 0) all.push_back(registers_of(clear_rows));
    all.push_back(registers_of(kernels_.aligned));
    return all;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    product_.b = operands.b, product_.c = operands.c, product_.scaling = operands.scaling;
    if (cleared_.size() > 0 && product_.n > 0) {
      const auto count = static_cast<std::uint32_t>(cleared_.size());
      clear_rows<<<static_cast<unsigned>(clearing_blocks(count)), kClearThreads, 0, stream>>>(
          cleared_.data(), count, product_.n, operands.scaling, operands.c);
      cuda_check(cudaGetLastError(), "launching the clearing of rows");
    }
    if (thread_blocks_ == 0) return;
    const Kernel run = fits(operands) ? kernels_.aligned : kernels_.any;
    run<<<static_cast<unsigned>(thread_blocks_), 32 * shape_.warps,
          static_cast<std::size_t>(shared_bytes(shape_)), stream>>>(product_);
    cuda_check(cudaGetLastError(), name_.c_str());
  }

 private:
  Multiplication(const CsrMatrix& a, std::int64_t n, const Method& method, Pick pick,
                 const Plan& plan)
      : name_("launching " + method.name),
        shape_(method.shape(a, n)),
        kernels_(pick(shape_)),
        pieces_(plan.pieces),
        shares_(plan.shares),
        splits_(plan.splits),
        split_of_slot_(plan.split_of_slot),
        cleared_(plan.cleared(method.atomic)),
        col_indices_(padded(a.col_indices)),
        values_(padded(a.values)) {
    require<Unsupported>(n <= kMaxCols, "{} takes at most {} columns of B, not {}", method.name,
                         kMaxCols, n);
    const auto chunks = static_cast<std::size_t>(shape_.chunks(n));
    if (!method.atomic) {
      slots_ = DeviceArray<float>(chunks * split_of_slot_.size() *
                                  static_cast<std::size_t>(shape_.columns()));
      arrivals_ =
          DeviceArray<std::uint32_t>(std::vector<std::uint32_t>(chunks * splits_.size(), 0));
    }
    const std::int64_t blocks_of_units = shape_.blocks_of_units(plan);
    thread_blocks_ = blocks_of_units * shape_.chunks(n);
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    product_ = {.pieces = pieces_.data(),
                .shares = shares_.data(),
                .num_units = static_cast<std::uint32_t>(plan.num_units()),
                .blocks_of_units = static_cast<std::uint32_t>(blocks_of_units),
                .splits = splits_.data(),
                .split_of_slot = split_of_slot_.data(),
                .num_splits = static_cast<std::int64_t>(splits_.size()),
                .num_slots = static_cast<std::int64_t>(split_of_slot_.size()),
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
    return product_.n % kernels_.width == 0 &&
           reinterpret_cast<std::uintptr_t>(operands.b) % bytes == 0 &&
           reinterpret_cast<std::uintptr_t>(operands.c) % bytes == 0;
  }

  std::string name_;
  Shape shape_;
  Kernels kernels_;
  DeviceArray<Piece> pieces_;
  DeviceArray<std::uint32_t> shares_;
  DeviceArray<Split> splits_;
  DeviceArray<std::uint32_t> split_of_slot_;
  DeviceArray<std::uint32_t> cleared_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceArray<float> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  KernelArguments product_ = {};
  std::int64_t thread_blocks_ = 0;
};

class GpuRowPieces final : public GpuSpmm {
 public:
  GpuRowPieces(Method method, Pick pick) : method_(std::move(method)), pick_(pick) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<Multiplication>(packed_as<CsrPacked>(packed).matrix, n, method_, pick_);
  }

 private:
  Method method_;
  Pick pick_;
};

}  // namespace

std::unique_ptr<GpuSpmm> make_gpu_spmm(Method method, Pick pick) {
  return std::make_unique<GpuRowPieces>(std::move(method), pick);
}

}  // namespace tessera::row_pieces
