// The report on a finished or half-finished experiment: its table, figures and expectations.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/expectation.hpp"
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

/// The [table], or a table of the usual columns, as table.csv in the folder.
void write_table(const Report& report);

/// Writes the table, and prints it on stdout.
void print_table(const Report& report);

/// The rows and columns of that table, one object each.
Json table_json(const Report& report);

/// Judges every [[expect]] by the matrices that the config names as it was written: without --set,
/// and without what stands in for matrices that this machine lacks.
std::vector<ExpectationResult> judge_all(const Report& report);

/// Runs a program, its output on stderr, and returns its exit code. Throws an Error when it cannot
/// be started or is killed.
int run_program(const std::vector<std::string>& arguments);

/// Draws every [[figure]] (or those named) into the folder: data (.json, .csv) and, through the
/// scripts in notebooks/, .pdf and .png. Returns the paths of the figures drawn. One without rows
/// is left out, which stderr says; NoRows where it was named, or is all there is.
std::vector<std::string> draw_figures(const Report& report, const std::string& folder,
                                      const std::vector<std::string>& only);

}  // namespace tessera
