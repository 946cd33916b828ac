// What a config has done to its rows before they become tables and figures: [[join]], [[derive]],
// [[unfold]] and [[reduce]], in this order (config.hpp says what each is).
//
// Each throws an Error with its place for a column that is none.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Puts columns of the rows that `from` selects beside those of the others, case by case.
void join_rows(const Join& join, const Config& config, std::vector<Row>& rows);

/// "predicted_l2_hit_pct"; of the column "origin": where the joined values are from.
std::string joined_name(const Join& join, const std::string& column);

/// A row without one of the columns it takes gets no value.
void derive_column(const Derive& derive, const Config& config, std::vector<Row>& rows);

/// The columns in the expression of a derived column.
std::vector<std::string> variables_of(const Derive& derive);

/// Adds a row for every stage of a product ("stages"), with its us as "count"; or, of other
/// columns, a row for every bin of a row's histogram, all to the last bin of any row: figures
/// compare them bin by bin.
void unfold_rows(const Unfold& unfold, const Config& config, std::vector<Row>& rows);

/// Made by an [[unfold]].
bool is_unfolded(const Row& row);

/// Adds, per group, its best row under the reduction's name.
void reduce_rows(const Reduce& reduce, const Config& config, std::vector<Row>& rows);

/// Whether the columns have these values, or one of each list of them.
bool matches(const Row& row, const Settings& where);

}  // namespace tessera
