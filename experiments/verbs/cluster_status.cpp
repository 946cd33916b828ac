#include "experiments/verbs/cluster_status.hpp"

#include <algorithm>
#include <optional>

#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

const char* phase_text(QueueTask::Phase phase) {
  switch (phase) {
    case QueueTask::Phase::kQueued:
      return "queued";
    case QueueTask::Phase::kRunning:
      return "running";
    case QueueTask::Phase::kEnded:
      return "ended";
  }
  return "";
}

/// The queue's answer; empty when there is none, and then why.
std::optional<std::vector<QueueTask>> ask(const Submission& submission, std::string& why_not) {
  const auto scheduler = Registry<Scheduler>::instance().make(submission.scheduler);
  why_not = scheduler->missing();
  if (!why_not.empty()) return std::nullopt;
  try {
    return scheduler->tasks(submission.jobs);
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

std::string merge_text(const Submission& submission, const std::vector<QueueTask>& tasks) {
  if (submission.jobs.empty() || submission.jobs.back().merge.empty()) return "";
  const std::string& id = submission.jobs.back().merge;
  const auto found = std::ranges::find_if(
      tasks, [&](const QueueTask& task) { return task.job == id && task.shard == 0; });
  if (found == tasks.end()) return fmt::format("job {}", id);
  return fmt::format("job {}, {}{}", id, phase_text(found->phase),
                     found->detail.empty() ? "" : " (" + found->detail + ")");
}

std::int64_t with_status(const ShardState& shard, std::initializer_list<const char*> statuses) {
  std::int64_t count = 0;
  for (const char* status : statuses)
    if (const auto found = shard.by_status.find(status); found != shard.by_status.end())
      count += found->second;
  return count;
}

}  // namespace

ClusterStatus cluster_status(const Plan& plan, const Submission& submission,
                             const std::string& records) {
  ClusterStatus status{.scheduler = submission.scheduler, .config = submission.config};
  const std::optional<std::vector<QueueTask>> tasks = ask(submission, status.unanswered);
  status.shards = shard_states(plan, submission, read_recorded_points(records), tasks);
  status.logs = cluster_folder(records) + "/shard-*.log";
  status.merge = merge_text(submission, tasks ? *tasks : std::vector<QueueTask>{});
  return status;
}

void print(const ClusterStatus& status) {
  if (!status.unanswered.empty())
    fmt::print(stderr, "the queue was not asked: {}\n", status.unanswered);
  fmt::print("{:>6} {:13} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n", "shard", "state", "points", "ok",
             "failed", "skipped", "left", status.scheduler + " task");
  bool any_failed = false;
  for (std::size_t place = 0; place < status.shards.size(); ++place) {
    const ShardState& shard = status.shards[place];
    any_failed |= shard.state == ShardState::State::kFailed;
    std::string task = shard.task;
    if (!shard.detail.empty()) task += " (" + shard.detail + ")";
    fmt::print("{:6} {:13} {:7} {:7} {:7} {:7} {:7}  {}\n", place + 1, to_text(shard.state),
               shard.points, with_status(shard, {"ok"}),
               with_status(shard, {"failed", "timeout", "oom", "wrong"}),
               with_status(shard, {"skipped"}), shard.left, task);
  }
  if (!status.merge.empty()) fmt::print(" merge {}\n", status.merge);
  if (any_failed)
    fmt::print(
        "`tessera submit` with the same options continues the shards that failed; logs: {}\n",
        status.logs);
}

Json to_json(const ClusterStatus& status) {
  Json shards = Json::array();
  for (std::size_t place = 0; place < status.shards.size(); ++place) {
    const ShardState& shard = status.shards[place];
    shards.push_back({{"shard", place + 1},
                      {"state", to_text(shard.state)},
                      {"points", shard.points},
                      {"by_status", shard.by_status},
                      {"left", shard.left},
                      {"task", shard.task},
                      {"detail", shard.detail}});
  }
  return {{"on", status.scheduler}, {"config", status.config}, {"unanswered", status.unanswered},
          {"shards", shards},       {"logs", status.logs},     {"merge", status.merge}};
}

}  // namespace tessera
