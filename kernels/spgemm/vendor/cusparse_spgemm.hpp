// The options of the cuSPARSE SpGEMM baseline, for its host half and its device half.
#pragma once

#include <string>

#include "formats/base/params.hpp"

namespace tessera::cusparse_spgemm {

struct CusparseSpgemmOptions {
  explicit CusparseSpgemmOptions(const Params& params)
      : algorithm(params.text("algorithm")),
        chunk(params.real("chunk")),
        is_wide(params.text("precision") == "fp64") {}

  std::string algorithm;  // default, alg2, alg3 or reuse
  double chunk;           // fraction of the products in memory at a time, for alg3
  bool is_wide;           // values and sums are in FP64
};

}  // namespace tessera::cusparse_spgemm
