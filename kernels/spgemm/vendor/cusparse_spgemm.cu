// Device half of the cuSPARSE SpGEMM baseline. See kernels/spgemm/vendor/cusparse_spgemm.cpp.
//
// The library uses 32-bit offsets; those of C are converted to 64 bits at the end of a product. Its
// manual promises ascending columns of C; download() sorts the rows where they are not. Products
// without any term are not passed to the library.

#include "kernels/spgemm/vendor/cusparse_spgemm.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/device/cusparse_library.hpp"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera {
namespace {

using cusparse::Library;
using cusparse_spgemm::CusparseSpgemmOptions;

struct Functions {
  static const Functions& instance() {
    static const Functions functions;
    return functions;
  }

  decltype(&cusparseSpGEMM_createDescr) create;
  decltype(&cusparseSpGEMM_destroyDescr) destroy;
  decltype(&cusparseSpGEMM_workEstimation) estimate_work;
  decltype(&cusparseSpGEMM_estimateMemory) estimate_memory;
  decltype(&cusparseSpGEMM_compute) compute;
  decltype(&cusparseSpGEMM_copy) copy;
  decltype(&cusparseSpGEMMreuse_workEstimation) reuse_estimate_work;
  decltype(&cusparseSpGEMMreuse_nnz) reuse_nnz;
  decltype(&cusparseSpGEMMreuse_copy) reuse_copy;
  decltype(&cusparseSpGEMMreuse_compute) reuse_compute;
  decltype(&cusparseSpMatGetSize) get_size;
  decltype(&cusparseCsrSetPointers) set_pointers;

 private:
  Functions() {
    const ClosedLibrary file(fmt::format("libcusparse.so.{}", CUSPARSE_VER_MAJOR));
    file.load(create, "cusparseSpGEMM_createDescr");
    file.load(destroy, "cusparseSpGEMM_destroyDescr");
    file.load(estimate_work, "cusparseSpGEMM_workEstimation");
    file.load(estimate_memory, "cusparseSpGEMM_estimateMemory");
    file.load(compute, "cusparseSpGEMM_compute");
    file.load(copy, "cusparseSpGEMM_copy");
    file.load(reuse_estimate_work, "cusparseSpGEMMreuse_workEstimation");
    file.load(reuse_nnz, "cusparseSpGEMMreuse_nnz");
    file.load(reuse_copy, "cusparseSpGEMMreuse_copy");
    file.load(reuse_compute, "cusparseSpGEMMreuse_compute");
    file.load(get_size, "cusparseSpMatGetSize");
    file.load(set_pointers, "cusparseCsrSetPointers");
  }
};

/// Throws where a call failed. The library reports its own limits as insufficient resources, which
/// are Unsupported rather than a lack of device memory.
void check(cusparseStatus_t status, const char* doing) {
  require<Unsupported>(status != CUSPARSE_STATUS_INSUFFICIENT_RESOURCES,
                       "cuSPARSE error while {}: {}", doing,
                       Library::instance().error_string(status));
  cusparse::check(status, doing);
}

/// The library's name of a type of values.
template <class Value>
constexpr cudaDataType kTypeOf = std::is_same_v<Value, float> ? CUDA_R_32F : CUDA_R_64F;

/// A or B in the form that the library reads.
template <class Value>
struct Operand {
  explicit Operand(const CsrMatrix& matrix)
      : rows(matrix.rows),
        cols(matrix.cols),
        nnz(matrix.nnz()),
        offsets(std::vector<std::int32_t>(matrix.row_offsets.begin(), matrix.row_offsets.end())),
        col_indices(matrix.col_indices),
        values(std::vector<Value>(matrix.values.begin(), matrix.values.end())) {}

