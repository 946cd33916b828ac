// SMaT as published (Okanovic et al., SC 2024, poster).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published smat() {
  return {
      .paper = "SMaT",
      .choices = {{"reorder", std::string("jaccard"), "preprocessing: rows clustered by pattern"},
                  {"reorder.block_cols", std::int64_t{16}, "patterns of blocks, 16 wide as BCSR's"},
                  {"reorder.apply", std::string("rows"), "row-only permutation"},
                  {"format.block_rows", std::int64_t{16}, "BCSR of 16 x 16"},
                  {"format.block_cols", std::int64_t{16}, "BCSR of 16 x 16"},
                  {"kernel.warp_cols", std::string("8"),
                   "performance model: one instruction 16 x 8 x 16 a block, a warp for 16 x 8 "
                   "elements of C (at every N in the authors' code)"},
                  {"kernel.rung", std::string("cbt"), "ladder of optimisations: C, B and T"},
                  {"kernel.precision", std::string("fp16"), "FP16 tensor cores"},
                  {"kernel.padding", std::string("read"), "whole blocks are multiplied"},
                  {"kernel.stages", std::int64_t{2},
                   "execution: the next block is loaded while one is multiplied (the authors' code "
                   "loads one block at a time)"}},
      .departures = {"B and C are FP32 in memory, row-major; a warp rounds B when it has loaded it",
                     "a thread block has two warps instead of one"},
  };
}

const Register<Published> entry{{
    .name = "smat",
    .summary = "SMaT's clustering, BCSR and CBT kernel",
    .make = [](const Params&) { return std::make_unique<Published>(smat()); },
}};

}  // namespace
}  // namespace tessera
