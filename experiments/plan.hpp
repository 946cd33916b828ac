// A plan: the points of an experiment, in order, with the labels its figures will use.
//
// A pure function of the config: the same config gives the same plan on every machine, which is
// what lets shards of it run anywhere. Labels ("step" of an ablation, the name of a [[case]])
// belong to the plan and not to the point: two labels may share one point, which then runs once.
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
};

struct Plan {
  std::string experiment;          // id
  std::string config_hash;         // over the resolved config, includes and --set applied
  std::vector<PlanEntry> entries;  // in config order, matrix outermost; may repeat a point
  std::vector<std::string> notes;  // what was merged or left out, for --dry-run: "rcm ignores ..."
};

/// `backends` replaces the config's when not empty (--backend).
Plan make_plan(const Config& config, const std::vector<std::string>& backends = {});

/// The entries of shard `index` of `count` (0-based): whole matrices, dealt by descending
/// estimated cost; every entry is in exactly one shard.
Plan shard(const Plan& plan, int index, int count);

}  // namespace tessera
