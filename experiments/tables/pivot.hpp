// A table with a column for every kernel: one measure of products, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

struct PivotRule {
  std::string measure = "gflops";
  std::string series = "kernel";       // its values become columns
  std::vector<std::string> keys = {};  // "matrix", then the columns that tell lines apart
  std::string baseline = {};           // value of series to divide by; empty for none
};

struct PivotCell {
  std::optional<double> value = {};
  std::string status = {};           // of a point without a value: "skipped", "wrong", ...
  std::optional<double> speed = {};  // relative to the baseline, above 1 where it is better
  bool best = false;                 // of its line
};

struct PivotLine {
  Row keys;
  std::vector<PivotCell> cells;  // one for each series
  int lines = 1;                 // of a mean: that it is over
};

struct Pivot {
  PivotRule rule;
  std::vector<std::string> series;
  std::vector<PivotLine> lines;
  std::vector<PivotLine> means;  // geometric, over the matrices of each setting; its speed likewise
  std::vector<int> wins;         // lines in which each series is best
};

/// True for gflops, hit rates and the like; of other measures the smallest value is best.
bool larger_is_better(const std::string& measure);

/// Lines and series are in the order of the rows. A mean is over those lines of its setting in
/// which every series that has any value there has one: the means of a line are of the same
/// products.
///
/// Throws an Error for a baseline that is no series, and for two rows with one place.
Pivot make_pivot(const std::vector<Row>& rows, const PivotRule& rule);

/// "1234*" is the best of its line, "(1.25x)" its speed relative to the baseline.
std::string to_text(const Pivot& pivot);
Json to_json(const Pivot& pivot);

}  // namespace tessera
