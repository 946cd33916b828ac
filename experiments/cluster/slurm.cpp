// Slurm: a job array of shards by sbatch, and a job that merges when all of them have ended.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "experiments/cluster/scheduler.hpp"
#include "experiments/cluster/shell.hpp"
#include "experiments/machine/machine.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

using Phase = QueueTask::Phase;

/// A line of options for sbatch, which reads backslashes and quotes as the shell does.
std::string directive(const std::string& option, const std::string& value) {
  const bool is_plain = shell_word(value) == value;
  require(is_plain || value.find_first_of("\"\\\n") == std::string::npos,
          "{}: quotes and backslashes cannot be given to sbatch", value);
  return fmt::format("#SBATCH {}={}\n", option, is_plain ? value : '"' + value + '"');
}

std::string directive_if_given(const std::string& option, const std::string& value) {
  return value.empty() ? "" : directive(option, value);
}

/// A path in which sbatch replaces nothing.
std::string literal(std::string path) {
  for (std::size_t at = path.find('%'); at != std::string::npos; at = path.find('%', at + 2))
    path.insert(at, "%");
  return path;
}

/// Options of both jobs. A killed task goes on writing its log.
std::string shared_directives(const std::string& name, const std::string& log,
                              const SlurmSite& slurm) {
  return directive("--job-name", name) + directive("--output", log) +
         "#SBATCH --open-mode=append\n" + directive_if_given("--account", slurm.account) +
         directive_if_given("--qos", slurm.qos);
}

std::string shard_directives(const Batch& batch, const SlurmSite& slurm) {
  const std::string at_once = slurm.at_once > 0 ? fmt::format("%{}", slurm.at_once) : "";
  std::string text = shared_directives(batch.name, literal(batch.folder) + "/shard-%a.log", slurm);
  text += directive("--array", ranges_text(batch.shards) + at_once);
  text += "#SBATCH --requeue\n";  // after a node's failure or a preemption it continues
  text += directive_if_given("--partition", slurm.partition);
  text += directive_if_given("--time", slurm.time);
  text += directive_if_given("--gres", slurm.gres);
  if (slurm.cpus > 0) text += fmt::format("#SBATCH --cpus-per-task={}\n", slurm.cpus);
  text += directive_if_given("--mem", slurm.memory);
  text += directive_if_given("--constraint", slurm.constraint);
  for (const std::string& option : slurm.options) text += "#SBATCH " + option + "\n";
  return text;
}

/// The fields of a line between bars.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '|');) fields.push_back(field);
  return fields;
}

std::vector<std::vector<std::string>> table_of(const std::string& text, std::size_t columns) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> fields = fields_of(line);
    fields.resize(columns);
    rows.push_back(std::move(fields));
  }
  return rows;
}

Phase phase_of(const std::string& state) {
  static const std::set<std::string> queued{"PENDING",     "REQUEUED",      "REQUEUE_HOLD",
                                            "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"};
  static const std::set<std::string> running{"RUNNING",  "COMPLETING", "CONFIGURING", "SUSPENDED",
                                             "RESIZING", "SIGNALING",  "STAGE_OUT",   "STOPPED"};
  if (queued.contains(state)) return Phase::kQueued;
  return running.contains(state) ? Phase::kRunning : Phase::kEnded;
}

/// The id in the output of sbatch --parsable: "4711" or "4711;cluster".
std::string job_id(const std::string& output) {
  const std::string id = output.substr(0, output.find_first_of(";\n"));
  require(!id.empty() && id.find_first_not_of("0123456789") == std::string::npos,
          "sbatch printed no job id: {}", output);
  return id;
}

class Slurm final : public Scheduler {
 public:
  std::string missing() const override {
    return is_on_path("sbatch") ? "" : "there is no sbatch on the PATH: this is no host of Slurm";
  }

  std::vector<Script> scripts(const Batch& batch, const Site& site) const override {
    const std::string rest = fmt::format(" --shard \"$SLURM_ARRAY_TASK_ID/{}\"", batch.count);
    const std::string merging =
        shared_directives(batch.name + "-merge", literal(batch.folder) + "/merge.log", site.slurm) +
        directive_if_given("--partition", site.slurm.merge_partition);
    return {{shard_script(batch),
             script_text(shard_directives(batch, site.slurm), batch.setup, batch.run, rest, false)},
            {merge_script(batch), script_text(merging, batch.setup, batch.merge, "", false)}};
  }

