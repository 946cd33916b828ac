// The numbers of products and results of A A, by element and by 8 x 8 tile, without its values.
//
// Source: tSparse (Zachariadis et al., 2020), Table 1. The counts equal its own (mc2depi,
// wiki-Vote) when a pair of tiles counts as an intermediate product only if some column of the one
// and the same row of the other hold nonzeros, and a tile of C only if an element falls into it.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"

namespace tessera {

/// The counts of C = A A. They are structural: values that cancel still count.
struct SquareCount {
  std::int64_t products = 0;       // a_ik a_kj, both stored
  std::int64_t nnz = 0;            // elements of C
  std::int64_t tile_products = 0;  // pairs of tiles with a product between them
  std::int64_t tiles = 0;          // tiles of C
};

/// Counts A A. Throws an Error unless A is square. Parallel; it takes about a nanosecond per
/// product, and time for all pairs of tiles that meet.
SquareCount count_square(const CsrMatrix& matrix);

}  // namespace tessera
