// One SM: its resident warps, schedulers, tensor cores, load unit and L1.
//
// Warps take their operations in program order. Whatever can be busy (a scheduler's issue slots, a
// tensor core, the load unit, the port to the L2) serves who comes first and is free again a known
// number of cycles later; the warp that is furthest behind goes next. An SM runs by itself up to a
// time that is given, since what it asks of the memory cannot come back before.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "model/simulator/cache.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/memory.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

/// When and where a thread block ran, in cycles since the start of its launch.
struct BlockSpan {
  std::int32_t sm = 0;
  double start = 0;
  double end = 0;
};

/// An operation of a watched thread block: for reads of global memory from a request that leaves
/// the SM to its data, one span for each line; for the rest, barriers too, as long as the warp was
/// held up by it. What the L1 answers, and issuing a read, have no span. In cycles since the start
/// of the launch.
struct OpSpan {
  std::int32_t warp = 0;  // within the thread block
  WarpOp::Kind kind = WarpOp::Kind::kIssue;
  double start = 0;
  double end = 0;
};

class Multiprocessor {
 public:
  Multiprocessor(const Machine& machine, const Launch& launch, int resident);

  /// Keeps the operations of this thread block; -1, as in the beginning: of none.
  void watch(std::int64_t thread_block) { watched_block_ = thread_block; }

  /// A new thread block, when one of the places is free.
  bool has_room() const { return !free_slots_.empty(); }
  /// When the place that has_room() speaks of became free.
  double room_since() const { return free_slots_.front().since; }
  void place(std::int64_t thread_block, double start);

  /// Runs everything that happens before `end`.
  void advance(double end);

  /// What it asked of each group of the memory since the last call of answer().
  std::vector<Request>& requests(int group) { return requests_[static_cast<std::size_t>(group)]; }
  /// The requests have been served: their data is on its way to the warps.
  void answer();

  struct Finished {
    std::int64_t thread_block;
    double start, end;
    std::int64_t instructions;  // of its warps
  };
  std::vector<Finished>& finished() { return finished_; }
  const SmCounts& counts() const { return counts_; }
  const std::vector<OpSpan>& watched() const { return watched_; }

 private:
  struct Slot {
    std::int64_t thread_block = -1;
    double start = 0;
    int warps = 0;       // not at their end
    int arrived = 0;     // at the barrier
    double barrier = 0;  // when the last of them came
    double end = 0;      // of the last warp that has ended
    std::int64_t instructions = 0;
  };
  struct FreeSlot {
    int slot;
    double since;
  };
  struct Warp {
    WarpTrace piece = {};
    std::size_t op = 0;
    bool last_piece = false;
    bool at_barrier = false;
    int issued = 0;  // instructions of an operation that takes several turns
    WarpCursor cursor = {};
    int slot = 0;
    int index = 0;  // within its thread block
    int scheduler = 0;
    double time = 0;
    double mma_ready = 0;
    int waits_for = -1;  // a scoreboard whose data has not been asked for by the memory yet
    std::array<double, kScoreboards> ready = {};
    std::array<std::int16_t, kScoreboards> pending = {};
  };
  struct Event {
    double time;
    int warp;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : warp > o.warp; }
  };
  /// A load that waits for what an earlier request fetches.
  struct Follower {
    int group;
    std::uint32_t request;
    std::uint8_t warp, scoreboard;
  };

  /// Of a memory instruction through the L1.
  struct Passage {
    double looked_up;  // its lines
    double passed;     // its data, were all of it there
  };

  void run(int warp, double end);
  bool step(int id, Warp& warp);
  bool perform(int id, Warp& warp, const WarpOp& op);
  bool is_watched(const Warp& warp) const {
    return slots_[static_cast<std::size_t>(warp.slot)].thread_block == watched_block_;
  }
  bool fetch(Warp& warp);
  void finish(Warp& warp);
  void issue(Warp& warp, int instructions);
  void multiply(Warp& warp, int instructions);
  void access_shared(Warp& warp, int wavefronts);
  void access_memory(int id, Warp& warp, const WarpOp& op);
  void read_line(int id, Warp& warp, const WarpOp& op, const LineTouch& touch, Passage passage);
  void write_line(const WarpOp& op, const LineTouch& touch, Passage passage);
  void request(Request request, int group, Passage passage);
  bool wait(Warp& warp, int scoreboard);
  void meet(Warp& warp);
  void open_barrier(int slot);
  void push(double time, int warp);

  const Machine& machine_;
  const Launch& launch_;
  int warps_per_block_;
  std::vector<Slot> slots_;
  std::deque<FreeSlot> free_slots_;  // in the order they became free
  std::vector<Warp> warps_;          // [slots * warps_per_block]
  std::vector<Event> events_;        // a heap, earliest first
  std::vector<Finished> finished_;

  std::array<double, 4> issue_free_ = {};
  std::array<double, 4> tensor_free_ = {};
  double load_free_ = 0;  // where the L1 looks up lines
  double data_free_ = 0;  // where its data, or shared memory's, goes to and from registers
  double port_free_ = 0;
  double now_ = 0;  // when the operation that is being performed began

  SectoredCache l1_;
  std::array<std::vector<Request>, kGroups> requests_;
  std::vector<Follower> followers_;
  std::int64_t watched_block_ = -1;
  std::vector<OpSpan> watched_;
  SmCounts counts_;
};

}  // namespace tessera::simulator
