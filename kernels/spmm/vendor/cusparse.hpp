// The options of the cuSPARSE baseline, which its host half and its device half share.
#pragma once

#include <string>

#include "formats/base/params.hpp"

namespace tessera::cusparse {

struct CusparseOptions {
  explicit CusparseOptions(const Params& params)
      : format(params.text("format")), half(params.text("precision") == "fp16") {}

  std::string format;  // csr, coo, bcsr or blocked_ell
  bool half;           // A and B in FP16; C is FP32 in any case
};

}  // namespace tessera::cusparse