  std::int64_t rows, cols, nnz;
  DeviceArray<std::int32_t> offsets;      // [rows + 1]
  DeviceArray<std::int32_t> col_indices;  // [nnz]
  DeviceArray<Value> values;              // [nnz]
};

class Descriptor {
 public:
  Descriptor(std::int64_t rows, std::int64_t cols, std::int64_t nnz, void* offsets,
             void* col_indices, void* values, cudaDataType type) {
    check(Library::instance().create_csr(&matrix_, rows, cols, nnz, offsets, col_indices, values,
                                         CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                         CUSPARSE_INDEX_BASE_ZERO, type),
          "describing a matrix");
  }
  template <class Value>
  explicit Descriptor(Operand<Value>& x)
      : Descriptor(x.rows, x.cols, x.nnz, x.offsets.data(), x.col_indices.data(), x.values.data(),
                   kTypeOf<Value>) {}
  ~Descriptor() { Library::instance().destroy_sparse(matrix_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cusparseSpMatDescr_t get() const { return matrix_; }

 private:
  cusparseSpMatDescr_t matrix_ = nullptr;
};

class ProductDescriptor {
 public:
  ProductDescriptor() { check(Functions::instance().create(&product_), "describing a product"); }
  ~ProductDescriptor() { Functions::instance().destroy(product_); }
  ProductDescriptor(const ProductDescriptor&) = delete;
  ProductDescriptor& operator=(const ProductDescriptor&) = delete;

  cusparseSpGEMMDescr_t get() const { return product_; }

 private:
  cusparseSpGEMMDescr_t product_ = nullptr;
};

using Buffer = RunArray<std::uint8_t>;

/// Returns a buffer of at least one byte: the library takes a null pointer as a query for the size.
Buffer buffer(ProductRun& run, std::size_t bytes) {
  return Buffer(run, std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1));
}

__global__ void widen(const std::int32_t* __restrict__ from, std::int64_t* __restrict__ to,
                      std::int64_t count) {
  const std::int64_t i = spgemm::grid_thread();
  if (i < count) to[i] = from[i];
}

/// The library's calls for one product, or for several of the same structure, in the order of its
/// manual.
template <class Value>
class Calls {
  using Result = SparseResultOf<Value>;

 public:
  Calls(cusparseHandle_t handle, Operand<Value>& a, Operand<Value>& b, Value alpha,
        const CusparseSpgemmOptions& options, ProductRun& run)
      : handle_(handle),
        alpha_(alpha),
        algorithm_(options.algorithm == "alg2"   ? CUSPARSE_SPGEMM_ALG2
                   : options.algorithm == "alg3" ? CUSPARSE_SPGEMM_ALG3
                                                 : CUSPARSE_SPGEMM_DEFAULT),
        chunk_(static_cast<float>(options.chunk)),
        run_(run),
        offsets_(run, a.rows + 1),
        a_(a),
        b_(b),
        c_(a.rows, b.cols, 0, offsets_.data(), nullptr, nullptr, kTypeOf<Value>) {}

  void multiply(Result& c) {
    run_.stage("estimate");
    std::size_t bytes = 0;
    all(functions_.estimate_work, "estimating work", &bytes, nullptr);
    const Buffer work = buffer(run_, bytes);
    all(functions_.estimate_work, "estimating work", &bytes, work.data());
    const bool estimates = algorithm_ != CUSPARSE_SPGEMM_DEFAULT;
    if (estimates) bytes = bytes_to_compute();
    run_.stage("compute");
    if (!estimates) all(functions_.compute, "querying memory", &bytes, nullptr);
    const Buffer products = buffer(run_, bytes);
    all(functions_.compute, "computing", &bytes, products.data());
    run_.stage("copy");
    if (make_room(c)) all(functions_.copy, "copying C");
    widen_offsets(c);
  }

  void multiply_in_two_steps(Result& c) {
    run_.stage("structure");
    Buffer work[2];
    std::size_t bytes[4] = {};
    structure(functions_.reuse_estimate_work, "estimating work", &bytes[0], nullptr);
    work[0] = buffer(run_, bytes[0]);
    structure(functions_.reuse_estimate_work, "estimating work", &bytes[0], work[0].data());
    structure(functions_.reuse_nnz, "querying memory", &bytes[1], nullptr, &bytes[2], nullptr,
              &bytes[3], nullptr);
    work[1] = buffer(run_, bytes[1]);
    for (int i = 0; i < 2; ++i) kept_[i] = buffer(run_, bytes[2 + i]);
    structure(functions_.reuse_nnz, "counting C's nonzeros", &bytes[1], work[1].data(), &bytes[2],
              kept_[0].data(), &bytes[3], kept_[1].data());
    for (Buffer& done : work) done = {};
    if (make_room(c)) {
      clear(c);
      structure(functions_.reuse_copy, "querying memory", &bytes[0], nullptr);
      kept_[2] = buffer(run_, bytes[0]);
      structure(functions_.reuse_copy, "copying C's structure", &bytes[0], kept_[2].data());
      run_.stage("values");
      all(functions_.reuse_compute, "computing");
    }
    widen_offsets(c);
  }

