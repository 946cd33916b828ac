// The report on a finished or half-finished experiment: its table and its expectations.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/expectation.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/tables/rows.hpp"

namespace tessera {

/// A config with its records.
struct Report {
  Config config;
  std::string folder;  // of the records
  RecordSet records;   // all, or of a report for figures one of every machine
  std::vector<Row> rows;
};

/// Joins the config's plan with the records of a folder; backends that only the records know (from
/// run --backend) are part of it.
Report read_report(const Config& config, const std::string& folder);

/// The same with what some figures are drawn from, all without ids, and no more: in less time and
/// memory.
Report read_figure_report(const ConfigRequest& request, const std::string& folder,
                          const std::vector<std::string>& only);

/// The rows and columns of the [table], or those of a table of the usual columns.
struct ResultTable {
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

ResultTable result_table(const Report& report);

/// That table as table.csv in the folder.
void write_table(const Report& report);

/// Writes the table, and prints it on stdout. Columns in which no row has a value are named on
/// stderr instead.
void print_table(const Report& report);

/// The rows and columns of that table, one object each.
Json table_json(const Report& report);

/// Judges every [[expect]] by the matrices that the config names as it was written: without --set,
/// and without what stands in for matrices that this machine lacks.
std::vector<ExpectationResult> judge_all(const Report& report);

}  // namespace tessera
