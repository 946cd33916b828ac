// Device half of the cuSPARSE SDDMM baseline: X is the library's A, Y transposed its B, and S the
// values of its C, a CSR matrix with the pattern of ours.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/device/cusparse_library.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"

namespace tessera {
namespace {

using cusparse::check;
using cusparse::Library;

cudaDataType type_of(ElementType type) {
  if (type == ElementType::kFp32) return CUDA_R_32F;
  return type == ElementType::kFp16 ? CUDA_R_16F : CUDA_R_16BF;
}

class CusparseSampledProduct final : public GpuSampledProduct {
 public:
  CusparseSampledProduct(const CsrMatrix& a, std::int64_t k, const Storage& storage)
      : rows_(a.rows), cols_(a.cols), nnz_(a.nnz()), k_(k), storage_(storage) {
    require<Unsupported>(a.nnz() > 0, "cuSPARSE's SDDMM refuses a matrix without nonzeros");
    require<Unsupported>(a.nnz() <= 0x7fffffff,
                         "cusparse_sddmm has 32-bit offsets, which cannot hold {} nonzeros",
                         a.nnz());
    offsets_ = DeviceArray<std::int32_t>(
        std::vector<std::int32_t>(a.row_offsets.begin(), a.row_offsets.end()));
    col_indices_ = DeviceArray<std::int32_t>(a.col_indices);
    check(library_.create(&handle_), "starting");
  }
  ~CusparseSampledProduct() override {
    if (s_ != nullptr) library_.destroy_sparse(s_);
    library_.destroy(handle_);
  }

  void prepare(const SddmmOperands& operands, cudaStream_t stream) override {
    check(library_.set_stream(handle_, stream), "setting the stream");
    x_.describe(rows_, k_, operands.x, type_of(storage_.b));
    y_.describe(cols_, k_, operands.y, type_of(storage_.b));
    if (s_ != nullptr) library_.destroy_sparse(std::exchange(s_, nullptr));
    check(library_.create_csr(&s_, rows_, cols_, nnz_, offsets_.data(), col_indices_.data(),
                              operands.s, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                              CUSPARSE_INDEX_BASE_ZERO, type_of(storage_.c)),
          "describing S in CSR");
    std::size_t bytes = 0;
    check(library_.sddmm_buffer_size(handle_, kAsIs, kTransposed, &kOne, x_.get(), y_.get(), &kZero,
                                     s_, CUDA_R_32F, kAlgorithm, &bytes),
          "querying the buffer size");
    buffer_ = DeviceArray<std::byte>(bytes);
    check(library_.sddmm_preprocess(handle_, kAsIs, kTransposed, &kOne, x_.get(), y_.get(), &kZero,
                                    s_, CUDA_R_32F, kAlgorithm, buffer_.data()),
          "preprocessing");
  }

  void launch(const SddmmOperands& operands, cudaStream_t stream) override {
    check(library_.set_stream(handle_, stream), "setting the stream");
    x_.point_to(operands.x);
    y_.point_to(operands.y);
    check(library_.set_sparse_values(s_, operands.s), "setting the address of S");
    check(library_.sddmm(handle_, kAsIs, kTransposed, &kOne, x_.get(), y_.get(), &kZero, s_,
                         CUDA_R_32F, kAlgorithm, buffer_.data()),
          "multiplying");
  }

 private:
  static constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr auto kTransposed = CUSPARSE_OPERATION_TRANSPOSE;
  static constexpr auto kAlgorithm = CUSPARSE_SDDMM_ALG_DEFAULT;
  static constexpr float kOne = 1, kZero = 0;

  const Library& library_ = Library::instance();
  std::int64_t rows_, cols_, nnz_, k_;
  Storage storage_;
  DeviceArray<std::int32_t> offsets_;      // [rows + 1]
  DeviceArray<std::int32_t> col_indices_;  // [nnz]
  DeviceArray<std::byte> buffer_;
  cusparseHandle_t handle_ = nullptr;
  cusparse::DenseDescriptor x_, y_;
  cusparseSpMatDescr_t s_ = nullptr;
};

class GpuCusparseSddmm final : public GpuSddmm {
 public:
  explicit GpuCusparseSddmm(const sddmm::SddmmOptions& options) : storage_(options.storage) {}
  std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                            std::int64_t k) const override {
    return std::make_unique<CusparseSampledProduct>(packed_as<CsrPacked>(packed).matrix, k,
                                                    storage_);
  }

 private:
  Storage storage_;
};

const Register<GpuSddmm> entry{{
    .name = "cusparse_sddmm",
    .summary = "device half of cusparse_sddmm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuCusparseSddmm>(sddmm::SddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
