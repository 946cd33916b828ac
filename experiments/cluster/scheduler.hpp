// A scheduler of clusters that runs the shards of an experiment: Slurm, HyperQueue.
//
// The scheduler's own commands are called, and nothing else decides what runs when. One registered
// variant, in one source file, for each.
#pragma once

#include <string>
#include <vector>

#include "experiments/cluster/site.hpp"

namespace tessera {

/// One call of `tessera submit`, as the scheduler knows it.
struct SubmittedJob {
  std::string job = {};  // id of the array of shards
  std::vector<int> shards = {};
  std::string merge = {};  // id of the job that merges afterwards; may be that of `job`
  std::string at = {};     // UTC
};

/// The state of one task in the queue.
struct QueueTask {
  enum class Phase { kQueued, kRunning, kEnded };

  std::string job;
  int shard = 0;  // 0: the merge
  Phase phase = Phase::kEnded;
  std::string detail = {};  // why it waits, where it runs, how it ended; may be empty

  bool is_alive() const { return phase != Phase::kEnded; }
};

/// Shards to submit, and the merge of all records after them.
struct Batch {
  std::string name = {};    // of the jobs, for people
  std::string folder = {};  // of scripts and logs: absolute, on a file system that all nodes see
  std::vector<int> shards = {};         // ascending, not empty
  int count = 0;                        // of all shards
  std::vector<std::string> setup = {};  // lines of the shell before either program
  std::vector<std::string> run = {};    // command of a shard, but for its --shard
  std::vector<std::string> merge = {};  // command of the merge
  // Earlier jobs that still run: the merge waits for them too.
  std::vector<std::string> also_after = {};
};

struct Script {
  std::string path;
  std::string text;
};

class Scheduler {
 public:
  static constexpr const char* kKind = "scheduler";
  virtual ~Scheduler() = default;

  /// The reason why this machine cannot reach it; empty when it can.
  virtual std::string missing() const = 0;

  /// The files that submit() hands over.
  virtual std::vector<Script> scripts(const Batch& batch, const Site& site) const = 0;
  /// The commands that submit() runs; JOB stands for the id of the array.
  virtual std::vector<std::vector<std::string>> commands(const Batch& batch) const = 0;

  /// Submits the scripts, which have been written. Throws an Error when the scheduler refuses.
  virtual SubmittedJob submit(const Batch& batch) const = 0;

  /// The tasks that it still knows of these jobs. Throws an Error when it does not answer.
  virtual std::vector<QueueTask> tasks(const std::vector<SubmittedJob>& jobs) const = 0;
};

/// "1-3,7"
std::string ranges_text(const std::vector<int>& ascending);

/// A script of bash: directives, the setup, the command, whose words are quoted, and further text
/// of the shell. With `always_succeeds` its exit code is 0.
std::string script_text(const std::string& directives, const std::vector<std::string>& setup,
                        const std::vector<std::string>& command, const std::string& rest,
                        bool always_succeeds);

}  // namespace tessera
