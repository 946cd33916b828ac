// tSparse as published (Zachariadis et al., 2020).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published tsparse() {
  return {
      .paper = "tSparse",
      .choices = {{"kernel.cores", std::string("tensor"),
                   "sections 3.3 and 4.3; scalar: nonTCU, section 5 and algorithm 2"},
                  {"kernel.counting", std::string("product"),
                   "section 4.2: FP16 products of zeros and ones"},
                  {"kernel.multiplication", std::string("pairs"),
                   "section 4.4: two tiles to a thread block, on diagonals of 16 x 16"},
                  {"kernel.zeros", std::string("drop"), "section 4.4"},
                  {"kernel.range", std::string("refuse"), "section 5: elements in FP16's range"}},
      .departures = {"one radix sort replaces the segmented sort",
                     "the list of products is made slice by slice where it exceeds `slice`",
                     "the counting also stores the bitmaps of C's tiles",
                     "16 x 16 x 16 is two m16n8k16 MMAs; the public code has two warps to a thread "
                     "block, the paper one pair of tiles"},
  };
}

const Register<Published> entry{{
    .name = "tsparse",
    .summary = "tSparse's tiles, task list and FP16 MMAs",
    .make = [](const Params&) { return std::make_unique<Published>(tsparse()); },
}};

}  // namespace
}  // namespace tessera
