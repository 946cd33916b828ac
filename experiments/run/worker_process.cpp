#include "experiments/run/worker_process.hpp"

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/machine/gpu_load.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/peak_memory.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

/// Lets this process keep memory that it frees, for its next point: the system clears every page
/// that it hands out anew, which takes about as long as a point's copies of C. Threads share one
/// heap: those of their own hold no more than 64 MB, and give back what is larger.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

/// The pipe to the parent, for all threads.
class Teller {
 public:
  explicit Teller(int fd) : fd_(fd) {}

  void tell(const Json& event) {
    const std::lock_guard lock(mutex_);
    write_line(event);
  }

  /// Tells that the process ends by itself, and ends it: no other thread tells anything after that.
  /// No destructors run: a spoilt CUDA context could hang in them, and other threads work.
  [[noreturn]] void end() {
    const std::lock_guard lock(mutex_);
    write_line({{"event", "ends"}});
    _exit(0);
  }

 private:
  void write_line(const Json& event) {
    const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::size_t sent = 0;
    while (sent < line.size()) {
      const ssize_t got = write(fd_, line.data() + sent, line.size() - sent);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) _exit(1);  // the parent is gone
      sent += static_cast<std::size_t>(got);
    }
  }

  std::mutex mutex_;
  int fd_;
};

