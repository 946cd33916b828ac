// The interface of a reordering: a matrix in, an order of its rows (and columns) out.
//
// Contract: the matrix is not changed. The result is deterministic for given parameters, at any
// number of threads, unless its watch stops it. A matrix that the algorithm cannot order raises
// Unsupported with the reason. Only the pattern counts, never the values.
#pragma once

#include <optional>
#include <string>

#include "formats/base/matrix.hpp"
#include "formats/base/permutation.hpp"
#include "reorder/watch.hpp"

namespace tessera {

struct Order {
  Permutation rows;                 // [rows] the identity when rows keep their order
  std::optional<Permutation> cols;  // [cols] only from reorderings that move columns too
  std::string chosen = {};          // the best of several candidates, where there are several
};

class Reordering {
 public:
  static constexpr const char* kKind = "reordering";
  virtual ~Reordering() = default;

  /// The order of the matrix. It asks watch.stop() regularly and reports its progress to the watch.
  virtual Order order(const CsrMatrix& matrix, Watch& watch) const = 0;

  /// The order without a time limit or reports.
  Order order(const CsrMatrix& matrix) const {
    Watch watch;
    return order(matrix, watch);
  }

  /// The version of the algorithm. Raise it when orders change, so that cached ones are not used.
  virtual int version() const { return 1; }
};

/// The matrix with its rows, and columns if given, in that order.
CsrMatrix apply(const CsrMatrix& matrix, const Order& order);

}  // namespace tessera
