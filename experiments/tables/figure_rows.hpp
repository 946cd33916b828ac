// The rows of a figure before they become its points: y over that of other rows, and one row for
// all that share a place.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// "geomean", "mean", "median", "min" or "max" of values, of which there is at least one.
double statistic(const std::string& name, std::vector<double> values);

/// The rows with y over that of `relative_to`: of the row of the same matrix, N, backend, device
/// and state of the L2. A row without such a partner is left out. Throws an Error with the figure's
/// place where two rows could be the partner. `all` are the rows of the table.
std::vector<Row> relative_rows(const Figure& figure, const RowRefs& drawn,
                               const std::vector<Row>& all, const Config& config);

/// A row for every panel, series, origin and x: its y is the figure's statistic over the rows of
/// that place, which have `point_id` no longer.
std::vector<Row> statistic_rows(const Figure& figure, const RowRefs& drawn, const Config& config);

/// Sorts the rows: panels, series and x that are labels of bins as the bins are, and cases as the
/// config has them. All others keep their order.
void order_by_labels(const Figure& figure, std::vector<Row>& drawn, const Config& config);

}  // namespace tessera
