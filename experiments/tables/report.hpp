// The report on a finished or half-finished experiment: its table and its expectations.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// A config with its records.
struct Report {
  Config config;
  std::string folder;  // of the records
  RecordSet records;
  std::vector<Row> rows;
};

/// Joins the config's plan with the records of a folder; backends that only the records know (from
/// run --backend) are part of it.
Report read_report(const Config& config, const std::string& folder);

/// The rows and columns of the [table], or those of a table of the usual columns.
struct ResultTable {
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

ResultTable result_table(const Report& report);

/// The [table], or a table of the usual columns: on stdout, and as table.csv in the folder.
void print_table(const Report& report, bool as_json);

/// Judges every [[expect]], one line each on stderr. Returns whether all were met.
bool judge_all(const Report& report);

}  // namespace tessera
