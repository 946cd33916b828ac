// Submitting an experiment: what is missing goes to the scheduler, in shards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/cluster/submission.hpp"

namespace tessera {

struct SubmitRequest {
  std::string config;  // as the user gave it: a path, or the name of a shipped experiment
  std::vector<std::string> sets, backends;
  std::string out;        // folder of the records; empty for out/<id>
  std::string scheduler;  // "slurm"
  int count = 0;          // of shards; 0 for as many as were submitted before
  std::string site;       // path; empty for none
  std::string times;      // records from which times are predicted; empty for those of `out`
  std::vector<std::string> rerun;  // "failed", "wrong": points that are to be done again
  bool dry_run = false;
};

struct SubmitResult {
  std::string experiment;
  std::string records;  // folder
  Submission submission;
  std::vector<ShardState> shards;  // before
  std::vector<double> share;       // of the whole cost, for each shard; empty for an old division
  std::vector<Script> scripts;     // none when nothing was to be submitted
  std::vector<std::string> commands;
  std::optional<SubmittedJob> job;  // none after a dry run either
};

/// Divides the experiment into shards, unless an earlier submission has, and submits those that
/// have missing points and are neither queued nor running. Throws an Error when the scheduler is
/// not here or refuses, when another call submits the same experiment, and when the division has to
/// change while shards of the old one are queued or running.
SubmitResult submit_experiment(const SubmitRequest& request);

}  // namespace tessera
