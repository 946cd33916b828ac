// What rode's host and device half have to agree on.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::rode {

row_pieces::Method method(const Params& params);

}  // namespace tessera::rode
