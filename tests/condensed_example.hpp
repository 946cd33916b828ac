// The matrix that every condensed format is packed from by hand.
#pragma once

#include "formats/base/matrix.hpp"

namespace tessera {

/// 18 x 30: row 0 has columns 2, 5 and 29; row 9 has 1, 2, 3, 4, 6, 7 and 8; row 16 has 11; row 17
/// has 0. The values are 1 to 12.
inline CsrMatrix condensed_example() {
  return {
      18, 30,
      std::vector<std::int64_t>{0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 10, 10, 10, 10, 10, 10, 10, 11, 12},
      std::vector<std::int32_t>{2, 5, 29, 1, 2, 3, 4, 6, 7, 8, 11, 0},
      std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
}

}  // namespace tessera
