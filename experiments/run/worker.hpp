// The process that runs the points of one matrix, or of one after the other, and its messages to
// its parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/plan.hpp"
#include "experiments/records/record.hpp"
#include "experiments/run/gpu_pipeline.hpp"
#include "experiments/run/shared_turn.hpp"

namespace tessera {

/// Points for one process, in order.
struct Assignment {
  std::vector<const PlanEntry*> entries;
  std::set<std::string> done_ids;  // results that need not be made again
  std::chrono::steady_clock::time_point stop_at;
  int threads = 0;            // for its parallel loops; 0 for all
  bool fresh_orders = false;  // take no order from the cache
  double launch_timeout_s = 60;
  // Where workers share GPUs.
  std::optional<WorkerPlace> place = {};
  SharedTurn* gpu_turn = nullptr;      // of its GPU
  SharedTurn* opening_turn = nullptr;  // to make a context, of all workers
  bool asks_for_more = false;          // asks for another matrix's points in place of ending
};

/// A line from the process. A point is identified by its place in the assignment.
struct WorkerEvent {
  enum class Kind { kStart, kOrder, kRecord, kAlreadyDone, kAsks };
  Kind kind;
  std::size_t place;
  std::optional<Record> record = {};  // of kRecord
  double share = 0;  // of kOrder: the share of the search for an order that is done
};

/// A running child process.
class Worker {
 public:
  explicit Worker(Assignment assignment);
  ~Worker();  // kills it when it still runs
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Where events arrive; -1 once no more will.
  int fd() const { return closing_ ? -1 : fd_; }
  const Assignment& assignment() const { return assignment_; }

  /// Gives a worker that asks for more further points; none end it. They, and what they point at,
  /// are from before the worker was started.
  void give(std::vector<const PlanEntry*> entries);

  /// The events that have arrived; empty, with closing() true, when no more will.
  std::vector<WorkerEvent> read_events();
  /// True while the process ends, which takes long with a context on a GPU.
  bool closing() const { return closing_ && !ended_; }
  /// Makes ended() true when a process that was closing is gone; does not wait for it.
  void look_for_end();
  bool ended() const { return ended_; }
  /// The way it ended: "" for a plain exit between points, else "signal 11 (Segmentation fault)".
  std::string death() const { return death_; }
  bool killed_from_outside() const { return killed_from_outside_; }
  void kill();

  /// Places that have a record or are done; the one started last that has none.
  std::size_t next_place() const { return next_; }
  std::optional<std::size_t> running() const { return running_; }
  double running_seconds() const;

 private:
  Assignment assignment_;
  pid_t pid_ = -1;
  int fd_ = -1;
  int gifts_ = -1;  // a socket, where it asks for more
  std::string buffer_;
  bool closing_ = false;
  bool ended_ = false;
  bool killed_from_outside_ = false;
  std::string death_;
  std::size_t next_ = 0;
  std::optional<std::size_t> running_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace tessera
