// The config file of an experiment: TOML for people, read once into plain structures.
//
// Every unknown key and ill-typed value is an Error "file:line:column: ..." with the nearest known
// name. What a sweep may set depends on the variants it names, so the names in sweeps are checked
// where points are resolved (plan.hpp). `include` and --set: document.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/document.hpp"
#include "experiments/points/point.hpp"

namespace tessera {

/// A value given in a config, with its place: text, integer, number or bool; in a `where` also a
/// list of them, of which one has to match.
struct Setting {
  Json value;
  SourceLocation place;
};

/// Axis or parameter name -> value. Parameters may be qualified, "kernel.precision", which is also
/// what kernel = { name = "acc_spmm", precision = "tf32_raw" } has become.
using Settings = std::map<std::string, Setting>;

/// One dimension of a sweep, in the order written: every point takes one of the choices.
struct Axis {
  std::string name;               // key of [grid]; "zip" for a [[zip]]
  std::vector<Settings> choices;  // sets of matrices ("@name") are taken apart
  SourceLocation place;
};

/// A named group of settings: a [[case]], the base or a step of an [ablation].
struct NamedSettings {
  std::string name;
  Settings settings;
};

struct Ablation {
  // cumulative: base, base + s1, base + s1 + s2, ...; one_at_a_time: base, base + s1, base + s2,
  // ...; leave_one_out: all steps ("all"), then all but each ("-RO" is all but the step "+RO").
  enum class Mode { kCumulative, kLeaveOneOut, kOneAtATime };
  Mode mode = Mode::kCumulative;
  NamedSettings base;
  std::vector<NamedSettings> steps;
};

/// [[join]]: beside the rows of one backend those of another of the same case. Every row that does
/// not match `from` gets the `columns` of the row that does and agrees with it in `on`, under the
/// names <name>_<column>, and its origin as <name>_origin: "predicted_l2_hit_pct" beside
/// "l2_hit_pct". Joined before anything is derived.
struct Join {
  std::string name;
  std::vector<std::string> on;
  std::vector<std::string> columns;
  Settings from;
  SourceLocation place;
};

/// [[derive]]: a column computed from others of the same row: by `expr`, an arithmetic expression
/// over numeric columns, or by cutting column `of` at `bins` into `labels` (one more than bins).
struct Derive {
  std::string name;
  std::string expr;
  std::string of;
  std::vector<double> bins;
  std::vector<std::string> labels;
  SourceLocation place;
};

/// [[unfold]]: for every row whose column `of` is a histogram, "0:5 4-7:3", adds a row a bin (all
/// to the last of any row), with the bin ("4-7") in column `name`, and what falls into it in the
/// columns "count" and "share"; of the column "stages", a row for every stage of a sparse product,
/// its us as "count". Only a `where` with unfolded = "..." selects them.
struct Unfold {
  std::string name;
  std::string of;
  SourceLocation place;
};

/// [[reduce]]: among rows that agree in `keep`, adds the best one once more, under another name in
/// column `column`. Best-SC: column = "kernel", name = "Best-SC", where = {...}, by = "time_us".
struct Reduce {
  std::string name;
  std::string column;
  std::vector<std::string> keep;
  std::string by;
  bool largest = false;
  Settings where;
  SourceLocation place;
};

/// [table]: what a run prints at its end, and writes as CSV.
struct Table {
  std::vector<std::string> columns;
  Settings where;
  Settings best;  // column -> "min" or "max", which is bold in LaTeX
  SourceLocation place;
};

/// [[figure]]
struct Figure {
  std::string id;
  std::string kind;  // a script in notebooks/: bars, lines, scatter, ...
  std::string title;
  std::string caption;
  std::string x, y, series, panel;  // columns; panel may be empty
  std::string low, high;            // columns of whiskers; empty for none
  std::string bound;                // column that y may not exceed, drawn per series; or empty
  std::string x_label, y_label;     // empty: from the documentation of the column
  std::string x_scale, y_scale;     // linear, log; x also category; empty: as the values of x are
  std::string normalise;            // series every other is divided by, x by x
  Settings relative_to;             // when given: y is over that of these rows, matrix by matrix
  std::string statistic;            // of the rows of one x in a series: geomean, ...; or empty
  std::optional<double> reference;  // a horizontal line to compare with
  std::string reference_label;
  Settings where;
  SourceLocation place;
};

/// [[expect]]: a number or a trend of a paper, held against the rows.
struct Expect {
  std::string name;
  std::string source;
  std::string column;
  std::string statistic;  // geomean, mean, median, min, max, rank_correlation
  std::string with;       // the other column of a rank correlation
  Settings where;
  Settings relative_to;  // when given: of the ratios column(where) / column(relative_to)
  double value = 0;
  double tolerance = 0;                  // relative; only without a trend
  std::string trend;                     // at_least, at_most, or empty
  std::optional<std::int64_t> matrices;  // it needs results of that many; empty: of all it is about
  SourceLocation place;
};

/// A set of matrices that a paper counts: those that stand for them here.
struct CountedSet {
  std::string name = {};   // without the @
  std::string found = {};  // of which matrices it consists, and how many the paper had
  std::vector<std::string> matrices = {};
};

struct Config {
  std::string path;
  std::string id;
  std::string title;
  std::string question;  // that it answers, one sentence
  std::string paper;     // that it follows; empty for none
  std::string figure;    // of the paper: "Figure 15"
  double minutes = 0;    // of a run on two cores without a GPU and without files of matrices
  std::string gpu_only;  // why nothing can stand in for a GPU; empty where something does
  std::uint64_t seed = 42;
  double timeout_s = 600;        // of one point
  double launch_timeout_s = 60;  // of one launch on a GPU
  std::vector<std::string> backends;
  std::vector<Axis> grid;  // cartesian
  std::vector<Axis> zips;  // each: lists of one length, in step
  std::vector<NamedSettings> cases;
  std::vector<Ablation> ablation;  // none or one
  bool check = true;
  bool against_fp32 = false;   // the check also compares with FP32 sums
  bool overflow_fails = true;  // a point that is wrong by overflow alone fails the run
  bool square = false;         // statistics of packed matrices also count A A
  bool unpermute = false;      // [measure]: also time restoring the rows of C
  MeasureRule measure;
  std::string sample;    // [simulate]: as in Point
  CounterRule counters;  // [counters]; without a source where nothing is counted
  std::vector<Join> joins;
  std::vector<Derive> derives;
  std::vector<Unfold> unfolds;
  std::vector<Reduce> reduces;
  std::vector<Table> table;  // none or one
  std::vector<Figure> figures;
  std::vector<Expect> expects;
  Json matrix_sets = {};  // those used, with their matrices
  std::vector<CountedSet> counted_sets;
  std::string hash;  // over everything: includes and --set applied, with the sets it uses
};

/// The parts of a config that a machine cannot run: those on a GPU, those on matrix files. The
/// config as it is without a GPU has the keys of [without.gpu], no backend that needs one, and, in
/// the `where` of its table and its figures, simulated or other predicted rows in the place of such
/// a backend's. Without data it has the keys of [without.data] and the stand-ins of its sets of
/// matrices.
struct Without {
  bool gpu = false;
  bool data = false;  // files of matrices

  bool operator==(const Without&) const = default;
};

/// Reads a config: a path, or the name of a shipped one ("quickstart"). `sets` are "a.b=v", v in
/// TOML or a bare word, and override what `without` changes.
Config load_config(const std::string& name_or_path, const std::vector<std::string>& sets = {},
                   const Without& without = {});

/// Names of the shipped configs.
std::vector<std::string> shipped_configs();

}  // namespace tessera
