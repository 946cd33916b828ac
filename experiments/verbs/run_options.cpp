#include "experiments/verbs/run_options.hpp"

namespace tessera {

void declare_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--rerun", options.rerun,
                 "also run points again that have a record: failed, wrong or all")
      .delimiter(',')
      .check(CLI::IsMember({"failed", "wrong", "all"}));
  app.add_option("--jobs", options.jobs, "number of matrices to run at the same time")
      .check(CLI::Range(1, 1024));
}

}  // namespace tessera
