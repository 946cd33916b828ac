// cuTeSpMM as published (Xiang et al., 2025).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published cutespmm() {
  return {
      .paper = "cuTeSpMM",
      .choices = {{"format.tile_rows", std::int64_t{16}, "section 3.2: TM is 16 or 32"},
                  {"format.tile_cols", std::int64_t{16}, "section 4: TK = 16"},
                  {"kernel.mma", std::string("m16n8k4"), "section 3.2: bricks of 16 x 4"},
                  {"kernel.coarsen", std::int64_t{32}, "section 4, equations 3 and 4: TN = 32"},
                  {"kernel.stages", std::int64_t{1}, "algorithm 1: copies, a barrier, MMAs"},
                  {"kernel.panels", std::int64_t{1},
                   "algorithm 1: a thread block has one row panel"},
                  {"kernel.balance", std::string("waves"), "section 5, equations 6 and 7"},
                  {"kernel.resident", std::int64_t{0}, "section 5: the device is queried"}},
      .departures =
          {"operands are rounded to nearest TF32; the paper does not say how",
           "the waves count the registers of a thread that the compiler takes for an H200",
           "columns of C are permuted among the MMAs, so that a lane reads 16 bytes"},
  };
}

const Register<Published> entry{{
    .name = "cutespmm",
    .summary = "cuTeSpMM's HRPB, bricks, TN and waves",
    .make = [](const Params&) { return std::make_unique<Published>(cutespmm()); },
}};

}  // namespace
}  // namespace tessera
