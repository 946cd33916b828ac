// What sputnik's host and device half have to agree on.
#pragma once

#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::sputnik {

row_pieces::Method method(const Params& params);

}  // namespace tessera::sputnik
