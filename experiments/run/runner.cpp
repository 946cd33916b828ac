#include "experiments/run/runner.hpp"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <memory_resource>
#include <unordered_map>

#include "experiments/machine/machine.hpp"
#include "experiments/machine/own_process.hpp"
#include "experiments/records/record_index.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/run/gpu_pipeline.hpp"
#include "experiments/run/interrupt.hpp"
#include "experiments/run/portion.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/run/run_point.hpp"
#include "experiments/run/worker.hpp"
#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

bool counts_as_failed(std::string_view status) {
  return status == "failed" || status == "timeout" || status == "oom";
}

/// A skipped point is always tried again, since the reason may be gone.
bool to_do_again(std::string_view status, const std::vector<std::string>& rerun) {
  const auto requested = [&](const char* what) { return std::ranges::count(rerun, what) > 0; };
  if (requested("all") || status == "skipped") return true;
  return (requested("failed") && counts_as_failed(status)) ||
         (requested("wrong") && status == "wrong");
}

/// True when running the point would give the same result again: same content, same kernel.
bool is_current(std::string_view point_id, const Point& point) {
  try {
    return point_id == known_point_id(point);
  } catch (const Error&) {
    return true;  // the matrix is gone: what is recorded stays
  }
}

/// The latest attempt at a request.
struct KnownAttempt {
  std::string_view point_id = {};
  std::string_view status = {};
  std::string_view time = {};  // time_of() its record
  double seconds = 0;          // that it took, where it ended ok in an earlier run
  // Of an attempt that is not ok.
  std::shared_ptr<const Skip> skip = {};  // its reason is any attempt's; the rest a skipped one's
  bool only_overflowed = false;           // wrong, and no finite value of C is
};

bool only_overflowed(const Json& record) {
  if (record.value("status", "") != "wrong" || !record.contains("check")) return false;
  const Json& check = record.at("check");
  return check.value("beyond_bound", 1) == 0 && check.value("overflows", 0) > 0;
}

/// The latest attempts of a folder of records, by request. A million of them are kept: their texts
/// stand in a few places.
class KnownFolder {
 public:
  KnownFolder() = default;

  explicit KnownFolder(const std::string& out) {
    std::deque<Found> pieces;
    list_ = read_index(out, false, [&pieces] {
      return [&piece = pieces.emplace_back()](const JsonLine& line) { piece.add(line); };
    });
    Found all;
    for (Found& piece : pieces) all.append(piece);
    attempts_.reserve(list_.points.size());
    for (const IndexedRecord& attempt : list_.points) {
      KnownAttempt known{.point_id = attempt.point_id,
                         .status = attempt.status,
                         .time = time_of(attempt),
                         .seconds = all.seconds[attempt.number]};
      if (attempt.status != "ok") add_end(all.other_ends.at(attempt.number), known);
      attempts_[attempt.params_hash] = std::move(known);
    }
  }

  /// Null when there is none.
  const KnownAttempt* find(std::string_view request) const {
    const auto found = attempts_.find(request);
    return found == attempts_.end() ? nullptr : &found->second;
  }

  /// Takes the record of a new attempt; returns what is known of it.
  const KnownAttempt& add(const std::string& request, const Json& record) {
    KnownAttempt known{.point_id = kept(record.at("point_id")),
                       .status = kept(record.value("status", "")),
                       .time = kept(time_of(record))};
    if (known.status != "ok") add_end(record, known);
    const auto before = attempts_.find(request);
    const std::string_view key = before == attempts_.end() ? kept(request) : before->first;
    return attempts_[key] = std::move(known);
  }

  const std::map<std::string, Json>& environments() const { return list_.environments; }

 private:
  /// What the attempts of some pieces of the files have beside what the list has.
  struct Found {
    std::vector<double> seconds = {};             // by the number of the attempt
    std::map<std::size_t, Json> other_ends = {};  // likewise, of those that are not ok

    void add(const JsonLine& line) {
      const JsonLine::Value* status = line.find({"status"});
      if (status == nullptr || status->text != "\"ok\"")
        other_ends[seconds.size()] = line.members({"check", "params", "reason", "skip", "status"});
      seconds.push_back(JsonLine::number_of(line.find({"attempt_s"})));
    }

