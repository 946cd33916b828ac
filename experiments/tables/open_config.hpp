// A config as verbs use it: checked as a whole, and changed for what this machine lacks.
#pragma once

#include <string>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_index.hpp"

namespace tessera {

struct ConfigRequest {
  std::string name;               // path, or name of a shipped config
  std::vector<std::string> sets;  // "a.b=v"
  bool as_written = false;        // whatever the machine lacks
};

/// The config as far as this machine can run it. stderr says what was changed, why, and how to get
/// the whole experiment. Throws the Errors of load_config() and check_columns().
Config open_config(const ConfigRequest& request);

/// The config to show the records of `folder` by: as written, or as changed for a machine without a
/// GPU, without files of matrices or without both, whichever has most of its points recorded there.
/// On a tie it is the one that has fewest other points, then this machine's. stderr says which it
/// is, unless it is this machine's and `told`, by the other open_config().
Config open_config(const ConfigRequest& request, const std::string& folder, bool told = false);

/// A config with what was read and made to choose it.
struct RecordedConfig {
  Config config;
  RecordIndex index;                  // of the folder; empty where there is none
  std::vector<std::string> backends;  // the config's, and those that only the records know
  Plan plan;                          // of these backends
};

/// The same, for what goes on with the records.
RecordedConfig open_recorded_config(const ConfigRequest& request, const std::string& folder,
                                    bool told = false);

}  // namespace tessera
