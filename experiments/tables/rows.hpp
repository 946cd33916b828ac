// Records as flat rows: what tables, figures and expectations are made of.
//
// A row is a plan entry joined with its record: the point's parameters, the labels of the plan,
// what was found. Columns are named once, here (row_columns()); a name that is none of them and was
// not derived is an error with the nearest known one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/run/record.hpp"

namespace tessera {

/// Column -> text, number or bool; a column without a value is absent.
using Row = std::map<std::string, Json>;

/// One row per plan entry that has a record, in plan order, derived columns and reduced rows
/// included.
std::vector<Row> make_rows(const Plan& plan, const RecordSet& records, const Config& config);

/// The columns every row may have, with what they mean and their units.
const std::map<std::string, std::string>& row_columns();

/// How the value of a column came about: the row's origin, but for what every backend finds alike,
/// which is "counted" (sizes, tiles, MMAs, and what is derived from nothing else) or "measured"
/// (times of the host's preparation).
std::string value_origin(const Row& row, const std::string& column, const Config& config);

/// Throws an Error with the place unless `column` is known, derived, a parameter or a label.
void check_column(const std::string& column, const std::vector<Row>& rows, const Config& config,
                  const SourceLocation& place);

/// Rows whose columns have these values. Rows that are not "ok" are left out unless `where` speaks
/// of the status, those an [[unfold]] made unless it speaks of "unfolded".
std::vector<Row> select(const std::vector<Row>& rows, const Settings& where);

/// As shown to people and written to CSV: text as it is, numbers with six significant digits.
std::string cell_text(const Row& row, const std::string& column);

}  // namespace tessera
