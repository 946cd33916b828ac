// The options of tcgnn, for its host and its device half.
#pragma once

#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/tcf.hpp"
#include "kernels/spmm/tcgnn/schedule.hpp"

namespace tessera::tcgnn {

struct TcgnnOptions {
  explicit TcgnnOptions(const Params& params);

  int warps;  // of a thread block

  /// "warps = 4": every option by the name of its parameter.
  std::string to_text() const;
  Schedule schedule() const { return {.warps = warps}; }
};

std::vector<ParamSpec> params();

/// Throws an Error for TC blocks other than 16 x 8.
void check_blocks(const Tcf& a);

}  // namespace tessera::tcgnn
