// The method of merge_spmm, which its host half and its device half share.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::merge_spmm {

row_pieces::Method method(const Params& params);

}  // namespace tessera::merge_spmm
