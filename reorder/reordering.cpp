#include "reorder/reordering.hpp"

namespace tessera {

CsrMatrix apply(const CsrMatrix& matrix, const Order& order) {
  CsrMatrix result = order.rows.is_identity() ? matrix : permute_rows(matrix, order.rows);
  if (order.cols) result = permute_cols(result, *order.cols);
  return result;
}

}  // namespace tessera