    void append(Found& piece) {
      for (auto& [number, end] : piece.other_ends)
        other_ends[seconds.size() + number] = std::move(end);
      seconds.insert(seconds.end(), piece.seconds.begin(), piece.seconds.end());
      piece = {};
    }
  };

  static void add_end(const Json& record, KnownAttempt& attempt) {
    attempt.seconds = 0;
    attempt.skip = std::make_shared<const Skip>(skip_of(record));
    attempt.only_overflowed = only_overflowed(record);
  }

  std::string_view kept(std::string text) { return texts_.emplace_back(std::move(text)); }

  RecordIndex list_;
  std::deque<std::string> texts_;  // of new attempts
  std::pmr::monotonic_buffer_resource nodes_;
  std::pmr::unordered_map<std::string_view, KnownAttempt> attempts_{&nodes_};
};

/// True when both were skipped for one reason: it need not be written down every time.
bool are_one_skip(const KnownAttempt& a, const KnownAttempt& b) {
  return a.status == "skipped" && b.status == "skipped" && a.point_id == b.point_id &&
         *a.skip == *b.skip;
}

/// The state of the plan's points, each request counted once; those without an attempt are left.
template <class Find>
RunSummary summarise(const Plan& plan, Find attempt_at) {
  RunSummary summary;
  for (const PlanEntry* entry : distinct_requests(plan)) {
    const KnownAttempt* attempt = attempt_at(entry->hash);
    if (attempt == nullptr) {
      ++summary.left;
      continue;
    }
    ++summary.by_status[std::string(attempt->status)];
    if (attempt->status == "skipped") summary.skips.add(*attempt->skip);
    summary.only_overflowed += attempt->only_overflowed;
  }
  return summary;
}

bool is_checked(const Plan& plan) {
  return std::ranges::any_of(plan.entries,
                             [](const PlanEntry& entry) { return entry.point.check.enabled; });
}

