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
                  {"kernel.cache", std::string("ca"), "section 3.4, table 1: .ca for B"},
                  {"kernel.store", std::string("wt"), "section 3.4, table 1: .wt for C"},
                  {"kernel.balance", std::string("ibd"), "section 3.5, equation 3: IBD above 8"},
                  {"kernel.max_blocks", std::int64_t{32}, "section 3.5: 32 TC blocks at most"}},
      .departures = {"a warp has buffers of its own; the paper's thread block shares them",
                     "long windows are cut at 32 TC blocks; equation 4 does not weigh their loads",
                     "short windows are not joined to one task",
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
