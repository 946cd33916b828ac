// The parameters of the order `matched`, which its halves for a CPU and for a GPU share.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "reorder/matched_search.hpp"
#include "reorder/watch.hpp"

namespace tessera::matched {

inline std::vector<ParamSpec> all_params() {
  return {{"reach",
           std::int64_t{64},
           "rows that a column offers as partners on each side of a row",
           {},
           1,
           1024},
          {"row_reach",
           std::int64_t{8},
           "rows that a column offers on each side of a row that looks for a better window",
           {},
           1,
           1024},
          {"swap_passes", std::int64_t{1}, "passes of swaps over all windows", {}, 0, 100},
          {"keep_natural", true, "keep the order of the file where that has no more TC blocks"},
          time_limit_param()};
}

inline Options options_of(const Params& params) {
  Options options;
  options.reach = static_cast<std::uint32_t>(params.integer("reach"));
  options.row_reach = static_cast<std::uint32_t>(params.integer("row_reach"));
  options.swap_passes = static_cast<int>(params.integer("swap_passes"));
  options.keep_natural = params.flag("keep_natural");
  return options;
}

}  // namespace tessera::matched