/// The moment `seconds` from now; far beyond any run, the end of time.
Clock::time_point moment_after(double seconds) {
  constexpr double kLongest = 1e9;  // fits in the clock's nanoseconds
  if (!(seconds < kLongest)) return Clock::time_point::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// One run: assigns matrices to worker processes, collects events, writes records.
class Run {
 public:
  Run(const Plan& plan, const RunOptions& options)
      : options_(options),
        writer_(options.out + "/" + options.file),
        known_(options.out),
        places_(options.gpus > 0 ? places_of_gpus(options.gpus, own_cores(), is_checked(plan))
                                 : std::vector<WorkerPlace>(std::max(options.jobs, 1))),
        gpu_turns_(options.gpus),
        remaining_(static_cast<int>(places_.size())) {
    stop_at_ = moment_after(options.max_seconds);
    collect(plan);
    learn_from(plan);
  }

  void go() {
    const InterruptGuard guard;
    Progress progress(static_cast<int>(total_), &remaining_);
    progress_ = &progress;
    while ((!waiting_.empty() || !workers_.empty()) && !InterruptGuard::interrupted() &&
           Clock::now() < stop_at_) {
      while (!waiting_.empty() && workers_.size() < places_.size()) start_next();
      wait_for_events();
    }
    workers_.clear();
    env_id();
    writer_.sync();
  }

  RunSummary summary(const Plan& plan) const {
    RunSummary summary = summarise(plan, [&](const std::string& hash) {
      return pending_.contains(hash) ? nullptr : known_.find(hash);
    });
    summary.ran = ran_;
    summary.interrupted = InterruptGuard::interrupted();
    summary.out_of_time = summary.left > 0 && Clock::now() >= stop_at_;
    return summary;
  }

 private:
  /// Of the env record, which is written before the first record of a point.
  const std::string& env_id() {
    if (env_id_.empty()) {
      const Json environment = environment_record(seen_.answer());
      env_id_ = environment.at("env_id");
      if (!known_.environments().contains(env_id_)) writer_.add(environment);
    }
    return env_id_;
  }

  /// Groups the points to run by matrix. Where several workers share them, those that cost most are
  /// the first: none of them is then the last to end.
  void collect(const Plan& plan) {
    std::map<std::string, std::size_t> group_of;
    for (const PlanEntry& entry : plan.entries) {
      if (pending_.contains(entry.hash)) continue;
      if (const KnownAttempt* attempt = known_.find(entry.hash)) {
        const bool again = to_do_again(attempt->status, options_.rerun);
        if (!again && is_current(attempt->point_id, entry.point)) continue;
        if (!again) done_ids_.emplace(attempt->point_id);
      }
      pending_.insert(entry.hash);
      const auto [group, is_new] = group_of.try_emplace(entry.point.matrix, waiting_.size());
      if (is_new) waiting_.emplace_back();
      waiting_[group->second].push_back(&entry);
      ++total_;
      if (is_here(entry)) remaining_.expect(entry.point.backend, entry.cost);
    }
    if (options_.gpus == 0) return;
    std::ranges::stable_sort(waiting_, std::greater(), [](const auto& entries) {
      double cost = 0;
      for (const PlanEntry* entry : entries) cost += entry->cost;
      return cost;
    });
  }

  /// True when its matrix is on this machine.
  bool is_here(const PlanEntry& entry) {
    const auto [known, is_new] = present_.try_emplace(entry.point.matrix, true);
    if (is_new) {
      try {
        find_matrix(entry.point.matrix);
      } catch (const Error&) {
        known->second = false;
      }
    }
    return known->second;
  }

  /// Takes the times of the plan's points from earlier runs.
  void learn_from(const Plan& plan) {
    for (const PlanEntry& entry : plan.entries)
      if (const KnownAttempt* found = known_.find(entry.hash); found && found->status == "ok")
        remaining_.learn(entry.point.backend, entry.cost, found->seconds);
  }

  void start_next() {
    Portion portion;
    if (options_.gpus > 0) portion = Portion(take_next());
    Assignment assignment{
        .entries = portion.empty() ? take_all() : std::vector{portion.take()},
        .done_ids = done_ids_,
        .stop_at = stop_at_,
        .threads = options_.jobs > 1 ? std::max(1, num_threads() / options_.jobs) : 0,
        .fresh_orders = options_.fresh_orders,
        .launch_timeout_s = options_.launch_timeout_s};
    const std::size_t place = free_place();
    if (options_.gpus > 0) {
      assignment.place = places_[place];
      assignment.gpu_turn = &gpu_turns_[places_[place].gpu];
      assignment.opening_turn = &opening_turn_;
      assignment.asks_for_more = true;
    }
    workers_.push_back(std::make_unique<Worker>(std::move(assignment)));
    place_of_[workers_.back().get()] = place;
    portion_of_[workers_.back().get()] = std::move(portion);
  }

  std::deque<const PlanEntry*> take_next() {
    std::deque<const PlanEntry*> entries = std::move(waiting_.front());
    waiting_.pop_front();
    return entries;
  }

  std::vector<const PlanEntry*> take_all() {
    const std::deque<const PlanEntry*> entries = take_next();
    return {entries.begin(), entries.end()};
  }

  /// Answers the workers that ask for more. One for which there is nothing yet waits, as long as
  /// half of another one's points may be for it.
  void answer() {
    std::erase_if(asking_, [&](Worker* worker) {
      std::vector<const PlanEntry*> more = more_for(*worker);
      const bool waits = more.empty() && std::ranges::any_of(portion_of_, [](const auto& one) {
                           return one.second.may_be_split();
                         });
      if (!waits) worker->give(std::move(more));
      return !waits;
    });
  }

  /// The next point of a worker that asks for more: of its matrix, of one that waits, or of one
  /// that another worker would end later alone. None where there is none of them.
  std::vector<const PlanEntry*> more_for(const Worker& worker) {
    Portion& own = portion_of_[&worker];
    if (own.empty())
      own =
          Portion(waiting_.empty() ? take_half() : take_next(), worker.assignment().entries.size());
    return own.empty() ? std::vector<const PlanEntry*>() : std::vector{own.take()};
  }

  /// The half of another worker's points that saves most time.
  std::deque<const PlanEntry*> take_half() {
    const auto most = std::ranges::max_element(
        portion_of_, {}, [](const auto& one) { return one.second.saved_by_split_s(); });
    return most->second.saved_by_split_s() > 0 ? most->second.split()
                                               : std::deque<const PlanEntry*>();
  }

  std::size_t free_place() const {
    std::vector<bool> taken(places_.size());
    for (const auto& [worker, place] : place_of_) taken[place] = true;
    return std::ranges::find(taken, false) - taken.begin();
  }

  void wait_for_events() {
    std::vector<pollfd> descriptors;
    for (const auto& worker : workers_) descriptors.push_back({worker->fd(), POLLIN, 0});
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(stop_at_ - Clock::now());
    const bool some_close =
        std::ranges::any_of(workers_, [](const auto& w) { return w->closing(); });
    const auto wait =
        std::clamp<std::chrono::milliseconds::rep>(rest.count() + 1, 0, some_close ? 5 : 200);
    if (poll(descriptors.data(), descriptors.size(), static_cast<int>(wait)) < 0)
      return;  // a signal
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      Worker& worker = *workers_[i];
      if ((descriptors[i].revents & (POLLIN | POLLHUP)) != 0)
        for (WorkerEvent& event : worker.read_events()) take(worker, event);
      worker.look_for_end();
      if (!worker.ended() && worker.running_seconds() > options_.timeout_s) {
        const std::size_t place = *worker.running();
        worker.kill();
        record_failure(worker, place, "timeout",
                       fmt::format("not finished after {}", duration_text(options_.timeout_s)));
      } else if (worker.ended()) {
        handle_exit(worker);
      }
    }
    std::erase_if(workers_, [&](const auto& worker) {
      if (!worker->ended()) return false;
      place_of_.erase(worker.get());
      portion_of_.erase(worker.get());
      std::erase(asking_, worker.get());
      return true;
    });
    answer();
    writer_.sync();
  }

  void take(Worker& worker, WorkerEvent& event) {
    if (event.kind == WorkerEvent::Kind::kAsks) return asking_.push_back(&worker);
    const PlanEntry& entry = *worker.assignment().entries[event.place];
    switch (event.kind) {
      case WorkerEvent::Kind::kStart:
        progress_->working_on(entry.matrix);
        break;
      case WorkerEvent::Kind::kOrder:
        progress_->working_on(
            fmt::format("{}, finding its order by {}{}", entry.matrix, entry.point.reorder.name,
                        event.share > 0 ? fmt::format(", {:.0f} %", 100 * event.share) : ""));
        break;
      case WorkerEvent::Kind::kAlreadyDone:
        portion_of_[&worker].done(event.place, Clock::now(), 0);
        finish(entry, "");
        break;
      case WorkerEvent::Kind::kAsks:
        break;  // noted above
      case WorkerEvent::Kind::kRecord:
        portion_of_[&worker].done(event.place, Clock::now(), event.record->attempt_s.value_or(0));
        store(entry, std::move(*event.record));
        break;
    }
  }

  void store(const PlanEntry& entry, Record record) {
    record.env_id = env_id();
    record.experiment = options_.experiment;
    record.config_hash = options_.config_hash;
    const KnownAttempt* found = known_.find(entry.hash);
    if (found != nullptr && found->time >= record.finished_at) record.after = found->time;
    const KnownAttempt before = found == nullptr ? KnownAttempt() : *found;
    const Json json = to_json(record);
    const KnownAttempt& attempt = known_.add(entry.hash, json);
    if (!are_one_skip(before, attempt)) writer_.add(json);
    ++ran_;
    if (attempt.status == "skipped" && is_here(entry))
      remaining_.learn_skip(entry.point.backend);
    else if (attempt.status != "skipped")
      remaining_.learn(entry.point.backend, entry.cost, record.attempt_s.value_or(0));
    const bool is_fine = attempt.status == "ok" || attempt.status == "skipped";
    finish(entry, is_fine ? ""
                          : fmt::format("{}: {} {} {}: {}", attempt.status, entry.matrix,
                                        task_text(entry.point), entry.point.backend,
                                        attempt.skip->reason));
  }

  void finish(const PlanEntry& entry, const std::string& remark) {
    pending_.erase(entry.hash);
    if (is_here(entry)) remaining_.remove(entry.point.backend, entry.cost);
    progress_->done(entry.matrix, remark);
  }

  /// The process ended: by itself when all is done, time is up or its GPU context is spoilt, or by
  /// force in the middle of a point.
  void handle_exit(const Worker& worker) {
    // A process that died before its first point would do so again.
    const bool died_at_start = !worker.death().empty() && worker.next_place() == 0;
    if (!worker.running() && !died_at_start) return requeue_from(worker, worker.next_place());
    const std::string why = worker.killed_from_outside()
                                ? "the process was killed: probably out of memory"
                                : fmt::format("the process died: {}", worker.death());
    record_failure(worker, worker.running().value_or(0),
                   worker.killed_from_outside() ? "oom" : "failed", why);
  }

  /// Records the point at `place` as failed, and requeues the points behind it.
  void record_failure(const Worker& worker, std::size_t place, const char* status,
                      const std::string& reason) {
    const PlanEntry& entry = *worker.assignment().entries[place];
    Record record = unfinished_record(entry.point, status, reason);
    record.attempt_s = worker.running_seconds();
    store(entry, std::move(record));
    requeue_from(worker, place + 1);
  }

  /// Queues the points of the worker from `place` on, and those that it was not given yet, for a
  /// new process, while there is time.
  void requeue_from(const Worker& worker, std::size_t place) {
    const auto& entries = worker.assignment().entries;
    const auto& behind = portion_of_[&worker].left();
    std::deque<const PlanEntry*> left(entries.begin() + static_cast<std::ptrdiff_t>(place),
                                      entries.end());
    left.insert(left.end(), behind.begin(), behind.end());
    if (!left.empty() && Clock::now() < stop_at_) waiting_.push_front(std::move(left));
  }

  const RunOptions& options_;
  OwnProcess seen_{look_at_machine};  // the driver starts while this one goes on
  RecordWriter writer_;
  KnownFolder known_;
  std::string env_id_ = {};
  Clock::time_point stop_at_;
  std::set<std::string> pending_;  // requests to do
  std::set<std::string> done_ids_;
  std::deque<std::deque<const PlanEntry*>> waiting_;  // by matrix
  std::vector<WorkerPlace> places_;
  std::deque<SharedTurn> gpu_turns_;
  SharedTurn opening_turn_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<const Worker*, std::size_t> place_of_;
  std::map<const Worker*, Portion> portion_of_;
  std::vector<Worker*> asking_;          // for more
  std::map<std::string, bool> present_;  // matrices on this machine, by name
  RemainingTime remaining_;
  Progress* progress_ = nullptr;
  std::size_t total_ = 0;
  int ran_ = 0;
};

}  // namespace

