// A plan: the points of an experiment, in order, with the labels its figures will use.
//
// A function of the config and of what its matrix names mean on this machine: machines that see the
// same files make the same plan, which is what lets shards of it run anywhere. Labels ("step" of an
// ablation, the name of a [[case]]) belong to the plan and not to the point: two labels may share
// one point, which then runs once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/config.hpp"
#include "experiments/point.hpp"

namespace tessera {

struct PlanEntry {
  Point point;
  std::map<std::string, std::string> labels;  // "step" -> "+RO", "case" -> "best guess"
  double cost = 0;  // estimate to balance shards by: file size x n, the mean size for no file
};

struct Plan {
  std::string experiment;          // id
  std::string config_hash;         // over the resolved config, includes and --set applied
  std::vector<PlanEntry> entries;  // in config order, matrix outermost; may repeat a point
  std::vector<std::string> notes;  // what was merged or left out: "rounding does not apply to ..."
};

/// The points are [grid] x each [[zip]] x ([[case]] or [ablation]) x backends. The matrix varies
/// slowest, then the keys of the grid in the order written, the backend fastest. Steps and cases
/// override the grid. A parameter that does not apply to a point is left out there, and entries
/// that are identical after that merge. `backends` replaces the config's when not empty.
///
/// Throws an Error with the place for a key that is no axis and no parameter of any variant named,
/// an unknown name, an ill-typed value, a format that the kernel does not read, and a generator
/// name that cannot be. A matrix that is merely absent stays as it was given: its points will be
/// recorded as not run.
Plan make_plan(const Config& config, const std::vector<std::string>& backends = {});

/// The entries of shard `index` of `count` (0-based): whole matrices, dealt by descending cost to
/// the shard with least; every entry is in exactly one shard.
Plan shard(const Plan& plan, int index, int count);

}  // namespace tessera
