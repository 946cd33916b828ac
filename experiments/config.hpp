// The config file of an experiment: TOML for people, read once into plain structures.
//
// Every unknown key and ill-typed value is an Error "file:line:column: ..." with the nearest known
// name. What a sweep may set depends on the variants it names, so the names in sweeps are checked
// where points are resolved (plan.hpp). `include` pulls in files relative to the including one,
// depth first; --set overrides single keys afterwards (document.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/document.hpp"
#include "experiments/point.hpp"

namespace tessera {

/// A value of a sweep, with its place. Kept as JSON: string, integer, double or bool.
struct Setting {
  Json value;
  Place place;
};

/// Axis or parameter name -> value. kernel = { name = "acc_spmm", rounding = "raw" } has become
/// "kernel" and "kernel.rounding".
using Settings = std::map<std::string, Setting>;

/// Settings that hold together: one value of a grid axis, one row of a [[zip]], a [[case]], a step.
struct Choice {
  std::string name;  // label; empty for none
  Settings settings;
  Place place;
};

/// One dimension of a sweep: its points take one of the choices each.
struct Axis {
  std::string name;  // key of [grid]; "zip" for a [[zip]]
  std::vector<Choice> choices;
  Place place;
};

/// [ablation]: base plus named steps.
struct Ablation {
  enum class Mode {
    kCumulative,   // base, base + s1, base + s1 + s2, ...
    kLeaveOneOut,  // "all", then all but each: "-RO" is everything but the step "+RO"
    kOneAtATime,   // base, base + s1, base + s2, ...
  };
  Mode mode = Mode::kCumulative;
  Choice base;
  std::vector<Choice> steps;
};

/// [[derive]]: a column computed from others. Either `expr` (arithmetic over columns) or `bins`
/// (upper limits, ascending) with `labels` (one more than bins) over `of`.
struct Derive {
  std::string name;
  std::string expr;
  std::string of;
  std::vector<double> bins;
  std::vector<std::string> labels;
  Place place;
};

/// [[reduce]]: of the rows that agree in all of `over`'s complement, keep the best.
struct Reduce {
  std::string name;               // value written into column `into`, such as "Best-SC"
  std::string into = "series";    // label column that receives it
  std::vector<std::string> over;  // columns the choice is made over, such as "kernel"
  std::string by = "time_us";     // column compared
  bool largest = false;           // the best is the smallest unless best = "max"
  Settings where;                 // only rows with these column values take part
  Place place;
};

/// [table]: rows x columns on screen and as CSV.
struct Table {
  std::vector<std::string> columns;  // columns of the flat rows
  std::string sort;                  // column to sort by; plan order when empty
  Settings where;
  Place place;
  bool present = false;
};

/// [[figure]]
struct Figure {
  std::string id;    // the experiment's when only one figure is given
  std::string kind;  // a script of notebooks/: bars, lines, scatter, ablation_bars, box, heatmap
  std::string title;
  std::string caption;
  std::string x, y, series;
  std::string low, high;  // whisker columns; empty for none
  std::string x_label, y_label;
  std::string x_scale;             // "linear", "log"; empty: by the type of the column
  std::string y_scale = "linear";  // "linear", "log"
  std::string panel;               // column to split into small multiples; empty for one panel
  std::string normalise;           // series every other is divided by, per x (and panel)
  Settings where;
  Place place;
};

/// [[expect]]: a number or a trend from a paper, checked against the rows.
struct Expect {
  std::string name;
  std::string source;                 // "Acc-SpMM, Fig. 15"
  Settings where;                     // rows taken
  std::string column;                 // their column
  std::string statistic = "geomean";  // geomean, mean, median, min, max, count
  Settings relative_to;               // when not empty: of the row-wise ratio column(where) /
                                      // column(relative_to), joined on matrix and n
  double value = 0;                   // expected
  double tolerance = 0;               // relative; without trend
  std::string trend;                  // "at_least", "at_most", "" (within tolerance)
  Place place;
};

struct Config {
  std::string path;
  std::string id;     // letters, digits, ".", "_" and "-"; the file's name unless given
  std::string title;  // the id unless given
  std::string paper;
  std::uint64_t seed = 42;
  std::vector<std::string> backends;
  std::vector<Axis> grid;     // cartesian, in the order written
  std::vector<Axis> zips;     // [[zip]]: lists of one length, in step with each other
  std::vector<Choice> cases;  // [[case]]: explicit settings; "name" is the label "case"
  bool has_ablation = false;
  Ablation ablation;
  bool check = true;                  // [check] enabled = true
  MeasureRule measure;                // [measure]
  std::vector<std::string> counters;  // [counters] names = [...]
  double timeout_s = 600;             // [run] timeout_s: of one point
  std::vector<Derive> derives;
  std::vector<Reduce> reduces;
  Table table;
  std::vector<Figure> figures;
  std::vector<Expect> expects;
  Json resolved;  // the whole config after includes and --set, with the sets it uses: hashed
};

/// Reads a config. `sets` are "a.b=v" with v as TOML (a bare word is text). `path` may be the name
/// of a shipped config ("quickstart").
Config load_config(const std::string& path, const std::vector<std::string>& sets = {});

/// Names of the shipped configs, sorted.
std::vector<std::string> shipped_configs();

}  // namespace tessera