bool RunSummary::all_skipped() const {
  return left == 0 && by_status.size() == 1 && by_status.contains("skipped");
}

Json RunSummary::to_json() const {
  return {{"ran", ran}, {"left", left}, {"by_status", by_status}, {"skips", skips.to_json()}};
}

RunSummary run_plan(const Plan& plan, const RunOptions& options) {
  Run run(plan, options);
  run.go();
  return run.summary(plan);
}

PlanStatus plan_status(const std::function<Plan()>& make, const std::string& out) {
  std::future<Plan> made = std::async(std::launch::async, make);
  std::optional<KnownFolder> known;
  std::exception_ptr failure;
  try {
    if (std::filesystem::exists(out)) known.emplace(out);
  } catch (const Error&) {
    failure = std::current_exception();
  }
  PlanStatus status{made.get(), {}};  // an Error of the plan is told first
  if (failure) std::rethrow_exception(failure);
  status.summary = summarise(
      status.plan, [&](const std::string& hash) { return known ? known->find(hash) : nullptr; });
  return status;
}

RunSummary plan_status(const Plan& plan, const std::string& out) {
  std::optional<KnownFolder> known;
  if (std::filesystem::exists(out)) known.emplace(out);
  return summarise(plan,
                   [&](const std::string& hash) { return known ? known->find(hash) : nullptr; });
}

}  // namespace tessera
