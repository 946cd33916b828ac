// The method of rode, which its host half and its device half share.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::rode {

row_pieces::Method method(const Params& params);

}  // namespace tessera::rode
