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

/// Cycles until a warp has read its thread's and thread block's indices, which every kernel does
/// first.
constexpr int kSpecialRegisterCycles = 60;

/// The address of element `at` of an array of elements of `bytes` bytes.
constexpr std::uint64_t element(std::uint64_t array, std::int64_t at, int bytes) {
  return array + static_cast<std::uint64_t>(at * bytes);
}

/// The number of sectors in a set of a line's sectors.
constexpr int count_sectors(unsigned sectors) {
  return static_cast<int>((0x4332322132212110ull >> (4 * (sectors & 15))) & 15);
}

/// Sectors of one line of the launch's address space.
struct LineTouch {
  std::uint32_t line;
  std::uint8_t sectors;    // bit s: bytes [32 s, 32 s + 32) of the line
  std::uint8_t split = 0;  // of them, those whose halves a copy takes apart: see copy_to_shared()
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

  /// One memory instruction of the warp. Its bytes follow in calls of touch(), those of an
  /// asynchronous copy in calls of copy_to_shared().
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
    assert(!ops.empty() && ops.back().kind != WarpOp::Kind::kAsyncCopy && bytes > 0);
    const std::uint64_t last = (address + static_cast<std::uint64_t>(bytes) - 1) / kSectorBytes;
    for (std::uint64_t sector = address / kSectorBytes; sector <= last; ++sector)
      line_of(sector).sectors |= bit_of(sector);
    ops.back().last_line = static_cast<std::uint32_t>(lines.size());
  }

  /// The last memory instruction, an asynchronous copy by 16 bytes, takes these bytes to `place` in
  /// shared memory. A sector whose halves come to lie in different 32 bytes there is read twice:
  /// measured on an H200 for rows of 512 bytes, 1.00 times their sectors and 8.2 TB/s where rows
  /// begin at multiples of 32 bytes, 1.50 times and 5.7 TB/s where every second one does not.
  void copy_to_shared(std::uint64_t address, std::int64_t bytes, std::uint64_t place) {
    constexpr std::uint64_t kHalf = kSectorBytes / 2;
    assert(!ops.empty() && ops.back().kind == WarpOp::Kind::kAsyncCopy && bytes > 0);
    assert(address % kHalf == 0 && place % kHalf == 0);
    const bool turned = (address ^ place) % kSectorBytes != 0;
    const std::uint64_t end = address + static_cast<std::uint64_t>(bytes);
    for (std::uint64_t sector = address / kSectorBytes; sector * kSectorBytes < end; ++sector) {
      LineTouch& line = line_of(sector);
      const std::uint8_t bit = bit_of(sector);
      const bool both = sector * kSectorBytes >= address && sector * kSectorBytes + kHalf < end;
      // One that is there already had its other half taken to another row of shared memory.
      if ((turned && both) || (line.sectors & bit) != 0) line.split |= bit;
      line.sectors |= bit;
    }
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

  static std::uint8_t bit_of(std::uint64_t sector) {
    return static_cast<std::uint8_t>(1u << (sector % kSectorsPerLine));
  }

  /// The last memory instruction's line with that sector, found or made.
  LineTouch& line_of(std::uint64_t sector) {
    const auto line = static_cast<std::uint32_t>(sector / kSectorsPerLine);
    // Lanes come in any order, but near each other: a line is looked for from the last one back.
    for (std::size_t i = lines.size(); i > ops.back().first_line; --i)
      if (lines[i - 1].line == line) return lines[i - 1];
    return lines.emplace_back(LineTouch{.line = line, .sectors = 0});
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
