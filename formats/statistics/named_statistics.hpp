// The statistics of a matrix as named values: `tessera matrix info` prints them, records keep them,
// and tables, figures and expectations name them.
#pragma once

#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/statistics/square.hpp"
#include "formats/statistics/statistics.hpp"

namespace tessera {

struct NamedValue {
  std::string group;    // heading under which it is printed
  std::string name;     // distinct: "tiles_8x8", "mean_nnz_tc_16x8"
  std::string meaning;  // one line
  ParamValue value;
};

/// Every statistic in the order of printing, group by group.
std::vector<NamedValue> named_values(const MatrixStatistics& statistics);

/// The counts of A A in the same form.
std::vector<NamedValue> named_values(const SquareCount& square);

}  // namespace tessera
