// The interface of a reordering: a matrix in, an order of its rows (and columns) out.
//
// Contract: the matrix is not changed. The result is deterministic for given parameters, at any
// number of threads. A matrix the algorithm has no answer for raises Unsupported with the reason.
#pragma once

#include <optional>

#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"

namespace tessera {

struct Order {
  Permutation rows;                 // always given; the identity when rows stay
  std::optional<Permutation> cols;  // given only by reorderings that move columns too
};

class Reordering {
 public:
  static constexpr const char* kKind = "reordering";
  virtual ~Reordering() = default;

  virtual Order order(const CsrMatrix& matrix) const = 0;
};

/// The matrix in that order.
CsrMatrix apply(const CsrMatrix& matrix, const Order& order);

}  // namespace tessera
