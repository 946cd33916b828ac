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
                   "section 4.2, equation 2: 1, 2, 4 or 8 by the nonzeros"},
                  {"kernel.blocks", std::string("nonzeros"),
                   "section 4.2, figure 3: a thread block for every 64 nonzeros of a long row"},
                  {"kernel.output", std::string("buffer"), "section 4.2.1: the output buffer"},
                  {"kernel.tile_cols", std::int64_t{64},
                   "section 4.2.1 leaves tilewidth open: with 64 each of eight warps has four "
                   "fragments"}},
      .departures = {"empty places of a chunk are zeros, not repeated columns of B",
                     "B and C are FP32 in memory; a warp rounds B when it multiplies it",
                     "a long row has no more thread blocks than give each of its eight warps a "
                     "fragment"},
  };
}

const Register<Published> entry{{
    .name = "tca_spmm",
    .summary = "TCA-SpMM's traces in FP16",
    .make = [](const Params&) { return std::make_unique<Published>(tca_spmm()); },
}};

}  // namespace
}  // namespace tessera
