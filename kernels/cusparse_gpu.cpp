// Device half of the cuSPARSE baseline.
//
// Row-major B and C, compute type FP32.

#include <cusparse.h>

#include <array>

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/closed_library.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

/// The functions used here, found in the shared library.
class Library {
 public:
  static const Library& instance() {
    static const Library library;
    return library;
  }

  decltype(&cusparseCreate) create;
  decltype(&cusparseDestroy) destroy;
  decltype(&cusparseSetStream) set_stream;
  decltype(&cusparseGetErrorString) error_string;
  decltype(&cusparseCreateCsr) create_csr;
  decltype(&cusparseDestroySpMat) destroy_sparse;
  decltype(&cusparseCreateDnMat) create_dense;
  decltype(&cusparseDestroyDnMat) destroy_dense;
  decltype(&cusparseDnMatSetValues) set_values;
  decltype(&cusparseSpMM_bufferSize) buffer_size;
  decltype(&cusparseSpMM_preprocess) preprocess;
  decltype(&cusparseSpMM) multiply;

 private:
  Library() : file_(fmt::format("libcusparse.so.{}", CUSPARSE_VER_MAJOR)) {
    file_.load(create, "cusparseCreate");
    file_.load(destroy, "cusparseDestroy");
    file_.load(set_stream, "cusparseSetStream");
    file_.load(error_string, "cusparseGetErrorString");
    file_.load(create_csr, "cusparseCreateCsr");
    file_.load(destroy_sparse, "cusparseDestroySpMat");
    file_.load(create_dense, "cusparseCreateDnMat");
    file_.load(destroy_dense, "cusparseDestroyDnMat");
    file_.load(set_values, "cusparseDnMatSetValues");
    file_.load(buffer_size, "cusparseSpMM_bufferSize");
    file_.load(preprocess, "cusparseSpMM_preprocess");
    file_.load(multiply, "cusparseSpMM");
  }

  ClosedLibrary file_;
};

void check(cusparseStatus_t status, const char* doing) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const auto message =
      fmt::format("cuSPARSE error while {}: {}", doing, Library::instance().error_string(status));
  if (status == CUSPARSE_STATUS_NOT_SUPPORTED) throw Unsupported(message);
  if (status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES || status == CUSPARSE_STATUS_ALLOC_FAILED)
    throw OutOfMemory(message);
  throw std::runtime_error(message);
}

struct Algorithm {
  const char* name;
  cusparseSpMMAlg_t id;
};
constexpr std::array kAlgorithms{Algorithm{"alg1", CUSPARSE_SPMM_CSR_ALG1},
                                 Algorithm{"alg2", CUSPARSE_SPMM_CSR_ALG2},
                                 Algorithm{"alg3", CUSPARSE_SPMM_CSR_ALG3}};

class CusparseMultiplication final : public GpuMultiplication {
 public:
  CusparseMultiplication(const CsrMatrix& a, std::int64_t n)
      : rows_(a.rows),
        cols_(a.cols),
        n_(n),
        row_offsets_(narrow(a.row_offsets)),
        col_indices_(a.col_indices),
        values_(a.values) {
    check(library_.create(&handle_), "starting");
    check(library_.create_csr(&a_, rows_, cols_, a.nnz(), row_offsets_.data(), col_indices_.data(),
                              values_.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                              CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
          "describing A");
  }
  ~CusparseMultiplication() override {
    for (const auto dense : {b_, c_})
      if (dense != nullptr) library_.destroy_dense(dense);
    library_.destroy_sparse(a_);
    library_.destroy(handle_);
  }

  std::vector<std::string> candidates() const override {
    std::vector<std::string> names;
    for (const Algorithm& algorithm : kAlgorithms) names.emplace_back(algorithm.name);
    return names;
  }

  void prepare(int candidate, const float* b, float* c, cudaStream_t stream) override {
    check(library_.set_stream(handle_, stream), "choosing a stream");
    describe(b_, cols_, b);
    describe(c_, rows_, c);
    const auto algorithm = kAlgorithms[candidate].id;
    std::size_t bytes = 0;
    check(library_.buffer_size(handle_, kAsIs, kAsIs, &kOne, a_, b_, &kZero, c_, CUDA_R_32F,
                               algorithm, &bytes),
          "asking for the buffer size");
    buffer_ = DeviceArray<std::byte>(bytes);
    check(library_.preprocess(handle_, kAsIs, kAsIs, &kOne, a_, b_, &kZero, c_, CUDA_R_32F,
                              algorithm, buffer_.data()),
          "preprocessing");
  }

  void launch(int candidate, const Operands& operands, cudaStream_t stream) override {
    check(library_.set_stream(handle_, stream), "choosing a stream");
    check(library_.set_values(b_, const_cast<float*>(operands.b)), "naming B");
    check(library_.set_values(c_, operands.c), "naming C");
    const auto& [alpha, beta] = operands.scaling;
    check(library_.multiply(handle_, kAsIs, kAsIs, &alpha, a_, b_, &beta, c_, CUDA_R_32F,
                            kAlgorithms[candidate].id, buffer_.data()),
          "multiplying");
  }

 private:
  static constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr float kOne = 1, kZero = 0;

  static std::vector<std::int32_t> narrow(const Array<std::int64_t>& offsets) {
    require<Unsupported>(offsets.back() <= 0x7fffffff,
                         "cuSPARSE is called with 32-bit offsets: {} nonzeros do not fit",
                         offsets.back());
    return {offsets.begin(), offsets.end()};
  }

  void describe(cusparseDnMatDescr_t& matrix, std::int64_t rows, const float* values) {
    if (matrix != nullptr) library_.destroy_dense(std::exchange(matrix, nullptr));
    check(library_.create_dense(&matrix, rows, n_, n_, const_cast<float*>(values), CUDA_R_32F,
                                CUSPARSE_ORDER_ROW),
          "describing a dense matrix");
  }

  const Library& library_ = Library::instance();
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t n_;
  DeviceArray<std::int32_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceArray<std::byte> buffer_;
  cusparseHandle_t handle_ = nullptr;
  cusparseSpMatDescr_t a_ = nullptr;
  cusparseDnMatDescr_t b_ = nullptr;
  cusparseDnMatDescr_t c_ = nullptr;
};

class GpuCusparse final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<CusparseMultiplication>(packed_as<CsrPacked>(packed).matrix, n);
  }
};

const Register<GpuSpmm> entry{{
    .name = "cusparse",
    .summary = "device half of cusparse",
    .make = [](const Params&) { return std::make_unique<GpuCusparse>(); },
}};

}  // namespace
}  // namespace tessera
