// Records as CSV, one row after the other, so that none is held in memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/tables/record_cells.hpp"

namespace tessera {

/// A number for what decides which columns a record has: records of one shape have the same.
std::uint64_t shape_of(const JsonLine& record);

/// The row of a record without a plan: no labels, nothing derived.
class RecordsCsv {
 public:
  /// `environments` are the env records by env_id, which have to outlive this.
  explicit RecordsCsv(const std::map<std::string, Json>& environments)
      : environments_(&environments) {}

  /// The columns that this record needs.
  std::set<std::string> columns_of(const JsonLine& record);

  /// Begins a table with these columns, and is its first line.
  std::string header(const std::set<std::string>& columns);

  /// The line of a record. `missing` gets the columns that it needs and the table does not have.
  const std::string& row(const JsonLine& record, std::set<std::string>& missing);

 private:
  const std::vector<RecordCell>& cells_of(const JsonLine& record);

  const std::map<std::string, Json>* environments_;
  RecordCells cells_;
  std::set<std::string> header_;
  std::vector<std::uint32_t> ranks_;       // by column of cells_: its place in a line and 1
  std::vector<const RecordCell*> places_;  // of a line
  std::string line_;
};

}  // namespace tessera
