#include "model/simulator/multiprocessor.hpp"

#include <algorithm>
#include <cassert>
#include <functional>

namespace tessera::simulator {
namespace {

/// Slots for the thread blocks of launches, and warps that they have at most.
struct Slots {
  int slots, warps;
};
Slots slots_for(const Machine& machine, std::span<const Launch* const> launches) {
  if (launches.size() > 1)
    return {static_cast<int>(machine.limits.thread_blocks), static_cast<int>(machine.limits.warps)};
  const int resident = occupancy(machine, *launches.front()).thread_blocks;
  return {resident, resident * ((launches.front()->threads_per_block + 31) / 32)};
}

/// The sets of the L1 beside the shared memory of the resident thread blocks, for which the
/// hardware reserves one of a few sizes; of the launch that takes most.
std::int64_t l1_sets(const Machine& machine, std::span<const Launch* const> launches) {
  const double kib = 1024;
  double wanted = 0;
  for (const Launch* launch : launches)
    wanted = std::max(wanted,
                      static_cast<double>(occupancy(machine, *launch).thread_blocks *
                                          (launch->shared_bytes + machine.limits.reserved_shared)) /
                          kib);
  double carveout = static_cast<double>(machine.limits.shared_bytes) / kib;
  for (const double size : {0.0, 32.0, 64.0, 100.0, 132.0, 164.0, 196.0, 228.0}) {
    if (size < wanted) continue;
    carveout = std::min(carveout, size);
    break;
  }
  const double bytes = static_cast<double>(machine.l1_bytes) - carveout * kib;
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(bytes) / (kLineBytes * SectoredCache::kWays), 1);
}

/// Occupies a resource, which is free from `free` on, for `busy` cycles on behalf of a warp that
/// requests it at `now` and needs it at `time`; the time between stays available to others.
double occupy(double& free, double now, double time, double busy) {
  free = std::max(free, now);
  const double start = std::max(time, free);
  free += busy;
  return start;
}

/// The time when a lane can use the data of a request.
double done_at(const Request& request) { return request.done + double{request.lag}; }

/// Schedulers alternate between their warps; a turn ends after this number of instructions.
constexpr int kTurn = 16;

/// Reads over which the round trip to the memory is averaged.
constexpr double kRecentReads = 64;

constexpr std::uint32_t kGroupShift = 27;  // a request's group and index in one word

}  // namespace

Multiprocessor::Multiprocessor(const Machine& machine, std::span<const Launch* const> launches)
    : machine_(machine),
      launches_(launches),
      room_(machine.limits),
      l1_(l1_sets(machine, launches)) {
  for (const Launch* launch : launches) shares_.push_back(share_of(machine.limits, *launch));
  const Slots most = slots_for(machine, launches);
  slots_.resize(static_cast<std::size_t>(most.slots));
  warps_.resize(static_cast<std::size_t>(most.warps));
  for (int slot = 0; slot < most.slots; ++slot) free_slots_.push_back(slot);
  for (int warp = 0; warp < most.warps; ++warp) free_warps_.push_back(warp);
}

