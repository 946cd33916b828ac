// TCA-SpMM as published (sections 4.1 and 4.2).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published tca_spmm() {
  return {
      .paper = "TCA-SpMM",
      .choices = {{"kernel.precision", std::string("fp16"), "section 4.1: half-precision MMA"},
                  {"kernel.method", std::string("auto"),
                   "section 4.2: thread blocks of their own above 64 nonzeros"},
                  {"kernel.warps_per_row", std::int64_t{0},
                   "section 4.2, equation 2: 1, 2, 4 or 8 by the nonzeros"}},
      .departures = {"a long row has a thread block for every tile of columns, whatever its length",
                     "empty places of a chunk are zeros, not repeated columns of B",
                     "C is stored from registers, without the output buffer of section 4.2.1"},
  };
}

const Register<Published> entry{{
    .name = "tca_spmm",
    .summary = "TCA-SpMM's traces in FP16",
    .make = [](const Params&) { return std::make_unique<Published>(tca_spmm()); },
}};

}  // namespace
}  // namespace tessera
