// A plan: the points of an experiment, in order, with the labels its figures will use.
//
// A function of the config alone: the same config gives the same plan on every machine, which is
// what lets shards of it run anywhere. Labels ("step" of an ablation, "case") belong to the plan
// and not to the point: two labels may share one point, which then runs once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/config.hpp"
#include "experiments/point.hpp"

namespace tessera {

struct PlanEntry {
  Point point;
  std::string hash;                           // params_hash(point)
  std::string matrix;                         // short name, as in tables and figures
  std::map<std::string, std::string> labels;  // "step" -> "+RO", "case" -> "best guess"
};

struct Plan {
  std::vector<PlanEntry> entries;  // matrix outermost, backend innermost; no two alike
  std::vector<std::string> notes;  // what was merged, for --dry-run
};

/// Every point of grid x zips x (cases | ablation) x backends. `backends` replaces the config's
/// when not empty. Names (matrices excepted), parameters and their values are checked here; errors
/// carry the place in the config. A flat parameter goes to whichever of the point's variants
/// declares it; variants that do not are not affected, and points that thereby coincide become one.
Plan make_plan(const Config& config, const std::vector<std::string>& backends = {});

/// The entries of shard `index` (1-based) of `count`: whole matrices, dealt to the least loaded
/// shard by descending estimated cost. Every entry is in exactly one shard.
Plan shard(const Plan& plan, int index, int count);

/// Rough relative cost of a matrix's entries: nonzeros when they are known, else the file's size.
double estimated_cost(const PlanEntry& entry);

}  // namespace tessera
