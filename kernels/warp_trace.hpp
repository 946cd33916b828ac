// What the warps of a launch do, instruction by instruction, without any values: the input of the
// performance simulator.
//
// A kernel describes a warp as a list of operations in program order: memory instructions with the
// bytes they touch, runs of other instructions, tensor-core and shared-memory work, barriers. As in
// the machine, a load raises a scoreboard and the warp goes on; it stops where it waits for that
// scoreboard. A warp is handed out piece by piece, so that a trace of any length takes no memory.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

constexpr int kScoreboards = 16;    // of a warp; one more than any kernel here has loads in flight
constexpr int kLineBytes = 128;     // of every cache here
constexpr int kSectorBytes = 32;    // a line has four
constexpr int kSectorsPerLine = 4;  // each fetched by itself

/// Of a set of a line's sectors, how many there are.
constexpr int count_sectors(unsigned sectors) {
  return static_cast<int>((0x4332322132212110ull >> (4 * (sectors & 15))) & 15);
}

/// Sectors of one line of the launch's address space.
struct LineTouch {
  std::uint32_t line;
  std::uint8_t sectors;  // bit s: bytes [32 s, 32 s + 32) of the line
};

struct WarpOp {
  enum class Kind : std::uint8_t {
    kIssue,      // `count` instructions that only take issue slots (integers, conversions, FMAs)
    kPause,      // `count` cycles that the warp waits for a result of its own that is not of memory
    kMma,        // `count` tensor-core instructions, independent of each other; each continues the
                 // accumulators of the kMma before it
    kShared,     // a shared-memory instruction of `count` wavefronts (1 without bank conflicts)
    kLoad,       // global memory to registers, or to shared memory as far as that goes through the
                 // L1 (cp.async of less than 16 bytes); raises `scoreboard`
    kAsyncCopy,  // global memory to shared memory past registers and L1; raises `scoreboard`
    kStore,      // registers to global memory by `count` instructions; nobody waits for it
    kAtomic,     // `count` additions in the L2, of all lanes; nobody waits for them
    kWait,       // until everything `scoreboard` was raised for is there
    kWaitMma,    // until the accumulators are
    kBarrier,    // of the thread block
  };
  Kind kind = Kind::kIssue;
  std::uint8_t scoreboard = 0;
  std::uint16_t count = 1;
  std::uint16_t wavefronts = 0;  // of the L1's data, where lanes do not take whole lines in order
  std::uint32_t first_line = 0;  // touched lines: [first_line, last_line) of WarpTrace::lines
  std::uint32_t last_line = 0;
};

/// A piece of a warp's operations. Reused: clear() keeps the memory.
class WarpTrace {
 public:
  std::vector<WarpOp> ops = {};
  std::vector<LineTouch> lines = {};

  void clear() {
    ops.clear();
    lines.clear();
  }

  void issue(int instructions) { add(WarpOp::Kind::kIssue, 0, instructions); }
  void pause(int cycles) { add(WarpOp::Kind::kPause, 0, cycles); }
  void mma(int instructions) { add(WarpOp::Kind::kMma, 0, instructions); }
  void shared(int wavefronts) { add(WarpOp::Kind::kShared, 0, wavefronts); }
  void wait(int scoreboard) { add(WarpOp::Kind::kWait, scoreboard, 1); }
  void wait_mma() { add(WarpOp::Kind::kWaitMma, 0, 1); }
  void barrier() { add(WarpOp::Kind::kBarrier, 0, 1); }

  /// One memory instruction of the warp. Its bytes follow in calls of touch().
  void load(int scoreboard) { add(WarpOp::Kind::kLoad, scoreboard, 1); }
  void async_copy(int scoreboard) { add(WarpOp::Kind::kAsyncCopy, scoreboard, 1); }
  /// `instructions` that store one part of the same sectors each; the L1 gathers them.
  void store(int instructions = 1) { add(WarpOp::Kind::kStore, 0, instructions); }
  void atomic(int additions) { add(WarpOp::Kind::kAtomic, 0, additions); }

  /// Of the last memory instruction. Eight lanes of 16 bytes take one wavefront, of 128 bytes, from
  /// one line; from four lines, as the fragments of an MMA lie, they take four.
  void wavefronts(int count) {
    assert(count > 0 && count < 0x10000);
    ops.back().wavefronts = static_cast<std::uint16_t>(count);
  }
  /// Sectors of the last memory instruction.
  int touched_sectors() const {
    int sectors = 0;
    for (std::uint32_t i = ops.back().first_line; i < ops.back().last_line; ++i)
      sectors += count_sectors(lines[i].sectors);
    return sectors;
  }

  /// The bytes [address, address + bytes) belong to the last memory instruction.
  void touch(std::uint64_t address, std::int64_t bytes) {
    assert(!ops.empty() && bytes > 0);
    const std::uint64_t first = address / kSectorBytes;
    const std::uint64_t last = (address + static_cast<std::uint64_t>(bytes) - 1) / kSectorBytes;
    for (std::uint64_t sector = first; sector <= last; ++sector) touch_sector(sector);
    ops.back().last_line = static_cast<std::uint32_t>(lines.size());
  }

 private:
  void add(WarpOp::Kind kind, int scoreboard, int count) {
    assert(count > 0 && count < 0x10000 && scoreboard >= 0 && scoreboard < kScoreboards);
    const auto here = static_cast<std::uint32_t>(lines.size());
    ops.push_back({.kind = kind,
                   .scoreboard = static_cast<std::uint8_t>(scoreboard),
                   .count = static_cast<std::uint16_t>(count),
                   .first_line = here,
                   .last_line = here});
  }

  void touch_sector(std::uint64_t sector) {
    const auto line = static_cast<std::uint32_t>(sector / kSectorsPerLine);
    const auto bit = static_cast<std::uint8_t>(1u << (sector % kSectorsPerLine));
    // Lanes come in any order, but near each other: a line is looked for from the last one back.
    for (std::size_t i = lines.size(); i > ops.back().first_line; --i) {
      if (lines[i - 1].line != line) continue;
      lines[i - 1].sectors |= bit;
      return;
    }
    lines.push_back({line, bit});
  }
};

/// How far a warp has come; what the numbers mean is the kernel's business. All zero at its start.
struct WarpCursor {
  std::int64_t step = 0;
  std::int64_t part = 0;
};

/// The warps of one launch. Refers to the packed matrix it was made from.
class LaunchTrace {
 public:
  virtual ~LaunchTrace() = default;

  /// Appends the next piece of the warp's operations (some tens of instructions) and moves the
  /// cursor on. False: this was the last piece. Called from several threads at once.
  virtual bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
                    WarpTrace& trace) const = 0;
};

/// Where the arrays of a launch lie: one after another, each from the start of a 2 MiB page on, as
/// separate allocations do.
class AddressSpace {
 public:
  struct Array {
    std::string name;
    std::uint64_t begin = 0;
    std::int64_t bytes = 0;
  };

  /// The address of its first byte.
  std::uint64_t add(std::string name, std::int64_t bytes) {
    const std::uint64_t begin = end_;
    arrays_.push_back({std::move(name), begin, bytes});
    end_ += (static_cast<std::uint64_t>(bytes) + kPage - 1) / kPage * kPage;
    return begin;
  }

  std::span<const Array> arrays() const { return arrays_; }
  std::uint64_t bytes() const { return end_; }

 private:
  static constexpr std::uint64_t kPage = 2 << 20;
  std::vector<Array> arrays_;
  std::uint64_t end_ = 0;
};

}  // namespace tessera