  /// Computes other values. Requires multiply_in_two_steps() before.
  void multiply_again(Value alpha, const Result& c) {
    run_.stage("values");
    alpha_ = alpha;
    if (c.values.size() == 0) return;
    clear(c);
    all(functions_.reuse_compute, "computing");
  }

 private:
  static constexpr auto kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;

  template <class F, class... Rest>
  void all(F function, const char* doing, Rest... rest) {
    constexpr Value kZero = 0;
    check(function(handle_, kAsIs, kAsIs, &alpha_, a_.get(), b_.get(), &kZero, c_.get(),
                   kTypeOf<Value>, algorithm_, product_.get(), rest...),
          doing);
  }
  template <class F, class... Rest>
  void structure(F function, const char* doing, Rest... rest) {
    check(function(handle_, kAsIs, kAsIs, a_.get(), b_.get(), c_.get(), algorithm_, product_.get(),
                   rest...),
          doing);
  }

  /// Clears C. Beta is zero, but the manual does not promise that the old values are ignored.
  void clear(const Result& c) const {
    cuda_check(
        cudaMemsetAsync(c.values.data(), 0,
                        sizeof(Value) * static_cast<std::size_t>(c.values.size()), run_.stream()),
        "clearing C");
  }

  std::size_t bytes_to_compute() {
    std::size_t scratch_bytes = 0, bytes = 0;
    all(functions_.estimate_memory, "querying memory", chunk_, &scratch_bytes, nullptr, nullptr);
    const Buffer scratch = buffer(run_, scratch_bytes);
    all(functions_.estimate_memory, "estimating memory", chunk_, &scratch_bytes, scratch.data(),
        &bytes);
    return bytes;
  }

  /// Allocates C. Returns true if C has any nonzeros.
  bool make_room(Result& c) {
    std::int64_t rows = 0, cols = 0, nnz = 0;
    check(functions_.get_size(c_.get(), &rows, &cols, &nnz), "querying C's size");
    c.col_indices = RunArray<std::int32_t>(run_, nnz);
    c.values = RunArray<Value>(run_, nnz);
    if (nnz == 0) return false;
    check(functions_.set_pointers(c_.get(), offsets_.data(), c.col_indices.data(), c.values.data()),
          "setting C's arrays");
    return true;
  }

  void widen_offsets(const Result& c) const {
    run_.stage("offsets");
    const std::int64_t count = offsets_.size();
    widen<<<spgemm::grid_for(count, 256), 256, 0, run_.stream()>>>(offsets_.data(),
                                                                   c.row_offsets.data(), count);
    cuda_check(cudaGetLastError(), "widening C's offsets");
  }

  const Functions& functions_ = Functions::instance();
  cusparseHandle_t handle_;
  Value alpha_;
  cusparseSpGEMMAlg_t algorithm_;
  float chunk_;
  ProductRun& run_;
  RunArray<std::int32_t> offsets_;  // [rows of C + 1]
  Buffer kept_[3];                  // hold C's structure
  Descriptor a_, b_, c_;
  ProductDescriptor product_;
};

std::int64_t count_products(const CsrMatrix& a, const CsrMatrix& b) {
  return std::accumulate(
      a.col_indices.begin(), a.col_indices.end(), std::int64_t{0},
      [&](std::int64_t sum, std::int32_t col) { return sum + b.row_length(col); });
}

/// Sorts the rows that are not.
template <class Value, class Matrix>
void sort_rows(Matrix& c) {
  std::vector<std::int32_t> cols(c.col_indices.begin(), c.col_indices.end());
  std::vector<Value> values(c.values.begin(), c.values.end());
  std::vector<std::pair<std::int32_t, Value>> row_cells;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t begin = c.row_offsets[row], end = c.row_offsets[row + 1];
    if (std::is_sorted(cols.begin() + begin, cols.begin() + end)) continue;
    row_cells.clear();
    for (std::int64_t k = begin; k < end; ++k) row_cells.emplace_back(cols[k], values[k]);
    std::ranges::sort(row_cells);
    for (std::int64_t k = begin; k < end; ++k) std::tie(cols[k], values[k]) = row_cells[k - begin];
  }
  c.col_indices = std::move(cols);
  c.values = std::move(values);
}

template <class Value>
class CusparseProduct final : public GpuSparseProduct {
  static constexpr bool kIsWide = !std::is_same_v<Value, float>;
  using Result = SparseResultOf<Value>;