/// Reads all of a message's bytes; false at its end.
bool receive(int fd, void* to, std::size_t size) {
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

struct Job {
  std::size_t place = 0;
  const PlanEntry* entry = nullptr;
};

/// The points of every lane, those that the parent gives later among them.
class Supply {
 public:
  Supply(const Assignment& assignment, Teller& teller, int gifts)
      : teller_(teller), lanes_(assignment.lanes()), asks_(assignment.asks_for_more) {
    for (const PlanEntry* entry : assignment.entries) lanes_[0].jobs.push_back({count_++, entry});
    if (asks_) std::thread([this, gifts] { take_gifts(gifts); }).detach();
  }

  /// The next point of a lane; nothing where there will be none. Of a point that does not wait for
  /// the device the one after it is asked for early: it is here when it is needed.
  std::optional<Job> next(std::size_t number) {
    std::unique_lock lock(mutex_);
    Lane& lane = lanes_[number];
    if (asks_ && lane.jobs.empty()) ask(number);
    changed_.wait(lock, [&] { return !lane.jobs.empty() || lane.ended || !asks_; });
    if (lane.jobs.empty()) return std::nullopt;
    const Job job = lane.jobs.front();
    lane.jobs.pop_front();
    const bool waits = backend_traits(job.entry->point.backend).needs_gpu;
    if (asks_ && !waits && lane.jobs.empty()) ask(number);
    return job;
  }

  /// Asks for a lane's next point while the lane measures one. Before that, another device that has
  /// less to do may still get it.
  void ask_early(std::size_t number) {
    const std::lock_guard lock(mutex_);
    if (asks_ && lanes_[number].jobs.empty()) ask(number);
  }

 private:
  struct Lane {
    std::deque<Job> jobs = {};
    bool asked = false, ended = false;
  };

  void ask(std::size_t number) {
    if (std::exchange(lanes_[number].asked, true)) return;
    teller_.tell({{"event", "asks"}, {"lane", number}});
  }

  void take_gifts(int gifts) {
    std::vector<const PlanEntry*> entries;
    for (Gift gift; receive(gifts, &gift, sizeof gift);) {
      entries.resize(gift.count);
      if (!receive(gifts, entries.data(), gift.count * sizeof(const PlanEntry*))) break;
      {
        const std::lock_guard lock(mutex_);
        Lane& lane = lanes_[gift.lane];
        for (const PlanEntry* entry : entries) lane.jobs.push_back({count_++, entry});
        lane.ended = entries.empty();
        lane.asked = lane.ended;
      }
      changed_.notify_all();
    }
    _exit(1);  // the parent is gone
  }

  Teller& teller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> lanes_;
  std::size_t count_ = 0;  // of all points that were given
  bool asks_;
};

/// What all lanes of this process share.
struct Shared {
  const Assignment& assignment;
  Teller teller;
  Supply supply;
  DeviceTurn turn = {};
  std::vector<std::atomic<const Job*>> at;  // by lane
  std::atomic<std::size_t> lanes_at_work;

  Shared(const Assignment& of, int events, int gifts)
      : assignment(of),
        teller(events),
        supply(of, teller, gifts),
        at(of.lanes()),
        lanes_at_work(of.lanes()) {}

  void tell_record(std::size_t place, const Record& record) {
    teller.tell({{"event", "record"}, {"place", place}, {"record", to_json(record)}});
  }
};

/// Reports the progress of the order of the lane's point, at most ten times a second.
auto order_teller(Shared& shared, std::size_t lane) {
  return [&shared, lane, told = Clock::time_point()](const Point&, double share) mutable {
    const Clock::time_point now = Clock::now();
    if (share > 0 && now - told < std::chrono::milliseconds(100)) return;
    told = now;
    shared.teller.tell(
        {{"event", "order"}, {"place", shared.at[lane].load()->place}, {"share", share}});
  };
}

bool has_no_result(const Record& record) {
  return record.status != "ok" && record.status != "wrong";
}

void run_lane(Shared& shared, std::size_t lane) {
  const Assignment& assignment = shared.assignment;
  if (assignment.place) stay_on(assignment.place->lanes[lane]);
  PointRunner runner({.turn = &shared.turn,
                      .user = lane,
                      .has_turn = [&shared, lane] { shared.supply.ask_early(lane); },
                      .fresh_orders = assignment.fresh_orders,
                      .keeps_truth = true,
                      .tell_order = order_teller(shared, lane)});
  while (Clock::now() < assignment.stop_at) {
    const std::optional<Job> job = shared.supply.next(lane);
    if (!job || Clock::now() >= assignment.stop_at) return;
    shared.at[lane] = &*job;
    const Point& point = job->entry->point;
    shared.teller.tell({{"event", "start"}, {"place", job->place}});
    // The identity needs the matrix: load it only when there is a result to compare with.
    if (!assignment.done_ids.empty() && assignment.done_ids.contains(runner.point_id(point))) {
      shared.teller.tell({{"event", "done"}, {"place", job->place}});
      continue;
    }
    const Attempt attempt = runner.run(point);
    // It may have met an error of the point that has the turn, and that loses the device: then this
    // waits for the end of the process.
    if (has_no_result(attempt.record) && !attempt.restart_needed &&
        backend_traits(point.backend).needs_gpu) {
      const DeviceTurn::Held after(shared.turn, lane);
    }
    shared.tell_record(job->place, attempt.record);
    if (attempt.restart_needed) shared.teller.end();
  }
}

/// Runs the lane's points, and ends the process behind the last lane. No thread ends before: what
/// it keeps of the device would be freed beside the measurements of others.
[[noreturn]] void be_lane(Shared& shared, std::size_t lane) {
  run_lane(shared, lane);
  if (--shared.lanes_at_work == 0) shared.teller.end();
  for (;;) pause();
}

/// Starts to open the device, while the lanes do what needs none.
void open_device(Shared& shared) {
  shared.turn.open([&shared] {
    {
      const OpeningOrder::Held alone(*shared.assignment.opening);
      const BackendChoice choice = find_backend(shared.assignment.opens);
      if (choice.missing.empty()) choice.backend->open_device();
    }
    if (!shared.assignment.tells_machine) return;
    try {
      shared.teller.tell({{"event", "machine"}, {"seen", look_at_gpu()}});
    } catch (const std::exception&) {
      // What fails here fails in the points as well; the parent asks another process.
    }
  });
}

}  // namespace

void work(Assignment& assignment, int events, int gifts) {
  if (assignment.threads > 0) set_num_threads(assignment.threads);
  if (assignment.place) {
    go_to(*assignment.place);
    share_gpu_with_children_of(getppid());
  }
  if (assignment.lanes() > 1) share_process_memory();
  keep_freed_memory();
  Shared shared(assignment, events, gifts);
  // The launching thread waits for its kernel, and tells nothing meanwhile.
  watch_launches(assignment.launch_timeout_s, [&](const std::string& reason) {
    const Job& job = *shared.at[shared.turn.user().value_or(0)].load();
    shared.tell_record(job.place, unfinished_record(job.entry->point, "timeout", reason));
    shared.teller.end();
  });
  if (!assignment.opens.empty()) open_device(shared);
  for (std::size_t lane = 1; lane < assignment.lanes(); ++lane)
    std::thread([&shared, lane] { be_lane(shared, lane); }).detach();
  be_lane(shared, 0);
}

}  // namespace tessera
