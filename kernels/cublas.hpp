// What both halves of the cuBLAS baseline go by.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/precision.hpp"

namespace tessera::cublas {

struct Choices {
  explicit Choices(const Params& params) : precision(find_precision(params.text("precision"))) {}

  Precision precision;  // tf32 or fp16

  bool half() const { return precision.conversion == Conversion::kFp16; }
};

}  // namespace tessera::cublas
