// The site file of `tessera submit`: a cluster's partition, account, limits and container, in TOML.
//
// A file of its own, since it belongs to the cluster and not to the experiment. Its keys are
// documented where those of configs are (config/keys.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The options of sbatch; empty, or 0, for the cluster's default.
struct SlurmSite {
  std::string partition, merge_partition, account, qos, time, gres, memory, constraint;
  std::int64_t cpus = 0;
  std::int64_t at_once = 0;
  std::vector<std::string> options;
};

/// The resources of a task of HyperQueue.
struct HyperQueueSite {
  std::int64_t cpus = 1;
  std::int64_t gpus = 0;
  std::string time;
};

struct Site {
  std::string program;  // empty: this one, or `tessera` in a container
  std::string container;
  std::string container_command = "apptainer exec --nv";
  std::vector<std::string> setup;
  SlurmSite slurm;
  HyperQueueSite hyperqueue;
};

/// Reads a site file; without a path, that of a cluster without wishes. Throws an Error
/// "file:line:column: ..." for an unknown key, with the nearest known one, for an ill-typed value
/// and for text of more than one line.
Site read_site(const std::string& path);

}  // namespace tessera
