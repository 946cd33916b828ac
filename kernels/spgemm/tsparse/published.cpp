// tSparse as published (Zachariadis et al., 2020).

#include "kernels/published.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

Published tsparse() {
  return {
      .paper = "tSparse",
      .choices = {{"kernel.cores", std::string("tensor"), "sections 3.3 and 4.3"},
                  {"kernel.zeros", std::string("drop"), "section 4.4"},
                  {"kernel.range", std::string("refuse"), "section 6.4: values in FP16's range"}},
      .departures = {"cells are counted by 64-bit operations, not by FP16 MMAs of zeros and ones",
                     "one radix sort replaces the segmented sort",
                     "the list of products is made slice by slice where it exceeds `slice`",
                     "two tiles lie on the diagonals of one m16n8k16 MMA, not of 16 x 16 x 16"},
  };
}

const Register<Published> entry{{
    .name = "tsparse",
    .summary = "tSparse's tiles, task list and FP16 MMAs",
    .make = [](const Params&) { return std::make_unique<Published>(tsparse()); },
}};

}  // namespace
}  // namespace tessera
