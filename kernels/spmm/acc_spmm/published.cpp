// Acc-SpMM as published (Zhao et al., PPoPP 2025).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published acc_spmm() {
  return {
      .paper = "Acc-SpMM",
      .choices = {{"reorder", std::string("affinity"), "section 3.2"},
                  {"kernel.format", std::string("bit_tcf"), "section 3.3"},
                  {"kernel.pipeline", std::string("least_bubble"), "section 3.4, algorithm 2"},
                  {"kernel.buffers", std::string("block"), "section 3.4, algorithm 2: __shared__"},
                  {"kernel.cache", std::string("ca"), "section 3.4, table 1: .ca for A and B"},
                  {"kernel.store", std::string("wt"), "section 3.4, table 1: .wt for C"},
                  {"kernel.balance", std::string("adaptive"),
                   "section 3.5, equations 3 and 4: equal times where the IBD is above 8"},
                  {"kernel.max_blocks", std::int64_t{32}, "section 3.5: 32 TC blocks at most"}},
      .departures =
          {"a thread block has four warps of 32 columns each; the paper does not say how many",
           "equation 4 counts bytes, all MMAs, and a write for each window; as printed it does not",
           "equation 4 takes an H100's rates on every GPU; an A800's change a weight by 2 %",
           "a share takes the time of 32 TC blocks of one window; the paper does not say how long",
           "parts of a window are added in order; the paper does not say how",
           "operands are rounded to nearest TF32; the paper does not say how"},
  };
}

const Register<Published> entry{{
    .name = "acc_spmm",
    .summary = "Acc-SpMM's affinity order, BitTCF, pipeline, cache operators and balance",
    .make = [](const Params&) { return std::make_unique<Published>(acc_spmm()); },
}};

}  // namespace
}  // namespace tessera
