// A plan: the points of an experiment, in order, with the labels its figures will use.
//
// A function of the config and of what its matrix names mean on this machine: machines that see the
// same files make the same plan, which is what lets shards of it run anywhere. Labels ("step" of an
// ablation, "case") belong to the plan and not to the point: two labels may share one point, which
// then runs once.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/points/point.hpp"

namespace tessera {

struct PlanEntry {
  Point point;
  std::string hash = {};                           // params_hash(point)
  std::string matrix = {};                         // short name, as in tables and figures
  std::map<std::string, std::string> labels = {};  // "step" -> "+RO", "case" -> "best guess"
  // Relative estimate: size of the matrix file (the mean one without a file) x n, x 1 to pack.
  double cost = 0;
};

struct Plan {
  std::vector<PlanEntry> entries;  // matrix outermost, backend innermost; no two alike
  std::vector<std::string> notes;  // what was left out or merged, for --dry-run
};

/// The points are [grid] x each [[zip]] x ([[case]] or [ablation]) x backends. The matrix varies
/// slowest, then the keys of the grid in the order written, the backend fastest. Steps and cases
/// override the grid. A flat parameter goes to whichever of the point's variants declares it; where
/// it does not apply it is left out, and entries that thereby coincide become one. `backends`
/// replaces the config's when not empty.
///
/// Throws an Error with the place for a key that is no axis and no parameter of any variant named,
/// a parameter two variants of a point declare, an unknown name, an ill-typed value, a format that
/// the kernel does not read, and, where a backend only packs A, for a kernel or what else belongs
/// to a product, and for a missing format. A matrix that is merely absent from this machine keeps
/// the name it was given: its points say so when they run.
Plan make_plan(const Config& config, const std::vector<std::string>& backends = {});

/// The one point that a verb's options describe, resolved like a config's: `config`, whose path
/// stands in messages, with these axes and parameters as its grid.
Point plan_point(Config config, const std::vector<std::pair<std::string, Json>>& settings);

/// The entries without those that share a request with an earlier one, under other labels.
std::vector<const PlanEntry*> distinct_requests(const Plan& plan);

/// The shard, from 1 to `count`, of every matrix of a plan: whole matrices, dealt by descending
/// cost to the shard that has least. A function of the plan alone.
std::map<std::string, int> deal_matrices(const Plan& plan, int count);

/// The entries of shard `index` of `count`, as deal_matrices() deals them; every entry is in
/// exactly one shard.
Plan shard(const Plan& plan, int index, int count);

}  // namespace tessera
