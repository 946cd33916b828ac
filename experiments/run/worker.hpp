// The process that runs the points of one matrix, or that measures on a GPU (worker_process.hpp),
// and its messages to its parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/plan.hpp"
#include "experiments/records/record.hpp"
#include "experiments/run/gpu_pipeline.hpp"
#include "experiments/run/opening_order.hpp"

namespace tessera {

/// Points for one process.
struct Assignment {
  /// In order, of its first lane. One that asks has no other lanes' either: it asks for all of
  /// them.
  std::vector<const PlanEntry*> entries = {};
  std::set<std::string> done_ids = {};  // results that need not be made again
  std::chrono::steady_clock::time_point stop_at;
  int threads = 0;            // for its parallel loops; 0 for all
  bool fresh_orders = false;  // take no order from the cache
  double launch_timeout_s = 60;
  // These are for a process that measures on a GPU.
  std::optional<WorkerPlace> place = {};
  std::string opens = {};  // the backend whose device it opens at its start; empty for none
  const OpeningOrder* opening = nullptr;  // when; there is one where it opens any
  bool tells_machine = false;             // what a probe of the device sees
  bool asks_for_more = false;             // its lanes ask for points, in place of ending

  std::size_t lanes() const { return place ? place->lanes.size() : 1; }
};

/// A line from the process. A point is identified by its place in the assignment, in which those
/// that were given later follow.
struct WorkerEvent {
  enum class Kind { kStart, kOrder, kRecord, kAlreadyDone, kAsks, kMachine };
  Kind kind;
  std::size_t place = 0;
  std::optional<Record> record = {};  // of kRecord
  double share = 0;      // of kOrder: the share of the search for an order that is done
  std::size_t lane = 0;  // of kAsks
  Json machine = {};     // of kMachine
};

/// A running child process.
class Worker {
 public:
  explicit Worker(Assignment assignment);
  ~Worker();  // kills it when it still runs and has not said that it ends
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Where events arrive; -1 once no more will.
  int fd() const { return closing_ ? -1 : fd_; }
  const Assignment& assignment() const { return assignment_; }

  /// Gives a lane that asks for more further points; none end it. They, and what they point at, are
  /// from before the worker was started.
  void give(std::size_t lane, std::vector<const PlanEntry*> entries);
  /// The lane that was given the point at that place.
  std::size_t lane_of(std::size_t place) const { return lane_of_.at(place); }

  /// The events that have arrived; empty, with closing() true, when no more will.
  std::vector<WorkerEvent> read_events();
  /// True when it has said that it ends, by itself: the points without a record, even those that it
  /// has started, are not to blame. What follows is the system's work, to take its memory and its
  /// context apart.
  bool says_end() const { return says_end_; }
  /// True while the process ends.
  bool closing() const { return closing_ && !ended_; }
  /// Makes ended() true when a process that was closing is gone; does not wait for it.
  void look_for_end();
  bool ended() const { return ended_; }
  /// The way it ended: "signal 11 (Segmentation fault)" or "exit code 3".
  std::string death() const { return death_; }
  bool killed_from_outside() const { return killed_from_outside_; }
  void kill();

  /// Places that have neither a record nor are done, in order.
  std::vector<std::size_t> unfinished() const;
  /// Those among them that were started, and when.
  const std::map<std::size_t, std::chrono::steady_clock::time_point>& running() const {
    return running_;
  }
  /// The time since that point was started; 0 where it was not.
  double running_seconds(std::size_t place) const;

 private:
  WorkerEvent read(const Json& line);

  Assignment assignment_;
  std::vector<std::size_t> lane_of_;  // by place
  std::vector<bool> finished_;        // likewise
  pid_t pid_ = -1;
  int fd_ = -1;
  int gifts_ = -1;  // a socket, where it asks for more
  std::string buffer_;
  bool says_end_ = false;
  bool closing_ = false;
  bool ended_ = false;
  bool killed_from_outside_ = false;
  std::string death_;
  std::map<std::size_t, std::chrono::steady_clock::time_point> running_;
};

}  // namespace tessera
