// Runs a plan: each matrix in a process of its own, one record per point. Points that already have
// a record are skipped. With `gpus`, each GPU has a process of several lanes (gpu_pipeline.hpp),
// which go on with the next matrix, and at the end with a part of another lane's where that ends
// the run earlier (handout.hpp).
//
// A crash, a sticky CUDA error, a timeout or the out-of-memory killer costs only the point it hits:
// the point is recorded as such, and a new process continues with the next. Where it is not known
// which of several lanes' points was hit, they are run again, one at a time. Only this process
// writes records. SIGINT, or the end of the time that the run may take, discards the current points
// and returns; everything recorded is on the disk, and the same run continues there.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "experiments/config/plan.hpp"
#include "experiments/records/skips.hpp"

namespace tessera {

struct RunOptions {
  std::string out;                     // folder of the record set
  std::string file = "records.jsonl";  // shards write their own
  std::string experiment;              // id and config hash, for the records
  std::string config_hash;
  int jobs = 1;                  // matrices at a time
  int gpus = 0;                  // on which they are measured, by a worker each; 0 for the first
  double timeout_s = 600;        // of one point, loading its matrix included
  double launch_timeout_s = 60;  // of one launch on a GPU
  double max_seconds = std::numeric_limits<double>::infinity();  // a point that runs then is left
  std::vector<std::string> rerun;  // "failed", "wrong", "all": do these again
  bool fresh_orders = false;       // take no order from the cache
};

struct RunSummary {
  std::map<std::string, int> by_status;  // of the plan's points, as they now stand
  SkipCount skips;                       // of those that are skipped
  int only_overflowed = 0;               // of those that are wrong: no finite value is wrong
  int ran = 0;                           // attempted now
  int left = 0;                          // without a record, or to be done again
  bool interrupted = false;
  bool out_of_time = false;  // max_seconds have passed, and points are left

  /// True when there are points, and every one of them was skipped.
  bool all_skipped() const;
  Json to_json() const;  // ran, left, by_status, skips
};

RunSummary run_plan(const Plan& plan, const RunOptions& options);

/// The state of a plan's points in a record set: the summary that run_plan would start from.
RunSummary plan_status(const Plan& plan, const std::string& out);

/// A plan and its state.
struct PlanStatus {
  Plan plan;
  RunSummary summary;
};

/// The same of a plan that `make` makes, while the records are read.
PlanStatus plan_status(const std::function<Plan()>& make, const std::string& out);

}  // namespace tessera
