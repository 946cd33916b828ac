// The report on a finished or half-finished experiment: its table, figures and expectations.
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

/// The [table], or a table of the usual columns: on stdout, and as table.csv in the folder.
void print_table(const Report& report, bool as_json);

/// Judges every [[expect]], one line each on stderr. Returns whether all were met.
bool judge_all(const Report& report);

/// Runs a program, its output on stderr, and returns its exit code. Throws an Error when it cannot
/// be started or is killed.
int run_program(const std::vector<std::string>& arguments);

/// Draws every [[figure]] (or those named) into the folder: data (.json, .csv) and, through the
/// scripts in notebooks/, .pdf and .png. Returns the paths of the figures drawn. One without rows
/// is left out, which stderr says; NoRows where it was named, or is all there is.
std::vector<std::string> draw_figures(const Report& report, const std::string& folder,
                                      const std::vector<std::string>& only);

}  // namespace tessera
