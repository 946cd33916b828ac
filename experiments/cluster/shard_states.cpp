// What the records and the queue say of each shard (submission.hpp).
#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>

#include "experiments/cluster/submission.hpp"
#include "experiments/records/record_index.hpp"

namespace tessera {
namespace {

using State = ShardState::State;

bool to_do_again(const std::string& status, const std::vector<std::string>& rerun) {
  const bool failed = status == "failed" || status == "timeout" || status == "oom";
  return std::ranges::count(rerun, failed ? "failed" : status) > 0;
}

/// True when the task says more of its shard than what was found before: one that is alive, or ran
/// later.
bool counts_before(const QueueTask& task, const QueueTask* found) {
  if (found == nullptr || task.phase == QueueTask::Phase::kRunning) return true;
  return task.is_alive() || !found->is_alive();
}

State state_of(const ShardState& shard, const QueueTask* task, bool was_submitted,
               bool queue_answers) {
  if (task != nullptr && task->phase == QueueTask::Phase::kRunning) return State::kRunning;
  if (task != nullptr && task->phase == QueueTask::Phase::kQueued) return State::kQueued;
  if (shard.left == 0) return State::kDone;
  if (!was_submitted) return State::kNotSubmitted;
  return queue_answers ? State::kFailed : State::kUnknown;
}

/// What the attempts of a piece of the records have beside their list.
struct FoundPoints {
  std::vector<double> seconds = {};                   // by the number of the attempt
  std::map<std::string, std::int64_t> nonzeros = {};  // of matrices, by reference

  void add(const JsonLine& line) {
    seconds.push_back(JsonLine::number_of(line.find({"attempt_s"})));
    const JsonLine::Value* matrix = line.find({"params", "matrix"});
    if (matrix == nullptr || line.find({"matrix"}) == nullptr) return;
    nonzeros[JsonLine::text_of(matrix)] =
        static_cast<std::int64_t>(JsonLine::number_of(line.find({"matrix", "nnz"})));
  }
};

}  // namespace

RecordedPoints read_recorded_points(const std::string& records) {
  RecordedPoints recorded;
  if (!std::filesystem::exists(records)) return recorded;
  std::deque<FoundPoints> pieces;
  const RecordIndex list = read_index(records, false, [&pieces] {
    return [&piece = pieces.emplace_back()](const JsonLine& line) { piece.add(line); };
  });
  std::vector<double> seconds;  // by the number of the attempt
  for (FoundPoints& piece : pieces) {
    seconds.insert(seconds.end(), piece.seconds.begin(), piece.seconds.end());
    for (const auto& [matrix, nonzeros] : piece.nonzeros) recorded.nonzeros[matrix] = nonzeros;
  }
  for (const IndexedRecord& attempt : list.points) {
    const bool has_result = attempt.status == "ok" || attempt.status == "wrong";
    recorded.by_request[std::string(attempt.params_hash)] = {
        std::string(attempt.status), has_result ? seconds[attempt.number] : 0.0};
  }
  return recorded;
}

std::vector<ShardState> shard_states(const Plan& plan, const Submission& submission,
                                     const RecordedPoints& recorded,
                                     const std::optional<std::vector<QueueTask>>& tasks,
                                     const std::vector<std::string>& rerun) {
  const auto count = static_cast<std::size_t>(submission.count);
  std::vector<ShardState> shards(count);
  std::set<std::string> counted;
  for (const PlanEntry& entry : plan.entries) {
    const auto place = submission.shard_of.find(entry.point.matrix);
    if (place == submission.shard_of.end() || !counted.insert(entry.hash).second) continue;
    ShardState& shard = shards.at(static_cast<std::size_t>(place->second) - 1);
    ++shard.points;
    const auto attempt = recorded.by_request.find(entry.hash);
    if (attempt == recorded.by_request.end() || to_do_again(attempt->second.status, rerun))
      ++shard.left;
    else
      ++shard.by_status[attempt->second.status];
  }

  std::vector<const QueueTask*> found(count, nullptr);
  const std::vector<QueueTask> none;
  const std::vector<QueueTask>& known = tasks ? *tasks : none;
  for (const SubmittedJob& job : submission.jobs)  // the latest one counts
    for (const QueueTask& task : known) {
      const auto place = static_cast<std::size_t>(task.shard) - 1;
      if (task.job == job.job && place < count && counts_before(task, found[place]))
        found[place] = &task;
    }
  for (std::size_t place = 0; place < count; ++place) {
    ShardState& shard = shards[place];
    const bool was_submitted = std::ranges::any_of(submission.jobs, [&](const SubmittedJob& job) {
      return std::ranges::count(job.shards, static_cast<int>(place) + 1) > 0;
    });
    shard.state = state_of(shard, found[place], was_submitted, tasks.has_value());
    if (found[place] == nullptr) continue;
    shard.task = fmt::format("{}_{}", found[place]->job, place + 1);
    shard.detail = found[place]->detail;
  }
  return shards;
}

const char* to_text(State state) {
  switch (state) {
    case State::kNotSubmitted:
      return "not submitted";
    case State::kUnknown:
      return "unknown";
    case State::kQueued:
      return "queued";
    case State::kRunning:
      return "running";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
  }
  return "";
}

}  // namespace tessera
