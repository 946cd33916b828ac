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
#include "experiments/run/handout.hpp"
#include "experiments/run/interrupt.hpp"
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

/// The backend of a point that needs a device; empty where none does.
std::string device_backend(const Plan& plan) {
  const auto found = std::ranges::find_if(plan.entries, [](const PlanEntry& entry) {
    return backend_traits(entry.point.backend).needs_gpu;
  });
  return found == plan.entries.end() ? "" : found->point.backend;
}

/// The moment `seconds` from now; far beyond any run, the end of time.
Clock::time_point moment_after(double seconds) {
  constexpr double kLongest = 1e9;  // fits in the clock's nanoseconds
  if (!(seconds < kLongest)) return Clock::time_point::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// A worker that opens a device says what it sees there. Where it has not for so long, another
/// process looks.
constexpr double kLongestLookS = 5;

/// One run: assigns matrices to worker processes, collects events, writes records.
class Run {
 public:
  Run(const Plan& plan, const RunOptions& options)
      : options_(options),
        opens_(options.gpus > 0 ? device_backend(plan) : ""),
        // The driver starts while this process goes on.
        seen_(opens_.empty() ? std::make_unique<OwnProcess>(look_at_machine) : nullptr),
        writer_(options.out + "/" + options.file),
        known_(options.out),
        places_(options.gpus > 0 ? places_of_gpus(options.gpus, own_cores())
                                 : std::vector<WorkerPlace>(std::max(options.jobs, 1))),
        remaining_(lane_count()) {
    stop_at_ = moment_after(options.max_seconds);
    collect(plan);
    learn_from(plan);
  }

  void go() {
    const InterruptGuard guard;
    Progress progress(static_cast<int>(total_), &remaining_);
    progress_ = &progress;
    while ((handout_.has_any() || is_someone_at_work()) && !InterruptGuard::interrupted() &&
           Clock::now() < stop_at_) {
      start_workers();
      wait_for_events();
    }
    store_held();
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
  int lane_count() const {
    std::size_t lanes = 0;
    for (const WorkerPlace& place : places_) lanes += place.lanes.size();
    return static_cast<int>(lanes);
  }

  /// False where all that is left is the system's work at the end of a process.
  bool is_someone_at_work() const {
    return std::ranges::any_of(workers_, [&](const auto& worker) {
      return !worker->says_end() || !worker->unfinished().empty() ||
             handout_.has_for(place_of_.at(worker.get()));
    });
  }

  /// Of the env record, which is written before the first record of a point.
  const std::string& env_id() {
    if (env_id_.empty()) name_machine(seen_ ? seen_->answer() : in_own_process(look_at_machine));
    return env_id_;
  }

  void name_machine(const Json& seen) {
    const Json environment = environment_record(seen);
    env_id_ = environment.at("env_id");
    if (!known_.environments().contains(env_id_)) writer_.add(environment);
  }

  /// Groups the points to run by matrix.
  void collect(const Plan& plan) {
    std::map<std::string, std::size_t> group_of;
    std::vector<Handout::Entries> groups;
    for (const PlanEntry& entry : plan.entries) {
      if (pending_.contains(entry.hash)) continue;
      if (const KnownAttempt* attempt = known_.find(entry.hash)) {
        const bool again = to_do_again(attempt->status, options_.rerun);
        if (!again && is_current(attempt->point_id, entry.point)) continue;
        if (!again) done_ids_.emplace(attempt->point_id);
      }
      pending_.insert(entry.hash);
      const auto [group, is_new] = group_of.try_emplace(entry.point.matrix, groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back(&entry);
      ++total_;
      if (is_here(entry)) remaining_.expect(entry.point.backend, entry.cost);
    }
    for (Handout::Entries& group : groups) handout_.add(std::move(group));
    if (options_.gpus == 0) return;
    handout_.sort_by_cost();
    std::vector<std::size_t> lanes;
    for (const WorkerPlace& place : places_) lanes.push_back(place.lanes.size());
    handout_.deal(lanes);
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

  void start_workers() {
    for (std::size_t place = 0; place < places_.size(); ++place) {
      const bool is_taken = std::ranges::any_of(
          place_of_, [&](const auto& worker) { return worker.second == place; });
      if (!is_taken && handout_.has_for(place)) start_at(place);
    }
  }

  void start_at(std::size_t place) {
    Assignment assignment{.done_ids = done_ids_,
                          .stop_at = stop_at_,
                          .fresh_orders = options_.fresh_orders,
                          .launch_timeout_s = options_.launch_timeout_s};
    if (options_.gpus > 0) {
      assignment.place = places_[place];
      if (handout_.has_suspects()) assignment.place->lanes.resize(1);
      assignment.opens = opens_;
      assignment.opening = &opening_;
      assignment.tells_machine = awaits_machine() && looks_ == nullptr;
      assignment.asks_for_more = true;
    } else {
      const Handout::Entries entries = handout_.take_matrix();
      assignment.entries = {entries.begin(), entries.end()};
      assignment.threads = options_.jobs > 1 ? std::max(1, num_threads() / options_.jobs) : 0;
    }
    const bool looks = assignment.tells_machine;
    workers_.push_back(std::make_unique<Worker>(std::move(assignment)));
    if (looks) looks_ = workers_.back().get();
    place_of_[workers_.back().get()] = place;
  }

  /// Answers the lanes that ask for more. One for which there is nothing yet may wait.
  void answer() {
    std::erase_if(asking_, [&](const auto& asks) {
      const auto& [worker, lane] = asks;
      const LaneName name{place_of_.at(worker), lane};
      const bool alone = worker->assignment().lanes() == 1;
      const PlanEntry* entry = alone ? handout_.next_suspect()
                                     : handout_.next(name, worker->assignment().entries.size());
      if (entry == nullptr && !alone && handout_.may_have_later(name)) return false;
      worker->give(lane, entry == nullptr ? std::vector<const PlanEntry*>() : std::vector{entry});
      return true;
    });
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
      if (const std::optional<std::size_t> late = late_place(worker); late && !worker.ended()) {
        worker.kill();
        record_failure(*worker.assignment().entries[*late], "timeout",
                       fmt::format("not finished after {}", duration_text(options_.timeout_s)),
                       worker.running_seconds(*late));
        take_back(worker, {*late});
      } else if (worker.ended()) {
        handle_exit(worker);
      }
    }
    std::erase_if(workers_, [&](const auto& worker) {
      if (!worker->ended()) return false;
      if (looks_ == worker.get()) looks_ = nullptr;
      place_of_.erase(worker.get());
      std::erase_if(asking_, [&](const auto& asks) { return asks.first == worker.get(); });
      return true;
    });
    if (!held_.empty() && (looks_ == nullptr || Clock::now() > look_until_)) store_held();
    answer();
    writer_.sync();
  }

  /// A point of the worker that has run for too long.
  std::optional<std::size_t> late_place(const Worker& worker) const {
    for (const auto& [place, started] : worker.running())
      if (worker.running_seconds(place) > options_.timeout_s) return place;
    return std::nullopt;
  }

  void take(Worker& worker, WorkerEvent& event) {
    using Kind = WorkerEvent::Kind;
    if (event.kind == Kind::kAsks) return asking_.emplace_back(&worker, event.lane), void();
    if (event.kind == Kind::kMachine) {
      if (awaits_machine()) name_machine(look_with(event.machine));
      return store_held();
    }
    const PlanEntry& entry = *worker.assignment().entries[event.place];
    const auto done = [&](double attempt_s) {
      if (options_.gpus > 0)
        handout_.done({place_of_.at(&worker), worker.lane_of(event.place)}, event.place,
                      Clock::now(), attempt_s);
    };
    if (event.kind == Kind::kStart) {
      progress_->working_on(entry.matrix);
    } else if (event.kind == Kind::kOrder) {
      progress_->working_on(
          fmt::format("{}, finding its order by {}{}", entry.matrix, entry.point.reorder.name,
                      event.share > 0 ? fmt::format(", {:.0f} %", 100 * event.share) : ""));
    } else if (event.kind == Kind::kAlreadyDone) {
      done(0);
      finish(entry, "");
    } else {
      done(event.record->attempt_s.value_or(0));
      store(entry, std::move(*event.record));
    }
  }

  /// True until it is known on which machine points run, which their records name: a worker that
  /// opens its device tells.
  bool awaits_machine() const { return env_id_.empty() && !opens_.empty(); }

  void store_held() {
    for (auto& [entry, record] : std::exchange(held_, {})) write(*entry, std::move(record));
  }

  void store(const PlanEntry& entry, Record record) {
    if (awaits_machine() && looks_ != nullptr && Clock::now() <= look_until_)
      held_.emplace_back(&entry, std::move(record));
    else
      write(entry, std::move(record));
  }

  void write(const PlanEntry& entry, Record record) {
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
  /// force in the middle of points. With one of these it is known which is to blame; several are
  /// tried again, one at a time.
  void handle_exit(const Worker& worker) {
    if (worker.says_end()) return take_back(worker, {});
    const auto& entries = worker.assignment().entries;
    std::set<std::size_t> open;
    for (const auto& [place, started] : worker.running()) open.insert(place);
    // A process that died before its first point would do so again.
    const bool did_nothing = worker.unfinished().size() == entries.size();
    if (open.empty() && did_nothing && !entries.empty()) open.insert(0);
    if (open.empty() && did_nothing) {
      const bool alone = worker.assignment().lanes() == 1;
      const PlanEntry* first =
          alone ? handout_.next_suspect() : handout_.next({place_of_.at(&worker), 0}, 0);
      if (first != nullptr) record_death(worker, *first, 0);
    } else if (open.size() == 1) {
      const std::size_t place = *open.begin();
      record_death(worker, *entries[place], worker.running_seconds(place));
    } else {
      for (const std::size_t place : open) handout_.suspect(entries[place]);
    }
    take_back(worker, open);
  }

  void record_death(const Worker& worker, const PlanEntry& entry, double seconds) {
    if (worker.killed_from_outside())
      record_failure(entry, "oom", "the process was killed: probably out of memory", seconds);
    else
      record_failure(entry, "failed", fmt::format("the process died: {}", worker.death()), seconds);
  }

  void record_failure(const PlanEntry& entry, const char* status, const std::string& reason,
                      double seconds) {
    Record record = unfinished_record(entry.point, status, reason);
    record.attempt_s = seconds;
    store(entry, std::move(record));
  }

  /// The points of a worker that has ended wait for another one, without those at these places,
  /// while there is time.
  void take_back(const Worker& worker, const std::set<std::size_t>& without) {
    std::map<std::size_t, Handout::Entries> unfinished;
    for (const std::size_t place : worker.unfinished())
      if (!without.contains(place))
        unfinished[worker.lane_of(place)].push_back(worker.assignment().entries[place]);
    if (Clock::now() < stop_at_) handout_.take_back(place_of_.at(&worker), std::move(unfinished));
  }

  const RunOptions& options_;
  std::string opens_;                 // the backend whose device the workers open at their start
  OpeningOrder opening_ = {};         // of these devices
  std::unique_ptr<OwnProcess> seen_;  // looks at the machine; null where a worker does
  RecordWriter writer_;
  KnownFolder known_;
  std::string env_id_ = {};
  Clock::time_point look_until_ = moment_after(kLongestLookS);
  const Worker* looks_ = nullptr;  // the worker that will tell what the machine is
  std::vector<std::pair<const PlanEntry*, Record>> held_;  // until it has
  Clock::time_point stop_at_;
  std::set<std::string> pending_;  // requests to do
  std::set<std::string> done_ids_;
  Handout handout_;
  std::vector<WorkerPlace> places_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<const Worker*, std::size_t> place_of_;
  std::vector<std::pair<Worker*, std::size_t>> asking_;  // for more: lanes of workers
  std::map<std::string, bool> present_;                  // matrices on this machine, by name
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
