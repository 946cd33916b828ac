// What both halves of the cuSPARSE SpGEMM baseline go by.
#pragma once

#include <string>

#include "formats/base/params.hpp"

namespace tessera::cusparse_spgemm {

struct CusparseSpgemmOptions {
  explicit CusparseSpgemmOptions(const Params& params)
      : algorithm(params.text("algorithm")), chunk(params.real("chunk")) {}

  std::string algorithm;  // default, alg2, alg3 or reuse
  double chunk;           // of the products, for alg3
};

}  // namespace tessera::cusparse_spgemm
