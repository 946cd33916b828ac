// The statistics of a matrix as named figures: what `tessera matrix info` prints, records keep and
// tables, figures and expectations ask for.
#pragma once

#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/statistics/square.hpp"
#include "formats/statistics/statistics.hpp"

namespace tessera {

struct NamedValue {
  std::string group;    // heading they are printed under
  std::string name;     // flat and distinct: "tiles_8x8", "mean_nnz_tc_16x8"
  std::string meaning;  // one line
  ParamValue value;
};

/// Every figure, in the order to print them, group by group.
std::vector<NamedValue> named_values(const MatrixStatistics& statistics);

/// The same of A A.
std::vector<NamedValue> named_values(const SquareCount& square);

}  // namespace tessera
