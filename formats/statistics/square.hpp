// What multiplying A by itself involves, counted and not computed: products and results, by element
// and by 8 x 8 tile.
//
// Source: tSparse (Zachariadis et al., 2020), Table 1. Its counts come out exactly (mc2depi,
// wiki-Vote) when a pair of tiles counts as an intermediate product only if some column of the one
// and the same row of the other hold nonzeros, and a tile of C only if an element falls into it.
#pragma once

#include <cstdint>

#include "formats/base/matrix.hpp"

namespace tessera {

/// Structural: values that cancel still count.
struct SquareCount {
  std::int64_t products = 0;       // a_ik a_kj, both stored
  std::int64_t nnz = 0;            // elements of C
  std::int64_t tile_products = 0;  // pairs of tiles with a product between them
  std::int64_t tiles = 0;          // tiles of C
};

/// Of A A. Throws an Error unless A is square. Parallel; time is that of the products, about a
/// nanosecond each, and of all pairs of tiles that meet.
SquareCount count_square(const CsrMatrix& matrix);

}  // namespace tessera
