// The options of every verb that runs the points of a plan.
#pragma once

#include "experiments/run/runner.hpp"
#include "experiments/verbs/command_line.hpp"

namespace tessera {

/// Declares --rerun and --jobs. `options` has to outlive the parsing.
void declare_run_options(CLI::App& app, RunOptions& options);

}  // namespace tessera