  std::vector<std::vector<std::string>> commands(const Batch& batch) const override {
    return {{"sbatch", "--parsable", shard_script(batch)}, merge_command(batch, "JOB")};
  }

  SubmittedJob submit(const Batch& batch) const override {
    SubmittedJob job{.shards = batch.shards, .at = utc_now()};
    job.job = job_id(output_of_command(commands(batch).front()));
    const CommandOutput merge = run_command(merge_command(batch, job.job));
    // The shards run all the same, and `tessera merge` can be called by hand.
    if (merge.exit == 0)
      job.merge = job_id(merge.text);
    else
      fmt::print(stderr, "the job that merges was refused; merge by hand: {}\n",
                 shell_line(batch.merge));
    return job;
  }

  std::vector<QueueTask> tasks(const std::vector<SubmittedJob>& jobs) const override {
    std::vector<QueueTask> tasks;
    std::set<std::pair<std::string, int>> known;
    const std::string queue = output_of_command(
        {"squeue", "--me", "--noheader", "--array", "--states=all", "--format=%F|%K|%T|%r|%N"});
    for (const auto& row : table_of(queue, 5)) {
      const auto shard = shard_of(jobs, row[0], row[1]);
      if (!shard || !known.emplace(row[0], *shard).second) continue;
      const Phase phase = phase_of(row[2]);
      const std::string reason = row[3] == "None" ? "" : row[3];
      tasks.push_back({row[0], *shard, phase,
                       phase == Phase::kQueued    ? reason
                       : phase == Phase::kRunning ? "on " + row[4]
                                                  : row[2]});
    }
    add_forgotten(jobs, known, tasks);
    return tasks;
  }

 private:
  static std::string shard_script(const Batch& batch) { return batch.folder + "/shards.sh"; }
  static std::string merge_script(const Batch& batch) { return batch.folder + "/merge.sh"; }

  static std::vector<std::string> merge_command(const Batch& batch, const std::string& job) {
    std::string after = "afterany:" + job;
    for (const std::string& earlier : batch.also_after) after += ":" + earlier;
    return {"sbatch", "--parsable", "--dependency=" + after, merge_script(batch)};
  }

  /// The shard of a task of one of these jobs, 0 for a merge; empty for the tasks of other jobs.
  static std::optional<int> shard_of(const std::vector<SubmittedJob>& jobs, const std::string& job,
                                     const std::string& index) {
    for (const SubmittedJob& one : jobs) {
      if (job == one.merge) return 0;
      const bool is_number =
          !index.empty() && index.find_first_not_of("0123456789") == std::string::npos;
      if (job == one.job && is_number) return std::stoi(index);
    }
    return std::nullopt;
  }

  /// Adds what the queue has forgotten and the accounting database, where there is one, has not.
  static void add_forgotten(const std::vector<SubmittedJob>& jobs,
                            const std::set<std::pair<std::string, int>>& known,
                            std::vector<QueueTask>& tasks) {
    std::set<std::string> forgotten;
    for (const SubmittedJob& job : jobs)
      for (const int shard : job.shards)
        if (!known.contains({job.job, shard})) forgotten.insert(job.job);
    if (forgotten.empty() || !is_on_path("sacct")) return;
    std::string ids;
    for (const std::string& id : forgotten) ids += (ids.empty() ? "" : ",") + id;
    // Without a database sacct fails and complains; that is no concern of the user.
    const CommandOutput past =
        run_command({"sh", "-c", "exec sacct \"$@\" 2>/dev/null", "sacct", "--noheader",
                     "--parsable2", "--allocations", "--jobs=" + ids, "--format=JobID,State"});
    if (past.exit != 0) return;
    for (const auto& row : table_of(past.text, 2)) {
      const std::size_t bar = row[0].find('_');
      if (bar == std::string::npos) continue;
      const std::string job = row[0].substr(0, bar);
      const auto shard = shard_of(jobs, job, row[0].substr(bar + 1));
      const std::string state = row[1].substr(0, row[1].find(' '));  // "CANCELLED by 1000"
      if (shard && !known.contains({job, *shard}))
        tasks.push_back({job, *shard, phase_of(state), state});
    }
  }
};

const Register<Scheduler> entry{{
    .name = "slurm",
    .summary = "a job array by sbatch, and a job that merges after it",
    .make = [](const Params&) { return std::make_unique<Slurm>(); },
}};

}  // namespace
}  // namespace tessera
