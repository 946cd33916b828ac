// The method of row_split, which its host half and its device half share.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::row_split {

row_pieces::Method method(const Params& params);

}  // namespace tessera::row_split
