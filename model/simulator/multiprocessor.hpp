// One SM: its resident warps, schedulers, tensor cores, load unit and L1.
//
// Warps execute their operations in program order. A resource (a scheduler's issue slots, a tensor
// core, the load unit, the port to the L2) serves requests first come, first served, and is free
// again a known number of cycles later; the warp with the earliest time runs next. An SM runs alone
// up to a given time, before which no answer of the memory can arrive.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "model/simulator/cache.hpp"
#include "model/simulator/machine.hpp"
#include "model/simulator/memory.hpp"
#include "model/simulator/room.hpp"
#include "model/simulator/traffic.hpp"

namespace tessera::simulator {

/// The SM and the time of a thread block, in cycles since the start of its launch.
struct BlockSpan {
  std::int32_t sm = 0;
  double start = 0;
  double end = 0;
};

/// An operation of a watched thread block, in cycles since the start of the launch. A read of
/// global memory has one span per line, from the request that leaves the SM to the arrival of its
/// data; any other operation, barriers included, has one for the time that it held up the warp. L1
/// hits and the issue of a read have no span.
struct OpSpan {
  std::int32_t warp = 0;  // within the thread block
  WarpOp::Kind kind = WarpOp::Kind::kIssue;
  double start = 0;
  double end = 0;
};

class Multiprocessor {
 public:
  /// For thread blocks of launches that run at a time.
  Multiprocessor(const Machine& machine, std::span<const Launch* const> launches);

  /// Records the operations of this thread block of each launch; -1, the initial value, records
  /// none.
  void watch(std::int64_t thread_block) { watched_block_ = thread_block; }

  /// True when there is room for a thread block of that launch.
  bool has_room(std::size_t launch) const {
    return !free_slots_.empty() && room_.fits(shares_[launch]);
  }
  /// The time since which there has been.
  double room_since(std::size_t launch) const { return room_.since(shares_[launch]); }
  /// Starts a thread block of a launch, for which there is room. `number` names it in finished().
  void place(std::size_t launch, std::int64_t thread_block, std::int64_t number, double start);

  /// Runs everything that happens before `end`.
  void advance(double end);

  /// The requests to each group of the memory since the last call of answer().
  std::vector<Request>& requests(int group) { return requests_[static_cast<std::size_t>(group)]; }
  /// Delivers the served requests to the warps and clears them.
  void answer();

  struct Finished {
    std::int64_t number;
    double start, end;
    std::int64_t instructions;  // of all its warps
  };
  std::vector<Finished>& finished() { return finished_; }
  const SmCounts& counts() const { return counts_; }
  const std::vector<OpSpan>& watched() const { return watched_; }

 private:
  struct Slot {
    std::size_t launch = 0;
    std::int64_t thread_block = -1, number = -1;
    std::vector<int> all_warps = {};
    double start = 0;
    int warps = 0;       // warps that have not ended
    int arrived = 0;     // warps at the barrier
    double barrier = 0;  // arrival of the last of them
    double end = 0;      // end of the last warp that has ended
    std::int64_t instructions = 0;
  };
  struct Warp {
    WarpTrace piece = {};
    std::size_t op = 0;
    bool last_piece = false;
    bool at_barrier = false;
    int issued = 0;  // instructions issued of an operation that takes several turns
    WarpCursor cursor = {};
    int slot = 0;
    int index = 0;  // within its thread block
    int scheduler = 0;
    double time = 0;
    double mma_ready = 0;
    int waits_for = -1;  // a scoreboard with requests that the memory has not served yet
    std::array<double, kScoreboards> ready = {};
    std::array<std::int16_t, kScoreboards> pending = {};
  };
  struct Event {
    double time;
    int warp;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : warp > o.warp; }
  };
  /// A load that waits for the data of an earlier request.
  struct Follower {
    int group;
    std::uint32_t request;
    std::uint8_t warp, scoreboard;
  };

  /// The times of a memory instruction in the L1.
  struct Passage {
    double looked_up;  // its lines have been looked up
    double passed;     // its data would be delivered if all lines hit
  };

  void run(int warp, double end);
  bool step(int id, Warp& warp);
  bool perform(int id, Warp& warp, const WarpOp& op);
  bool is_watched(const Warp& warp) const {
    return slots_[static_cast<std::size_t>(warp.slot)].thread_block == watched_block_;
  }
  bool fetch(Warp& warp);
  // The state of a whole GPU does not fit into the caches of a core: the processor is told early
  // what it will need.
  static void prefetch_state(const Warp& warp) {
    __builtin_prefetch(&warp.piece);
    __builtin_prefetch(&warp.scheduler);
    __builtin_prefetch(&warp.ready);
  }
  static void prefetch_op(const Warp& warp) { __builtin_prefetch(warp.piece.ops.data() + warp.op); }
  void prefetch_lines(const Warp& warp, const WarpOp& op) const;
  /// Lines are rotated pseudo-randomly, so that equally distant ones spread over all sets, as over
  /// the few sets of many ways that Volta's L1 has (Jia et al., "Dissecting the NVIDIA Volta GPU
  /// Architecture via Microbenchmarking").
  std::int64_t l1_set(std::uint32_t line) const {
    const auto sets = static_cast<std::uint32_t>(l1_.sets());
    return (line + mix(line / sets)) % sets;
  }
  void finish(Warp& warp);
  void issue(Warp& warp, int instructions);
  void multiply(Warp& warp, int instructions);
  void begin_multiplying(Warp& warp, const WarpOp& op);
  void access_shared(Warp& warp, int wavefronts);
  void access_memory(int id, Warp& warp, const WarpOp& op);
  void read_line(int id, Warp& warp, const WarpOp& op, const LineTouch& touch, Passage passage);
  void write_line(const WarpOp& op, const LineTouch& touch, Passage passage);
  void request(Request request, int group, Passage passage);
  bool wait(Warp& warp, int scoreboard);
  void fence(Warp& warp);
  void meet(Warp& warp);
  void open_barrier(int slot);
  void push(double time, int warp);

  const Machine& machine_;
  std::span<const Launch* const> launches_;
  std::vector<SmShare> shares_;  // [launches] of a thread block
  Room room_;
  std::vector<Slot> slots_;
  std::deque<int> free_slots_, free_warps_;  // in the order they became free
  std::vector<Warp> warps_;
  std::vector<Event> events_;  // a heap, earliest first
  std::vector<Finished> finished_;

  std::array<double, 4> issue_free_ = {};
  std::array<double, 4> tensor_free_ = {};
  double load_free_ = 0;  // the lookup of lines in the L1
  double data_free_ = 0;  // the data path of L1 and shared memory to registers
  double port_free_ = 0;
  double now_ = 0;                                           // the start of the current operation
  double asked_ = -std::numeric_limits<double>::infinity();  // when the last request left
  double answered_ = 0;                                      // the latest answer so far
  double round_trip_ = 0;                                    // of recent reads

  SectoredCache l1_;
  std::array<std::vector<Request>, kGroups> requests_;
  std::vector<Follower> followers_;
  std::int64_t watched_block_ = -1;
  std::vector<OpSpan> watched_;
  SmCounts counts_;
};

}  // namespace tessera::simulator
