// Device half of the cuSPARSE baseline.
//
// B and C are row-major, the compute type is FP32. FP16 operands of a B in FP32: the upload rounds
// the values of A, every launch those of B. The library has whole blocks only: where the rows or
// columns of A do not fill them, every launch copies B or C to memory with more rows, and its time
// includes the copy.

#include <array>
#include <span>

#include "formats/base/registry.hpp"
#include "formats/bcsr.hpp"
#include "formats/blocked_ell.hpp"
#include "formats/coo.hpp"
#include "formats/csr.hpp"
#include "kernels/device/cusparse_library.hpp"
#include "kernels/device/half_operand.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/vendor/cusparse.hpp"

namespace tessera {
namespace {

using cusparse::check;
using cusparse::CusparseOptions;
using cusparse::Library;

struct Algorithm {
  const char* name;
  cusparseSpMMAlg_t id;
};
constexpr std::array kCsr{Algorithm{"alg1", CUSPARSE_SPMM_CSR_ALG1},
                          Algorithm{"alg2", CUSPARSE_SPMM_CSR_ALG2},
                          Algorithm{"alg3", CUSPARSE_SPMM_CSR_ALG3}};
constexpr std::array kCoo{
    Algorithm{"alg1", CUSPARSE_SPMM_COO_ALG1}, Algorithm{"alg2", CUSPARSE_SPMM_COO_ALG2},
    Algorithm{"alg3", CUSPARSE_SPMM_COO_ALG3}, Algorithm{"alg4", CUSPARSE_SPMM_COO_ALG4}};
// One algorithm each, and the default, which a later library may change to a better one.
constexpr std::array kBsr{Algorithm{"alg1", CUSPARSE_SPMM_BSR_ALG1},
                          Algorithm{"default", CUSPARSE_SPMM_ALG_DEFAULT}};
constexpr std::array kBlockedEll{Algorithm{"alg1", CUSPARSE_SPMM_BLOCKED_ELL_ALG1},
                                 Algorithm{"default", CUSPARSE_SPMM_ALG_DEFAULT}};

std::span<const Algorithm> algorithms_of(const std::string& format) {
  if (format == Coo::kFormat) return kCoo;
  if (format == Bcsr::kFormat) return kBsr;
  if (format == BlockedEll::kFormat) return kBlockedEll;
  return kCsr;
}

constexpr std::int64_t kMostNonzeros = 0x7fffffff;

template <class T>
std::vector<std::int32_t> narrow(const T& offsets) {
  require<Unsupported>(offsets.back() <= kMostNonzeros,
                       "cusparse has 32-bit offsets, which cannot hold {} nonzeros",
                       offsets.back());
  return {offsets.begin(), offsets.end()};
}

cudaDataType type_of(ElementType type) {
  if (type == ElementType::kFp16) return CUDA_R_16F;
  return type == ElementType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// A in the memory and with the descriptor of the library, in whole blocks.
struct SparseMatrix {
  SparseMatrix(const PackedMatrix& packed, const CusparseOptions& options)
      : rows(packed.rows()),
        cols(packed.cols()),
        type(type_of(options.operands)),
        element_(options.operands) {
    if (options.format == Coo::kFormat)
      describe(packed_as<Coo>(packed));
    else if (options.format == Bcsr::kFormat)
      describe(packed_as<Bcsr>(packed));
    else if (options.format == BlockedEll::kFormat)
      describe(packed_as<BlockedEll>(packed));
    else
      describe(packed_as<CsrPacked>(packed).matrix);
  }
  ~SparseMatrix() { Library::instance().destroy_sparse(descriptor); }
  SparseMatrix(const SparseMatrix&) = delete;
  SparseMatrix& operator=(const SparseMatrix&) = delete;

  std::int64_t rows, cols;
  cudaDataType type;
  cusparseSpMatDescr_t descriptor = nullptr;

 private:
  static constexpr auto kIndex = CUSPARSE_INDEX_32I;
  static constexpr auto kBase = CUSPARSE_INDEX_BASE_ZERO;

  void upload(std::span<const float> values) { values_ = upload_as(element_, values); }

  void describe(const CsrMatrix& a) {
    offsets_ = DeviceArray<std::int32_t>(narrow(a.row_offsets));
    cols_ = DeviceArray<std::int32_t>(a.col_indices);
    upload({a.values.data(), a.values.size()});
    check(Library::instance().create_csr(&descriptor, rows, cols, a.nnz(), offsets_.data(),
                                         cols_.data(), values_.data(), kIndex, kIndex, kBase, type),
          "describing A in CSR");
  }

  void describe(const Coo& a) {
    require<Unsupported>(a.nnz() <= kMostNonzeros,
                         "cusparse numbers entries in 32 bits, which cannot count {}", a.nnz());
    offsets_ = DeviceArray<std::int32_t>(a.row_indices);
    cols_ = DeviceArray<std::int32_t>(a.col_indices);
    upload({a.values.data(), a.values.size()});
    check(Library::instance().create_coo(&descriptor, rows, cols, a.nnz(), offsets_.data(),
                                         cols_.data(), values_.data(), kIndex, kBase, type),
          "describing A in COO");
  }

  void describe(const Bcsr& a) {
    require<Unsupported>(a.num_blocks() > 0, "cuSPARSE refuses a BSR matrix without blocks");
    const std::int64_t block_cols = (cols + a.block_cols - 1) / a.block_cols;
    rows = a.num_block_rows() * a.block_rows;
    cols = block_cols * a.block_cols;
    offsets_ = DeviceArray<std::int32_t>(narrow(a.block_row_offset));
    cols_ = DeviceArray<std::int32_t>(a.block_col);
    upload(a.values);
    check(Library::instance().create_bsr(&descriptor, a.num_block_rows(), block_cols,
                                         a.num_blocks(), a.block_rows, a.block_cols,
                                         offsets_.data(), cols_.data(), values_.data(), kIndex,
                                         kIndex, kBase, type, CUSPARSE_ORDER_ROW),
          "describing A in BSR");
  }

  void describe(const BlockedEll& a) {
    require<Unsupported>(a.ell_blocks > 0, "cuSPARSE refuses a Blocked-ELL matrix without blocks");
    rows = a.padded_rows();
    cols = a.padded_cols();
    cols_ = DeviceArray<std::int32_t>(a.block_col);
    upload(a.values);
    check(Library::instance().create_blocked_ell(&descriptor, rows, cols, a.block, a.ell_cols(),
                                                 cols_.data(), values_.data(), kIndex, kBase, type),
          "describing A in Blocked-ELL");
  }

  DeviceArray<std::int32_t> offsets_;  // of rows or block rows; the rows of COO
  DeviceArray<std::int32_t> cols_;
  ElementType element_;
  DeviceArray<std::byte> values_;
};

class CusparseMultiplication final : public GpuMultiplication {
 public:
  CusparseMultiplication(const PackedMatrix& packed, std::int64_t n, const CusparseOptions& options)
      : algorithms_(algorithms_of(options.format)),
        a_(packed, options),
        rows_(packed.rows()),
        cols_(packed.cols()),
        n_(n),
        c_type_(type_of(options.storage)) {
    const auto b_size = static_cast<std::size_t>(a_.cols * n);
    if (options.converts()) {
      b_half_ = DeviceArray<std::uint16_t>(b_size);
      clear(b_half_);
      load_convert_to_half();
    } else if (a_.cols != cols_) {
      b_padded_ = DeviceArray<float>(b_size);
      clear(b_padded_);
    }
    if (a_.rows != rows_) {
      c_padded_ = DeviceArray<float>(static_cast<std::size_t>(a_.rows * n));
      clear(c_padded_);
    }
    check(library_.create(&handle_), "starting");
  }
  ~CusparseMultiplication() override { library_.destroy(handle_); }

  std::vector<std::string> candidates() const override {
    std::vector<std::string> names;
    for (const Algorithm& algorithm : algorithms_) names.emplace_back(algorithm.name);
    return names;
  }

  void prepare(int candidate, const Operands& operands, cudaStream_t stream) override {
    check(library_.set_stream(handle_, stream), "setting the stream");
    b_.describe(a_.cols, n_, operand(operands.b), a_.type);
    c_.describe(a_.rows, n_, result(operands.c), c_type_);
    const auto algorithm = algorithms_[candidate].id;
    std::size_t bytes = 0;
    check(library_.buffer_size(handle_, kAsIs, kAsIs, &kOne, a_.descriptor, b_.get(), &kZero,
                               c_.get(), CUDA_R_32F, algorithm, &bytes),
          "querying the buffer size");
    buffer_ = DeviceArray<std::byte>(bytes);
    check(library_.preprocess(handle_, kAsIs, kAsIs, &kOne, a_.descriptor, b_.get(), &kZero,
                              c_.get(), CUDA_R_32F, algorithm, buffer_.data()),
          "preprocessing");
  }

  void launch(int candidate, const Operands& operands, cudaStream_t stream) override {
    const auto& [alpha, beta] = operands.scaling;
    if (b_half_.size() > 0)
      convert_to_half(operands.b_fp32(), cols_ * n_, b_half_.data(), stream);
    else if (b_padded_.size() > 0)
      copy(operands.b_fp32(), cols_, b_padded_.data(), stream);
    if (c_padded_.size() > 0 && beta != 0) copy(operands.c_fp32(), rows_, c_padded_.data(), stream);
    check(library_.set_stream(handle_, stream), "setting the stream");
    b_.point_to(operand(operands.b));
    c_.point_to(result(operands.c));
    check(library_.multiply(handle_, kAsIs, kAsIs, &alpha, a_.descriptor, b_.get(), &beta, c_.get(),
                            CUDA_R_32F, algorithms_[candidate].id, buffer_.data()),
          "multiplying");
    if (c_padded_.size() > 0) copy(c_padded_.data(), rows_, operands.c_fp32(), stream);
  }

 private:
  static constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr float kOne = 1, kZero = 0;

  template <class T>
  static void clear(DeviceArray<T>& array) {
    cuda_check(cudaMemset(array.data(), 0, array.size() * sizeof(T)), "clearing padding");
  }

  /// The B and the C of the library.
  const void* operand(const void* b) const {
    if (b_half_.size() > 0) return b_half_.data();
    return b_padded_.size() > 0 ? b_padded_.data() : b;
  }
  void* result(void* c) { return c_padded_.size() > 0 ? c_padded_.data() : c; }

  void copy(const float* from, std::int64_t rows, float* to, cudaStream_t stream) const {
    cuda_check(cudaMemcpyAsync(to, from, sizeof(float) * static_cast<std::size_t>(rows * n_),
                               cudaMemcpyDeviceToDevice, stream),
               "copying rows before padding");
  }

  const Library& library_ = Library::instance();
  std::span<const Algorithm> algorithms_;
  SparseMatrix a_;
  std::int64_t rows_, cols_;  // without padding
  std::int64_t n_;
  cudaDataType c_type_;
  DeviceArray<std::uint16_t> b_half_;  // [a_.cols][n] FP16 only
  DeviceArray<float>
      b_padded_;  // [a_.cols][n] FP32, where A has more columns with padding than B has rows
  DeviceArray<float> c_padded_;  // [a_.rows][n] where A has more rows with padding than C
  DeviceArray<std::byte> buffer_;
  cusparseHandle_t handle_ = nullptr;
  cusparse::DenseDescriptor b_, c_;
};

class GpuCusparse final : public GpuSpmm {
 public:
  explicit GpuCusparse(CusparseOptions options) : options_(std::move(options)) {}
  /// The library is large: to load it needs no device.
  void prepare(const PackedMatrix&) override { Library::instance(); }
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    return std::make_unique<CusparseMultiplication>(packed, n, options_);
  }

 private:
  CusparseOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "cusparse",
    .summary = "device half of cusparse",
    .make =
        [](const Params& params) { return std::make_unique<GpuCusparse>(CusparseOptions(params)); },
}};

}  // namespace
}  // namespace tessera
