// The options of the cuSPARSE baseline, which its host half and its device half share.
#pragma once

#include <string>

#include "formats/base/check.hpp"
#include "formats/base/params.hpp"
#include "kernels/storage.hpp"

namespace tessera::cusparse {

struct CusparseOptions {
  /// Throws an Error for an A, B and C of 16 bits in a format of blocks.
  explicit CusparseOptions(const Params& params)
      : format(params.text("format")),
        storage(element_type(params.text("storage"))),
        operands(storage == ElementType::kFp32 ? element_type(params.text("precision")) : storage) {
    const bool blocks = format == "bcsr" || format == "blocked_ell";
    require(storage == ElementType::kFp32 || !blocks,
            "cusparse takes storage = {} with format = csr or coo, not {}", name_of(storage),
            format);
  }

  std::string format;    // csr, coo, bcsr or blocked_ell
  ElementType storage;   // of B and C in memory
  ElementType operands;  // of A and B in the library

  /// True where every launch converts B.
  bool converts() const { return storage != operands; }
};

}  // namespace tessera::cusparse
