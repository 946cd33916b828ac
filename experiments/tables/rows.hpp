// Records as flat rows, from which tables, figures and expectations are made.
//
// A row is a plan entry joined with its record: the point's parameters, the labels of the plan and
// the results. The columns of a record are listed in records/columns.hpp; an unknown name that was
// not derived is an error with the nearest known one.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_index.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/tables/row.hpp"

namespace tessera {

/// Some of the rows of a table, in its order.
using RowRefs = std::vector<const Row*>;

/// One row per plan entry that has a record, in plan order, derived columns and reduced rows
/// included.
std::vector<Row> make_rows(const Plan& plan, const RecordSet& records, const Config& config);

/// The columns of rows, and which rows, that are asked for.
struct WantedRows {
  std::set<std::string> columns;
  std::vector<const Settings*> any_of;  // a row has to match one of these, its status aside
};

/// As make_rows() of the plan's points that are recorded, with the columns wanted, and labels,
/// alone; rows that are not wanted are left out. What works on several rows, and says so in the
/// config, sees all rows. Records are read with every core, and only those that are wanted.
std::vector<Row> make_wanted_rows(const Plan& plan, const RecordIndex& index, const Config& config,
                                  const WantedRows& wanted);

/// One row per record, without a plan: no labels, nothing derived.
std::vector<Row> record_rows(const RecordSet& records);

/// One row per plan entry, with the columns that are known before its point has run.
std::vector<Row> planned_rows(const Plan& plan);

/// The columns every row may have, with their meaning and unit.
const std::map<std::string, std::string>& row_columns();

/// The origin of a value: "counted" for sizes, tiles, MMAs and columns derived from nothing else,
/// "measured" for the times of the host's preparation, and the row's origin otherwise.
std::string value_origin(const Row& row, const std::string& column, const Config& config);

/// Throws an Error with the place unless `column` is known, derived, a parameter or a label.
void check_column(const std::string& column, const std::vector<Row>& rows, const Config& config,
                  const SourceLocation& place);

/// Rows whose columns have these values. Rows that are not "ok" are left out unless `where` speaks
/// of the status, those an [[unfold]] made unless it speaks of "unfolded".
std::vector<Row> select(const std::vector<Row>& rows, const Settings& where);

/// The same without copies.
RowRefs select_refs(const std::vector<Row>& rows, const Settings& where);

/// All of them.
RowRefs refs_of(const std::vector<Row>& rows);

/// The text of a cell for people and CSV files: numbers have six significant digits.
std::string cell_text(const Row& row, const std::string& column);

}  // namespace tessera