void Multiprocessor::push(double time, int warp) {
  events_.push_back({time, warp});
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void Multiprocessor::place(std::size_t launch, std::int64_t thread_block, std::int64_t number,
                           double start) {
  const int slot = free_slots_.front();
  free_slots_.pop_front();
  room_.take(shares_[launch]);
  const auto warps = static_cast<int>(shares_[launch].warps);
  Slot& taken = slots_[static_cast<std::size_t>(slot)];
  taken = {.launch = launch,
           .thread_block = thread_block,
           .number = number,
           .start = start,
           .warps = warps};
  for (int w = 0; w < warps; ++w) {
    const int id = free_warps_.front();
    free_warps_.pop_front();
    taken.all_warps.push_back(id);
    Warp& warp = warps_[static_cast<std::size_t>(id)];
    warp.piece.clear();
    warp.op = 0;
    warp.last_piece = false;
    warp.at_barrier = false;
    warp.issued = 0;
    warp.cursor = {};
    warp.slot = slot;
    warp.index = w;
    // Rotated from thread block to thread block: where only some warps of a thread block have work,
    // a fixed assignment would give all of it to one scheduler.
    warp.scheduler = (slot + w) % machine_.schedulers;
    warp.time = start;
    warp.mma_ready = start;
    warp.waits_for = -1;
    warp.ready.fill(0);
    assert(std::ranges::all_of(warp.pending, [](int p) { return p == 0; }));
    push(start, id);
  }
}

void Multiprocessor::advance(double end) {
  for (const Event& event : events_)
    if (event.time < end) prefetch_state(warps_[static_cast<std::size_t>(event.warp)]);
  while (!events_.empty() && events_.front().time < end) {
    const int warp = events_.front().warp;
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    events_.pop_back();
    if (!events_.empty()) prefetch_op(warps_[static_cast<std::size_t>(events_.front().warp)]);
    run(warp, end);
  }
}

/// Runs the warp until it waits, ends, or another one has an earlier time.
void Multiprocessor::run(int id, double end) {
  Warp& warp = warps_[static_cast<std::size_t>(id)];
  while (step(id, warp)) {
    const double next = events_.empty() ? end : std::min(end, events_.front().time);
    if (warp.time <= next && warp.time < end) continue;
    push(warp.time, id);
    return;
  }
}

/// Makes the next operation available; false when the warp has ended.
bool Multiprocessor::fetch(Warp& warp) {
  while (warp.op == warp.piece.ops.size()) {
    if (warp.last_piece) return false;
    warp.piece.clear();
    warp.op = 0;
    const Slot& slot = slots_[static_cast<std::size_t>(warp.slot)];
    warp.last_piece = !launches_[slot.launch]->trace->next(slot.thread_block, warp.index,
                                                           warp.cursor, warp.piece);
    for (const LineTouch& touch : warp.piece.lines) l1_.prefetch_set(l1_set(touch.line));
  }
  return true;
}

/// Has the processor fetch what the L1 knows of the lines of this operation and of those after it.
void Multiprocessor::prefetch_lines(const Warp& warp, const WarpOp& op) const {
  constexpr std::size_t kAhead = 4;
  const std::size_t end = std::min(warp.piece.lines.size(), op.last_line + kAhead);
  for (std::size_t i = op.first_line; i < end; ++i)
    l1_.prefetch_line(l1_set(warp.piece.lines[i].line), warp.piece.lines[i].line);
}

/// Runs one operation; false when the warp waits for another event or has ended.
bool Multiprocessor::step(int id, Warp& warp) {
  if (!fetch(warp)) {
    finish(warp);
    return false;
  }
  const WarpOp op = warp.piece.ops[warp.op];
  const double start = warp.time;
  now_ = warp.time;
  const bool goes_on = perform(id, warp, op);
  const bool is_load = op.kind == WarpOp::Kind::kLoad || op.kind == WarpOp::Kind::kAsyncCopy;
  if (is_watched(warp) && goes_on && !is_load)
    watched_.push_back({warp.index, op.kind, start, warp.time});
  return goes_on;
}

bool Multiprocessor::perform(int id, Warp& warp, const WarpOp& op) {
  using enum WarpOp::Kind;
  switch (op.kind) {
    case kIssue: {
      const int count = std::min(op.count - warp.issued, kTurn);
      issue(warp, count);
      warp.issued += count;
      if (warp.issued < op.count) return true;
      warp.issued = 0;
      break;
    }
    case kPause:
      warp.time += op.count;
      break;
    case kFence:
      fence(warp);
      break;
    case kExchange:
      warp.time += machine_.exchange_latency + std::max(0.0, round_trip_ - machine_.l2_latency);
      break;
    case kMma:
      multiply(warp, op.count);
      break;
    case kAsyncMma:
      begin_multiplying(warp, op);
      break;
    case kShared:
      access_shared(warp, op.count);
      break;
    case kLoad:
    case kAsyncCopy:
    case kStore:
    case kAtomic:
      access_memory(id, warp, op);
      break;
    case kWait:
      if (!wait(warp, op.scoreboard)) return false;
      break;
    case kWaitMma:
      counts_.wait_tensor += std::max(0.0, warp.mma_ready - warp.time);
      warp.time = std::max(warp.time, warp.mma_ready);
      break;
    case kBarrier:
      ++warp.op;
      meet(warp);
      return false;
  }
  ++warp.op;
  return true;
}

/// The warp waits until the memory has answered all that its SM has asked for, not only what the
/// warp has: beside warps that read, a fence takes an H200 as much longer as these reads take. What
/// is not answered yet takes at least the L2's latency.
void Multiprocessor::fence(Warp& warp) {
  const double answered = std::max(answered_, asked_ + machine_.l2_latency);
  warp.time = std::max(warp.time, answered) + machine_.fence_latency;
  l1_.forget();
}

void Multiprocessor::finish(Warp& warp) {
  Slot& slot = slots_[static_cast<std::size_t>(warp.slot)];
  counts_.warp_cycles += warp.time - slot.start;
  slot.end = std::max(slot.end, warp.time);
  if (--slot.warps > 0) {
    if (slot.arrived == slot.warps) open_barrier(warp.slot);
    return;
  }
  finished_.push_back({slot.number, slot.start, slot.end, slot.instructions});
  counts_.active_cycles = std::max(counts_.active_cycles, slot.end);
  room_.give(shares_[slot.launch], slot.end);
  free_slots_.push_back(warp.slot);
  free_warps_.insert(free_warps_.end(), slot.all_warps.begin(), slot.all_warps.end());
}

void Multiprocessor::issue(Warp& warp, int instructions) {
  double& free = issue_free_[static_cast<std::size_t>(warp.scheduler)];
  const double start = std::max(warp.time, free);
  const double busy = instructions * machine_.issue_interval;
  free = start + busy;
  // The turns of other warps are longer than one instruction but do not delay it.
  const double end = instructions == 1 ? std::min(free, warp.time + kTurn) : free;
  const double alone = warp.time + instructions * machine_.instruction_latency;
  counts_.wait_issue += std::max(0.0, end - alone);
  warp.time = std::max(end, alone);
  counts_.instructions += instructions;
  slots_[static_cast<std::size_t>(warp.slot)].instructions += instructions;
  counts_.issue_busy += busy;
}

void Multiprocessor::multiply(Warp& warp, int instructions) {
  double& free = tensor_free_[static_cast<std::size_t>(warp.scheduler)];
  const double start = std::max({warp.time, free, warp.mma_ready});
  counts_.wait_tensor += start - warp.time;
  const double busy = instructions * machine_.mma_interval;
  free = start + busy;
  // Each instruction continues the accumulators of one of the previous group, so the first result
  // decides when the next group may begin.
  warp.mma_ready = start + machine_.mma_latency;
  warp.time = start;
  counts_.tensor_busy += busy;
  counts_.mma += instructions;
  issue(warp, instructions);
}

/// The warp goes on, and waits for the sums at the next kWaitMma.
void Multiprocessor::begin_multiplying(Warp& warp, const WarpOp& op) {
  const double now = warp.time;
  issue(warp, op.count);
  double& free = tensor_free_[static_cast<std::size_t>(warp.scheduler)];
  const double start = std::max({warp.time, free, warp.mma_ready});
  const double reading = op.wavefronts * machine_.shared_interval;
  const double read = occupy(data_free_, now, start, reading) + reading;
  const double busy = op.count * machine_.mma_interval;
  free = start + busy;
  warp.mma_ready = std::max({free, read, start + machine_.mma_latency});
  counts_.tensor_busy += busy;
  counts_.load_busy += reading;
  counts_.mma += op.count;
}

void Multiprocessor::access_shared(Warp& warp, int wavefronts) {
  const double now = warp.time;
  issue(warp, 1);
  const double busy = wavefronts * machine_.shared_interval;
  const double start = occupy(data_free_, now, warp.time, busy);
  counts_.wait_load_unit += start - warp.time;
  counts_.load_busy += busy;
  warp.time = start + busy + machine_.shared_latency;
}

void Multiprocessor::request(Request request, int group, Passage passage) {
  const int sectors = count_sectors(request.sectors);
  const double busy = sectors * machine_.miss_sector_interval;
  request.time = occupy(port_free_, now_, passage.looked_up, busy);
  // Data returns in the order and at the distances of the requests, so the data stage is as far
  // behind when they return as it was when they left.
  request.lag = static_cast<float>(std::max(0.0, passage.passed - request.time));
  counts_.port_busy += busy;
  asked_ = std::max(asked_, request.time);
  requests_[static_cast<std::size_t>(group)].push_back(request);
}

void Multiprocessor::read_line(int id, Warp& warp, const WarpOp& op, const LineTouch& touch,
                               Passage passage) {
  const auto sectors = count_sectors(touch.sectors);
  Request miss{.line = touch.line,
               .place = 0xffffffff,
               .kind = op.kind == WarpOp::Kind::kLoad ? Request::Kind::kRead : Request::Kind::kCopy,
               .sectors = touch.sectors,
               .warp = static_cast<std::uint8_t>(id),
               .scoreboard = op.scoreboard};
  const int group = home_of(touch.line, machine_.partitions).group();
  counts_.load_sectors += sectors;
  if (op.kind == WarpOp::Kind::kLoad) {
    const std::int64_t set = l1_set(touch.line);
    std::int64_t place = l1_.find(set, touch.line);
    if (place < 0) {
      std::uint32_t out = 0;
      SectoredCache::Line out_line;
      place = l1_.replace(set, touch.line, out, out_line);
    }
    SectoredCache::Line& line = l1_.line(place);
    miss.sectors = static_cast<std::uint8_t>(touch.sectors & ~line.valid);
    counts_.load_hits += sectors - count_sectors(miss.sectors);
    if (miss.sectors != touch.sectors) {
      double& ready = warp.ready[op.scoreboard];
      ready = std::max(
          {ready, passage.looked_up + machine_.l1_latency, passage.passed, double{line.ready}});
      if (const std::uint32_t asked = line.asked; asked != 0) {
        followers_.push_back({static_cast<int>(asked >> kGroupShift),
                              (asked & ((1u << kGroupShift) - 1)) - 1,
                              static_cast<std::uint8_t>(id), op.scoreboard});
        ++warp.pending[op.scoreboard];
      }
    }
    if (miss.sectors == 0) return;
    line.valid |= miss.sectors;
    miss.place = static_cast<std::uint32_t>(place);
    line.asked = (static_cast<std::uint32_t>(group) << kGroupShift) |
                 static_cast<std::uint32_t>(requests_[static_cast<std::size_t>(group)].size() + 1);
  }
  ++warp.pending[op.scoreboard];
  request(miss, group, passage);
  if (touch.split == 0) return;
  // The other halves of sectors that an asynchronous copy separates are requested separately.
  miss.sectors = touch.split;
  ++warp.pending[op.scoreboard];
  request(miss, group, passage);
}

void Multiprocessor::write_line(const WarpOp& op, const LineTouch& touch, Passage passage) {
  const int sectors = count_sectors(touch.sectors);
  const bool atomic = op.kind == WarpOp::Kind::kAtomic;
  if (!atomic) {
    counts_.store_sectors += sectors * op.count;
    counts_.store_hits += sectors * (op.count - 1);
  }
  request({.line = touch.line,
           .place = 0xffffffff,
           .kind = atomic ? Request::Kind::kAtomic : Request::Kind::kWrite,
           .sectors = touch.sectors},
          home_of(touch.line, machine_.partitions).group(), passage);
}

void Multiprocessor::access_memory(int id, Warp& warp, const WarpOp& op) {
  const int instructions = op.kind == WarpOp::Kind::kStore ? op.count : 1;
  const double now = warp.time;
  issue(warp, instructions);
  int sectors = 0;
  for (std::uint32_t i = op.first_line; i < op.last_line; ++i)
    sectors += count_sectors(warp.piece.lines[i].sectors);
  prefetch_lines(warp, op);
  const double lookup =
      instructions * std::max(machine_.load_interval, sectors * machine_.sector_interval);
  const double busy = std::max(lookup, op.wavefronts * machine_.shared_interval);
  const double start = occupy(load_free_, now, warp.time, lookup);
  counts_.wait_load_unit += start - warp.time;
  counts_.load_busy += busy;
  warp.time = start;
  Passage passage{.looked_up = start + lookup, .passed = 0};
  passage.passed = occupy(data_free_, now, start, busy) + busy;
  const bool reads = op.kind == WarpOp::Kind::kLoad || op.kind == WarpOp::Kind::kAsyncCopy;
  if (reads) ++counts_.load_requests;
  for (std::uint32_t i = op.first_line; i < op.last_line; ++i) {
    const LineTouch touch = warp.piece.lines[i];
    if (reads)
      read_line(id, warp, op, touch, passage);
    else
      write_line(op, touch, passage);
  }
}

/// Waits for a scoreboard; false when the warp sleeps until answer().
bool Multiprocessor::wait(Warp& warp, int scoreboard) {
  if (warp.pending[static_cast<std::size_t>(scoreboard)] > 0) {
    warp.waits_for = scoreboard;
    return false;
  }
  const double ready = warp.ready[static_cast<std::size_t>(scoreboard)];
  counts_.wait_memory += std::max(0.0, ready - warp.time);
  warp.time = std::max(warp.time, ready);
  return true;
}

/// The warp arrives at the barrier, where warps sleep until the last one has arrived.
void Multiprocessor::meet(Warp& warp) {
  issue(warp, 1);
  Slot& slot = slots_[static_cast<std::size_t>(warp.slot)];
  slot.barrier = slot.arrived == 0 ? warp.time : std::max(slot.barrier, warp.time);
  warp.at_barrier = true;
  if (++slot.arrived == slot.warps) open_barrier(warp.slot);
}

void Multiprocessor::open_barrier(int slot_index) {
  Slot& slot = slots_[static_cast<std::size_t>(slot_index)];
  slot.arrived = 0;
  const double go = slot.barrier + machine_.barrier_latency;
  for (const int id : slot.all_warps) {
    Warp& sleeper = warps_[static_cast<std::size_t>(id)];
    if (!sleeper.at_barrier) continue;
    sleeper.at_barrier = false;
    counts_.wait_barrier += go - sleeper.time;
    if (is_watched(sleeper))
      watched_.push_back({sleeper.index, WarpOp::Kind::kBarrier, sleeper.time, go});
    sleeper.time = go;
    push(go, id);
  }
}

void Multiprocessor::answer() {
  const auto deliver = [&](int id, int scoreboard, double done) {
    Warp& warp = warps_[static_cast<std::size_t>(id)];
    double& ready = warp.ready[static_cast<std::size_t>(scoreboard)];
    ready = std::max(ready, done);
    if (--warp.pending[static_cast<std::size_t>(scoreboard)] > 0 || warp.waits_for != scoreboard)
      return;
    warp.waits_for = -1;
    push(std::max(warp.time, ready), id);
  };
  for (const Follower& follower : followers_)
    deliver(follower.warp, follower.scoreboard,
            done_at(requests_[static_cast<std::size_t>(follower.group)][follower.request]));
  followers_.clear();
  for (auto& requests : requests_) {
    for (const Request& request : requests) {
      if (request.kind != Request::Kind::kRead && request.kind != Request::Kind::kCopy) continue;
      answered_ = std::max(answered_, done_at(request));
      round_trip_ += (request.done - request.time - round_trip_) / kRecentReads;
      if (request.place != 0xffffffff && l1_.tag(request.place) == request.line) {
        SectoredCache::Line& line = l1_.line(request.place);
        line.ready = std::max(line.ready, static_cast<float>(done_at(request)));
        line.asked = 0;
      }
      deliver(request.warp, request.scoreboard, done_at(request));
      const Warp& warp = warps_[request.warp];
      if (is_watched(warp))
        watched_.push_back(
            {warp.index,
             request.kind == Request::Kind::kCopy ? WarpOp::Kind::kAsyncCopy : WarpOp::Kind::kLoad,
             request.time, done_at(request)});
    }
    requests.clear();
  }
}

}  // namespace tessera::simulator
