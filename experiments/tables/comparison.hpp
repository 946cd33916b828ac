// Two sets of records, point by point: which products became faster, slower, wrong or right.
//
// Points are paired by what identifies them (matrix, right, n, seed, values, reorder, format,
// kernel, model, device, backend, l2, each with its parameters) but for the columns compared. A
// parameter that a record does not have, because it is older than the parameter, has its default.
// The commit, the host, and the duration and number of the samples do not identify a point.
// time_comparison.hpp has the test behind the verdicts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"
#include "experiments/tables/time_comparison.hpp"

namespace tessera {

struct CompareRule {
  std::vector<std::string> by = {};  // columns compared; empty: found by compare_sets()
  double threshold = 0.05;           // smallest relative difference that counts, where one is
                                     // measured; covers what repeated runs on an H200 differ by
  double predicted_threshold = 0;    // likewise where both are predicted
  double alpha = 0.05;               // of compare_times()
  std::uint64_t seed = 1;            // of mean_speed()
};

/// The change of a point from A to B. The first four are those of TimeVerdict, for times.
enum class Change {
  kFaster,
  kSlower,
  kSame,
  kAmbiguous,
  kUntimed,  // ok in both, but one has no time, as an emulation
  kBroken,   // ok in A; wrong, failed, timeout or oom in B
  kMended,   // the other way round
  kFailing   // ok in neither
};
const char* to_text(Change change);
inline constexpr int kChanges = 8;

struct ComparedPair {
  Row a;
  Row b;
  std::string label;   // of B in the compared columns: "acc_spmm(precision=tf32)"; empty for none
  std::string origin;  // "measured", or "simulated/measured" of A and B
  Change change = Change::kUntimed;
  std::optional<TimeComparison> time = {};  // where both have one
};

/// A point of one set that has no partner.
struct Unpaired {
  Row row;
  std::string label;
  std::string reason;
};

/// The pairs of one label and origin.
struct ComparedGroup {
  std::string label;
  std::string origin;
  std::map<Change, int> counts = {};
  int pairs = 0;
  std::optional<SpeedMean> speed = {};  // over the pairs that have times
};

struct SetComparison {
  std::vector<std::string> by = {};
  std::string a_label = {};              // of A in the compared columns
  std::vector<ComparedPair> pairs = {};  // in the order of A
  std::vector<ComparedGroup> groups = {};
  std::vector<Unpaired> only_a = {};
  std::vector<Unpaired> only_b = {};
};

/// Compares B with A. Without compared columns, those are compared in which all of A has one value
/// and all of B another one: device, kernel, reorder, format, model or l2, never the backend, so
/// that a prediction meets a measurement only where `by` names the backend.
///
/// Throws an Error for an unknown column, for points of one set that nothing tells apart, for a set
/// A with several values of the compared columns, and where no point has a partner.
SetComparison compare_sets(const RecordSet& a, const RecordSet& b, const Settings& where_a,
                           const Settings& where_b, const CompareRule& rule);

/// Compares the values that the compared columns have in one set with one of them. `baseline` is
/// its label; a column of a variant is labelled with its parameters that vary.
SetComparison compare_within(const RecordSet& set, const Settings& where,
                             const std::string& baseline, const CompareRule& rule);

/// The columns that tell pairs apart, for tables: "matrix", then what else is needed.
std::vector<std::string> varying_columns(const std::vector<ComparedPair>& pairs,
                                         const std::vector<std::string>& by);

}  // namespace tessera
