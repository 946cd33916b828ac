// The functions of cuSPARSE that the baseline calls, loaded from the shared library, and its errors
// as exceptions.
#pragma once

#include <cusparse.h>

#include <utility>

#include "kernels/device/closed_library.hpp"

namespace tessera::cusparse {

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
  decltype(&cusparseCreateCoo) create_coo;
  decltype(&cusparseCreateBsr) create_bsr;
  decltype(&cusparseCreateBlockedEll) create_blocked_ell;
  decltype(&cusparseDestroySpMat) destroy_sparse;
  decltype(&cusparseCreateDnMat) create_dense;
  decltype(&cusparseDestroyDnMat) destroy_dense;
  decltype(&cusparseDnMatSetValues) set_values;
  decltype(&cusparseSpMM_bufferSize) buffer_size;
  decltype(&cusparseSpMM_preprocess) preprocess;
  decltype(&cusparseSpMM) multiply;
  decltype(&cusparseSpMatSetValues) set_sparse_values;
  decltype(&cusparseSDDMM_bufferSize) sddmm_buffer_size;
  decltype(&cusparseSDDMM_preprocess) sddmm_preprocess;
  decltype(&cusparseSDDMM) sddmm;

 private:
  Library() : file_(fmt::format("libcusparse.so.{}", CUSPARSE_VER_MAJOR)) {
    file_.load(create, "cusparseCreate");
    file_.load(destroy, "cusparseDestroy");
    file_.load(set_stream, "cusparseSetStream");
    file_.load(error_string, "cusparseGetErrorString");
    file_.load(create_csr, "cusparseCreateCsr");
    file_.load(create_coo, "cusparseCreateCoo");
    file_.load(create_bsr, "cusparseCreateBsr");
    file_.load(create_blocked_ell, "cusparseCreateBlockedEll");
    file_.load(destroy_sparse, "cusparseDestroySpMat");
    file_.load(create_dense, "cusparseCreateDnMat");
    file_.load(destroy_dense, "cusparseDestroyDnMat");
    file_.load(set_values, "cusparseDnMatSetValues");
    file_.load(buffer_size, "cusparseSpMM_bufferSize");
    file_.load(preprocess, "cusparseSpMM_preprocess");
    file_.load(multiply, "cusparseSpMM");
    file_.load(set_sparse_values, "cusparseSpMatSetValues");
    file_.load(sddmm_buffer_size, "cusparseSDDMM_bufferSize");
    file_.load(sddmm_preprocess, "cusparseSDDMM_preprocess");
    file_.load(sddmm, "cusparseSDDMM");
  }

  ClosedLibrary file_;
};

/// Throws unless the status is a success: Unsupported, with the library's reason, for a product
/// that cuSPARSE refuses.
inline void check(cusparseStatus_t status, const char* doing) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const auto message =
      fmt::format("cuSPARSE error while {}: {}", doing, Library::instance().error_string(status));
  // INVALID_VALUE is its answer to block sizes and widths of B that it refuses.
  if (status == CUSPARSE_STATUS_NOT_SUPPORTED || status == CUSPARSE_STATUS_INVALID_VALUE)
    throw Unsupported(message);
  if (status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES || status == CUSPARSE_STATUS_ALLOC_FAILED)
    throw OutOfMemory(message);
  throw std::runtime_error(message);
}

/// A descriptor of a row-major dense matrix; every launch sets its address.
class DenseDescriptor {
 public:
  DenseDescriptor() = default;
  ~DenseDescriptor() {
    if (descriptor_ != nullptr) Library::instance().destroy_dense(descriptor_);
  }
  DenseDescriptor(const DenseDescriptor&) = delete;
  DenseDescriptor& operator=(const DenseDescriptor&) = delete;

  void describe(std::int64_t rows, std::int64_t cols, const void* values, cudaDataType type) {
    if (descriptor_ != nullptr)
      Library::instance().destroy_dense(std::exchange(descriptor_, nullptr));
    check(Library::instance().create_dense(&descriptor_, rows, cols, cols,
                                           const_cast<void*>(values), type, CUSPARSE_ORDER_ROW),
          "describing a dense matrix");
  }
  void point_to(const void* values) {
    check(Library::instance().set_values(descriptor_, const_cast<void*>(values)),
          "setting the address of a dense matrix");
  }
  cusparseDnMatDescr_t get() const { return descriptor_; }

 private:
  cusparseDnMatDescr_t descriptor_ = nullptr;
};

}  // namespace tessera::cusparse
