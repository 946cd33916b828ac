// The submission of an experiment to a cluster, kept beside its records: what was submitted, which
// shard has which matrices, and the ids of the jobs.
//
// The division into shards is decided once, where it is submitted, and written down: the nodes read
// it. A shard's points thus do not depend on what a node knows of the files, and they stay the same
// when what failed is submitted again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/cluster/scheduler.hpp"
#include "experiments/config/plan.hpp"

namespace tessera {

struct Submission {
  std::string scheduler;  // "slurm", "hyperqueue"
  std::string config;     // absolute path, or name of a shipped experiment
  std::vector<std::string> sets, backends;
  int count = 0;                        // of shards
  std::string balanced_by;              // what the division was balanced by, for people
  std::map<std::string, int> shard_of;  // matrix, as points name it -> shard from 1
  std::vector<SubmittedJob> jobs = {};  // in the order in which they were submitted
};

/// The folder of scripts, logs and submission.json in a folder of records.
std::string cluster_folder(const std::string& records);

/// The submission of a folder of records; empty where nothing was submitted. Throws an Error with
/// the path for a file that is none.
std::optional<Submission> find_submission(const std::string& records);

void write_submission(const std::string& records, const Submission& submission);

/// The plan of shard `index` of `count` of a run into a folder of records. The folder's submission
/// divides the plan if it has `count` shards; otherwise shard() does. Throws an Error for a matrix
/// that the submission does not have.
Plan shard_of_run(const Plan& plan, const std::string& records, int index, int count);

/// The records of a folder, as far as shards need them.
struct RecordedPoints {
  struct Attempt {
    std::string status;
    double seconds = 0;  // of the whole attempt; 0 without a result
  };
  std::map<std::string, Attempt> by_request;     // params_hash -> its last attempt
  std::map<std::string, std::int64_t> nonzeros;  // of matrices, as points name them
};
/// Nothing for a folder that is not there.
RecordedPoints read_recorded_points(const std::string& records);

/// Replaces the costs of a plan by the seconds that its points take, predicted from the attempts of
/// the same request and, for the others, from nonzeros times columns and the seconds that attempts
/// of their backend took for each. Without attempts, by nonzeros times columns. Where a matrix was
/// not counted, the size of its file stands for its nonzeros, and the mean where there is no file.
/// Returns what the costs are, for people.
std::string predict_costs(Plan& plan, const RecordedPoints& recorded);

/// How far a shard is: the points of its requests by status, and its place in the queue.
struct ShardState {
  enum class State { kNotSubmitted, kQueued, kRunning, kDone, kFailed, kUnknown };

  std::int64_t points = 0;
  std::map<std::string, std::int64_t> by_status = {};
  std::int64_t left = 0;  // without a record, or to be done again
  State state = State::kNotSubmitted;
  std::string task = {};    // of the scheduler: "4711_2"; empty where it is in no job
  std::string detail = {};  // QueueTask::detail

  bool is_alive() const { return state == State::kQueued || state == State::kRunning; }
};

/// The state of every shard, the first at place 0. Without `tasks` the queue did not answer.
/// `rerun` has "failed" and "wrong" for points that are to be done again.
std::vector<ShardState> shard_states(const Plan& plan, const Submission& submission,
                                     const RecordedPoints& recorded,
                                     const std::optional<std::vector<QueueTask>>& tasks,
                                     const std::vector<std::string>& rerun = {});

/// "queued", "running", "done", "failed", "not submitted", "unknown"
const char* to_text(ShardState::State state);

}  // namespace tessera
