// The steps between rows and the tables and figures of a config: [[join]], [[derive]], [[unfold]]
// and [[reduce]], in this order (config.hpp describes them).
//
// Each throws an Error with its place for an unknown column.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Puts columns of the rows that `from` selects beside those of the others, case by case.
void join_rows(const Join& join, const Config& config, std::vector<Row>& rows);

/// "predicted_l2_hit_pct". Joined with the column "origin" it is the origin of the joined values.
std::string joined_name(const Join& join, const std::string& column);

/// A row without one of the columns it takes gets no value.
void derive_column(const Derive& derive, const Config& config, std::vector<Row>& rows);

/// The columns in the expression of a derived column.
std::vector<std::string> variables_of(const Derive& derive);

/// Adds a row for every stage of a product ("stages"), with its time in us as "count". For another
/// column it adds a row for every bin of a row's histogram, up to the last bin of any row, so that
/// figures can compare them bin by bin.
void unfold_rows(const Unfold& unfold, const Config& config, std::vector<Row>& rows);

/// True when an [[unfold]] made the row.
bool is_unfolded(const Row& row);

/// Adds, per group, its best row under the reduction's name.
void reduce_rows(const Reduce& reduce, const Config& config, std::vector<Row>& rows);

/// True when every column has its value, or one value of its list.
bool matches(const Row& row, const Settings& where);

}  // namespace tessera
