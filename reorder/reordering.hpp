// The interface of a reordering: a matrix in, an order of its rows (and columns) out.
//
// Contract: the matrix is not changed. The result is deterministic for given parameters, at any
// number of threads, unless its watch cuts it short. A matrix the algorithm has no answer for
// raises Unsupported with the reason. Only the pattern counts, never the values.
#pragma once

#include <optional>
#include <string>

#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct Order {
  Permutation rows;                 // always given; the identity when rows stay
  std::optional<Permutation> cols;  // given only by reorderings that move columns too
  std::string chosen = {};          // of several candidates tried: the one that won
};

class Reordering {
 public:
  static constexpr const char* kKind = "reordering";
  virtual ~Reordering() = default;

  virtual Order order(const CsrMatrix& matrix, Watch& watch) const = 0;

  /// Without a limit, telling nobody.
  Order order(const CsrMatrix& matrix) const {
    Watch watch;
    return order(matrix, watch);
  }

  /// Counts changes of the orders given: one that was kept from before is used no more.
  virtual int version() const { return 1; }
};

/// The matrix in that order.
CsrMatrix apply(const CsrMatrix& matrix, const Order& order);

}  // namespace tessera
