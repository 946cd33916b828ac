// Holding results against a paper: a statistic of some rows, or of ratios of rows, against the
// number it printed.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

struct ExpectationResult {
  std::string name;
  std::string source;
  double expected = 0;
  double found = 0;
  std::size_t values = 0;  // rows (or pairs of rows) the statistic is over
  bool met = false;        // false when there was no value at all
  std::string text;        // one line for people
};

ExpectationResult judge(const Expect& expect, const std::vector<Row>& rows, const Config& config);

}  // namespace tessera
