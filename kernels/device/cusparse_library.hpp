// The functions of cuSPARSE that the baseline calls, loaded from the shared library, and its errors
// as exceptions.
#pragma once

#include <cusparse.h>

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

}  // namespace tessera::cusparse
