#include "experiments/cluster/submit.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include "experiments/cluster/shell.hpp"
#include "experiments/cluster/site.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Held while one process submits into a folder: two at once would submit the same shards.
class SubmitLock {
 public:
  explicit SubmitLock(const std::string& folder) : path_(folder + "/lock") {
    std::error_code failed;
    fs::create_directories(folder, failed);
    require(!failed, "{}: the folder cannot be made: {}", folder, failed.message());
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    require(file_ >= 0, "{}: it cannot be opened for writing", path_);
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    close(file_);
    throw Error(fmt::format("{}: another `tessera submit` is at work here", path_));
  }
  ~SubmitLock() { close(file_); }
  SubmitLock(const SubmitLock&) = delete;
  SubmitLock& operator=(const SubmitLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

/// The config as a node finds it.
std::string config_for_nodes(const std::string& config) {
  return fs::is_regular_file(config) ? fs::absolute(config).lexically_normal().string() : config;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The program, in its container where there is one.
std::vector<std::string> program_of(const Site& site) {
  if (site.container.empty())
    return {site.program.empty() ? fs::read_symlink("/proc/self/exe").string() : site.program};
  std::vector<std::string> words = words_of(site.container_command);
  words.push_back(site.container);
  words.push_back(site.program.empty() ? "tessera" : site.program);
  return words;
}

/// Lines of the shell that make a node see what this process sees. Slurm hands the environment on,
/// HyperQueue does not.
std::vector<std::string> setup_of(const Site& site) {
  std::vector<std::string> lines{"cd " + shell_word(fs::current_path().string()) + " || exit"};
  for (const char* name : {"TESSERA_DATA", "TESSERA_CACHE", "TESSERA_HOME"})
    if (const char* const value = std::getenv(name))
      lines.push_back(fmt::format("export {}={}", name, shell_word(value)));
  lines.insert(lines.end(), site.setup.begin(), site.setup.end());
  return lines;
}

/// Backends of the plan that a node without a GPU cannot run.
std::set<std::string> gpu_backends(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanEntry& entry : plan.entries)
    if (backend_traits(entry.point.backend).needs_gpu) names.insert(entry.point.backend);
  return names;
}

/// The command of a shard, but for its --shard. A node without a GPU is told apart at once, and
/// leaves no records of skipped points.
std::vector<std::string> run_command_of(const SubmitRequest& request, const Submission& submission,
                                        const Site& site, const std::string& records,
                                        const Plan& plan) {
  std::vector<std::string> words = program_of(site);
  words.insert(words.end(), {"run", submission.config, "--as-written", "--out", records});
  for (const std::string& set : submission.sets) words.insert(words.end(), {"--set", set});
  for (const std::string& backend : submission.backends)
    words.insert(words.end(), {"--backend", backend});
  for (const std::string& backend : gpu_backends(plan))
    words.insert(words.end(), {"--require", backend});
  for (const std::string& what : request.rerun) words.insert(words.end(), {"--rerun", what});
  return words;
}

std::vector<std::string> merge_command_of(const Site& site, const std::string& records) {
  std::vector<std::string> words = program_of(site);
  words.insert(words.end(), {"merge", records, "--out", records + "/merged"});
  return words;
}

bool has_every_matrix(const Submission& submission, const Plan& plan) {
  return std::ranges::all_of(plan.entries, [&](const PlanEntry& entry) {
    return submission.shard_of.contains(entry.point.matrix);
  });
}

std::string jobs_text(const std::vector<std::string>& jobs) {
  std::string text;
  for (const std::string& job : jobs) {
    if (!text.empty()) text += ", ";
    text += job;
  }
  return text;
}

/// The jobs of which a task is queued or runs.
std::vector<std::string> jobs_alive(const std::vector<QueueTask>& tasks) {
  std::set<std::string> jobs;
  for (const QueueTask& task : tasks)
    if (task.is_alive() && task.shard > 0) jobs.insert(task.job);
  return {jobs.begin(), jobs.end()};
}

/// Divides the plan anew, and says how the cost is shared out.
void divide(SubmitResult& result, Plan& plan, const SubmitRequest& request,
            const RecordedPoints& recorded) {
  Submission& submission = result.submission;
  submission.balanced_by =
      predict_costs(plan, request.times.empty() ? recorded : read_recorded_points(request.times));
  submission.shard_of = deal_matrices(plan, submission.count);
  result.share.assign(static_cast<std::size_t>(submission.count), 0);
  double sum = 0;
  for (const PlanEntry& entry : plan.entries) {
    const int shard = submission.shard_of.at(entry.point.matrix);
    result.share[static_cast<std::size_t>(shard) - 1] += entry.cost;
    sum += entry.cost;
  }
  for (double& share : result.share) share /= sum > 0 ? sum : 1;
}

/// Takes up the earlier submission, or begins a new one.
void begin(SubmitResult& result, Plan& plan, const SubmitRequest& request,
           const std::optional<Submission>& earlier, const std::vector<std::string>& alive,
           const RecordedPoints& recorded) {
  Submission& submission = result.submission;
  if (earlier) submission = *earlier;
  submission.config = config_for_nodes(request.config);
  submission.sets = request.sets;
  submission.backends = request.backends;
  const bool keeps_scheduler = earlier && earlier->scheduler == request.scheduler;
  const bool keeps_count = earlier && (request.count == 0 || request.count == earlier->count);
  require(earlier || request.count > 0, "--shards is missing: how many parts is {} to run in?",
          result.experiment);
  if (request.count > 0) submission.count = request.count;
  const bool keeps_division = keeps_count && has_every_matrix(*earlier, plan);
  // Its arguments are evaluated whether it holds or not, and there may be no earlier submission.
  const std::string running_by =
      earlier && !keeps_scheduler ? earlier->scheduler : "another division of the matrices";
  require(alive.empty() || (keeps_scheduler && keeps_division),
          "{}: shards of an earlier submission are queued or running (job {}), by {}; wait for "
          "them, or cancel them",
          result.experiment, jobs_text(alive), running_by);
  if (!keeps_scheduler) submission.jobs.clear();  // the other one's ids mean nothing
  submission.scheduler = request.scheduler;
  if (!keeps_division) divide(result, plan, request, recorded);
}

}  // namespace

SubmitResult submit_experiment(const SubmitRequest& request) {
  const auto scheduler = Registry<Scheduler>::instance().make(request.scheduler);
  const Site site = read_site(request.site);
  const Config config = open_config({request.config, request.sets, true});
  Plan plan = make_plan(config, request.backends);
  SubmitResult result;
  result.experiment = config.id;
  result.records = fs::absolute(request.out.empty() ? "out/" + config.id : request.out)
                       .lexically_normal()
                       .string();
  const std::string folder = cluster_folder(result.records);
  std::optional<SubmitLock> lock;
  if (!request.dry_run) lock.emplace(folder);

  const std::optional<Submission> earlier = find_submission(result.records);
  std::vector<QueueTask> tasks;
  if (earlier && !earlier->jobs.empty()) {
    const auto before = Registry<Scheduler>::instance().make(earlier->scheduler);
    if (before->missing().empty()) tasks = before->tasks(earlier->jobs);
  }
  const std::vector<std::string> alive = jobs_alive(tasks);
  const RecordedPoints recorded = read_recorded_points(result.records);
  begin(result, plan, request, earlier, alive, recorded);
  result.shards = shard_states(plan, result.submission, recorded, tasks, request.rerun);

  Batch batch{.name = "tessera-" + config.id,
              .folder = folder,
              .count = result.submission.count,
              .setup = setup_of(site),
              .run = run_command_of(request, result.submission, site, result.records, plan),
              .merge = merge_command_of(site, result.records),
              .also_after = alive};
  for (int shard = 1; shard <= batch.count; ++shard) {
    const ShardState& state = result.shards[static_cast<std::size_t>(shard) - 1];
    if (state.left > 0 && !state.is_alive()) batch.shards.push_back(shard);
  }
  if (batch.shards.empty()) return result;
  result.scripts = scheduler->scripts(batch, site);
  for (const auto& command : scheduler->commands(batch))
    result.commands.push_back(shell_line(command));
  if (request.dry_run) return result;

  for (const Script& script : result.scripts) write_file(script.path, script.text);
  write_submission(result.records, result.submission);
  result.job = scheduler->submit(batch);
  result.submission.jobs.push_back(*result.job);
  write_submission(result.records, result.submission);
  return result;
}

}  // namespace tessera
