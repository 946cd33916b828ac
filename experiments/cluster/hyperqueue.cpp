// HyperQueue: one job of a task for each shard and of a task that merges after them.
//
// Written by the documentation of HyperQueue 0.2x (job definition files, JSON output). A task that
// fails would cancel the tasks that depend on it, so the scripts of shards always succeed: the
// records say what is missing.
#include <nlohmann/json.hpp>

#include "experiments/cluster/scheduler.hpp"
#include "experiments/cluster/shell.hpp"
#include "experiments/machine/machine.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

using Phase = QueueTask::Phase;

/// Text as TOML has it; JSON escapes the same characters in the same way.
std::string toml_text(const std::string& text) { return Json(text).dump(); }

Phase phase_of(const std::string& state) {
  if (state == "waiting") return Phase::kQueued;
  return state == "running" ? Phase::kRunning : Phase::kEnded;
}

/// The JSON that a command of hq prints.
Json answer_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"hq", "--output-mode=json"});
  const std::string text = output_of_command(words);
  Json json = Json::parse(text, nullptr, false);
  require(!json.is_discarded(), "`{}` printed no JSON: {}", shell_line(words), text);
  return json;
}

class HyperQueue final : public Scheduler {
 public:
  std::string missing() const override {
    return is_on_path("hq") ? "" : "there is no hq on the PATH: HyperQueue is not installed";
  }

  std::vector<Script> scripts(const Batch& batch, const Site& site) const override {
    return {
        {job_file(batch), job_text(batch, site.hyperqueue)},
        {shard_script(batch), script_text("", batch.setup, batch.run,
                                          fmt::format(" --shard \"$1/{}\"", batch.count), true)},
        {merge_script(batch), script_text("", batch.setup, batch.merge, "", false)}};
  }

  std::vector<std::vector<std::string>> commands(const Batch& batch) const override {
    return {{"hq", "--output-mode=json", "job", "submit-file", job_file(batch)}};
  }

  SubmittedJob submit(const Batch& batch) const override {
    const Json answer = answer_of({"job", "submit-file", job_file(batch)});
    require(answer.contains("id"), "hq gave no job id: {}", answer.dump());
    const std::string id = answer.at("id").dump();
    return {id, batch.shards, id, utc_now()};
  }

  std::vector<QueueTask> tasks(const std::vector<SubmittedJob>& jobs) const override {
    std::vector<QueueTask> tasks;
    if (jobs.empty()) return tasks;
    std::string ids;
    for (const SubmittedJob& job : jobs) ids += (ids.empty() ? "" : ",") + job.job;
    const Json answer = answer_of({"task", "list", ids});
    for (const SubmittedJob& job : jobs)
      for (const Json& task : answer.value(job.job, Json::array())) {
        const int id = task.at("id"), merge = merge_task(job.shards);
        const std::string state = task.at("state");
        tasks.push_back({job.job, id == merge ? 0 : id, phase_of(state),
                         state == "waiting" || state == "running" ? "" : state});
      }
    return tasks;
  }

 private:
  static std::string job_file(const Batch& batch) { return batch.folder + "/job.toml"; }
  static std::string shard_script(const Batch& batch) { return batch.folder + "/shard.sh"; }
  static std::string merge_script(const Batch& batch) { return batch.folder + "/merge.sh"; }

  /// The id of the task that merges: behind those of the shards.
  static int merge_task(const std::vector<int>& shards) { return shards.back() + 1; }

  static std::string task_text(int id, const std::vector<std::string>& command,
                               const std::string& log) {
    std::string text = fmt::format("\n[[task]]\nid = {}\ncommand = [\"bash\"", id);
    for (const std::string& word : command) text += ", " + toml_text(word);
    text += fmt::format("]\nstdout = {0}\nstderr = {0}\n", toml_text(log));
    return text;
  }

  static std::string job_text(const Batch& batch, const HyperQueueSite& site) {
    std::string text =
        "# `tessera submit` wrote this file.\nname = " + toml_text(batch.name) + "\n";
    std::string ids;
    for (const int shard : batch.shards) {
      text += task_text(shard, {shard_script(batch), fmt::format("{}", shard)},
                        fmt::format("{}/shard-{}.log", batch.folder, shard));
      if (!site.time.empty()) text += "time_limit = " + toml_text(site.time) + "\n";
      text += fmt::format("[[task.request]]\nresources = {{ \"cpus\" = {}", site.cpus);
      if (site.gpus > 0) text += fmt::format(", \"gpus/nvidia\" = {}", site.gpus);
      text += " }\n";
      ids += fmt::format("{}{}", ids.empty() ? "" : ", ", shard);
    }
    text += task_text(merge_task(batch.shards), {merge_script(batch)}, batch.folder + "/merge.log");
    return text + fmt::format("deps = [{}]\n", ids);
  }
};

const Register<Scheduler> entry{{
    .name = "hyperqueue",
    .summary = "a job of one task for each shard, by hq, and a task that merges after them",
    .make = [](const Params&) { return std::make_unique<HyperQueue>(); },
}};

}  // namespace
}  // namespace tessera