 public:
  CusparseProduct(const CsrMatrix& a, const CsrMatrix& b, const CusparseSpgemmOptions& options)
      : options_(options),
        any_products_(count_products(a, b) > 0),
        b_is_a_(&a == &b),
        a_(a),
        b_(b) {
    check(Library::instance().create(&handle_), "starting");
  }
  ~CusparseProduct() override {
    calls_.reset();
    Library::instance().destroy(handle_);
  }

  void multiply(float alpha, ProductRun& run) override {
    release();
    Result c;
    c.rows = static_cast<std::int32_t>(a_.rows);
    c.cols = static_cast<std::int32_t>(b_.cols);
    c.row_offsets = RunArray<std::int64_t>(run, a_.rows + 1);
    if (any_products_)
      call_library(alpha, run, c);
    else
      cuda_check(cudaMemsetAsync(c.row_offsets.data(), 0, sizeof(std::int64_t) * (a_.rows + 1),
                                 run.stream()),
                 "clearing C's offsets");
    c_ = std::move(c);
    has_product_ = true;
  }

  bool keeps_structure() const override { return options_.algorithm == "reuse"; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(keeps_structure(),
                         "cusparse_spgemm repeats a product only with algorithm = reuse");
    require(has_product_, "cusparse_spgemm has no product to repeat; multiply first");
    if (calls_ == nullptr) return;  // C is empty
    check(Library::instance().set_stream(handle_, run.stream()), "choosing a stream");
    calls_->multiply_again(alpha, c_);
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    if constexpr (kIsWide)
      set_wide_values(std::vector<double>(a.begin(), a.end()),
                      std::vector<double>(b.begin(), b.end()));
    else
      replace_values(a, b);
  }
  void set_wide_values(std::span<const double> a, std::span<const double> b) override {
    if constexpr (kIsWide)
      replace_values(a, b);
    else
      GpuSparseProduct::set_wide_values(a, b);
  }

  void release() override {
    calls_.reset();
    c_ = {};
    has_product_ = false;
  }

  CsrMatrix download() const override {
    if constexpr (kIsWide)
      return rounded(sorted());
    else
      return sorted();
  }
  WideCsrMatrix download_wide() const override {
    if constexpr (kIsWide)
      return sorted();
    else
      return GpuSparseProduct::download_wide();
  }

 private:
  typename Result::Host sorted() const {
    auto c = c_.download();
    sort_rows<Value>(c);
    return c;
  }

  void replace_values(std::span<const Value> a, std::span<const Value> b) {
    require_values(a.size(), b.size(), a_.values.size(), b_is_a_ ? 0 : b_.values.size());
    a_.values.upload(a);
    b_.values.upload(b_is_a_ ? a : b);
  }

  void call_library(Value alpha, ProductRun& run, Result& c) {
    check(Library::instance().set_stream(handle_, run.stream()), "choosing a stream");
    auto calls = std::make_unique<Calls<Value>>(handle_, a_, b_, alpha, options_, run);
    if (options_.algorithm != "reuse") return calls->multiply(c);
    calls->multiply_in_two_steps(c);
    calls_ = std::move(calls);
  }

  CusparseSpgemmOptions options_;
  bool any_products_;
  bool b_is_a_;
  Operand<Value> a_, b_;
  cusparseHandle_t handle_ = nullptr;
  bool has_product_ = false;
  Result c_;
  std::unique_ptr<Calls<Value>> calls_;  // of the last product, where its structure is kept
};

class GpuCusparseSpgemm final : public GpuSpgemm {
 public:
  explicit GpuCusparseSpgemm(CusparseSpgemmOptions options) : options_(std::move(options)) {}
  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    spgemm::require_operands(a, b);
    if (options_.is_wide) return std::make_unique<CusparseProduct<double>>(a, b, options_);
    return std::make_unique<CusparseProduct<float>>(a, b, options_);
  }

 private:
  CusparseSpgemmOptions options_;
};

const Register<GpuSpgemm> entry{{
    .name = "cusparse_spgemm",
    .summary = "device half of cusparse_spgemm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuCusparseSpgemm>(CusparseSpgemmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
