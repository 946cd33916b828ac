// Runs a plan: each matrix in a process of its own, one record per point. Points that already have
// a record are skipped.
//
// A crash, a sticky CUDA error, a timeout or the out-of-memory killer costs only the point it hits:
// the point is recorded as such, and a new process continues with the next. Only this process
// writes records. SIGINT discards the current points and returns; everything recorded is on the
// disk.
#pragma once

#include <map>
#include <set>
#include <string>

#include "experiments/config/plan.hpp"

namespace tessera {

struct RunOptions {
  std::string out;                     // folder of the record set
  std::string file = "records.jsonl";  // shards write their own
  std::string experiment;              // id and config hash, for the records
  std::string config_hash;
  int jobs = 1;                 // matrices at a time
  double timeout_s = 600;       // of one point, loading its matrix included
  double max_seconds = 0;       // start no point after that; 0 for no limit
  std::set<std::string> rerun;  // "failed", "wrong", "all": do these again
  bool fresh_orders = false;    // take no order from the cache
};

struct RunSummary {
  std::map<std::string, int> by_status;  // of the plan's points, as they now stand
  int ran = 0;                           // attempted now
  int left = 0;                          // without a record, or to be done again
  bool interrupted = false;
};

RunSummary run_plan(const Plan& plan, const RunOptions& options);

/// The state of a plan's points in a record set: the summary that run_plan would start from.
RunSummary plan_status(const Plan& plan, const std::string& out);

}  // namespace tessera
