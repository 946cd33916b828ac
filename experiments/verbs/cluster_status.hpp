// The part of `tessera status` about an experiment that was submitted to a cluster.
#pragma once

#include <string>
#include <vector>

#include "experiments/cluster/submission.hpp"

namespace tessera {

struct ClusterStatus {
  std::string scheduler = {};
  std::string config = {};              // as `tessera submit` takes it again
  std::string unanswered = {};          // why the queue was not asked; empty when it answered
  std::vector<ShardState> shards = {};  // the first at place 0
  std::string logs = {};                // of the shards: "out/c/cluster/shard-*.log"
  std::string merge = {};               // of the last submission: "job 4712, queued"; may be empty
};

/// What the queue and the records say together.
ClusterStatus cluster_status(const Plan& plan, const Submission& submission,
                             const std::string& records);

/// A line a shard, the merge, and what to do about shards that failed; on stdout.
void print(const ClusterStatus& status);

Json to_json(const ClusterStatus& status);

}  // namespace tessera
