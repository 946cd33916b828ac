// The instructions of a launch's warps, without values: the input of the performance simulator.
//
// A kernel describes a warp as a list of operations in program order: memory instructions with the
// bytes that they touch, sequences of other instructions, tensor-core and shared-memory work,
// barriers. As on a GPU, a load raises a scoreboard and the warp continues until it waits for that
// scoreboard. The trace of a warp is produced in chunks, so that a long trace takes little memory.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

constexpr int kScoreboards = 16;  // per warp; one more than any kernel here has loads in flight
constexpr int kLineBytes = 128;   // a line of every cache here
constexpr int kSectorBytes = 32;  // a sector, which is fetched separately
constexpr int kSectorsPerLine = 4;

/// Cycles until a warp has read its thread's and thread block's indices, which every kernel does
/// first.
constexpr int kSpecialRegisterCycles = 60;

/// Cycles until an instruction has loaded a constant to a register (LDC), as from shared memory.
constexpr int kConstantCycles = 30;

/// Cycles that a warp waits for asynchronous copies to have read their addresses. The machine code
/// computes the next ones in the same registers: it waits three times for eight copies. Fitted to
/// the times of four kernels on pubmed and dlmc-tf-mag0.7-ffn2 at N = 128.
constexpr int address_cycles(int copies) { return 35 * (3 * copies / 8); }

/// The address of element `at` of the array at address `array`, whose elements have `bytes` bytes.
constexpr std::uint64_t element(std::uint64_t array, std::int64_t at, int bytes) {
  return array + static_cast<std::uint64_t>(at * bytes);
}

/// The number of sectors in `sectors`, a bit per sector of a line.
constexpr int count_sectors(unsigned sectors) {
  return static_cast<int>((0x4332322132212110ull >> (4 * (sectors & 15))) & 15);
}

/// The touched sectors of one line of the launch's address space.
struct LineTouch {
  std::uint32_t line;
  std::uint8_t sectors;    // bit s: bytes [32 s, 32 s + 32) of the line
  std::uint8_t split = 0;  // those sectors whose halves a copy separates: see copy_to_shared()
};

struct WarpOp {
  enum class Kind : std::uint8_t {
    kIssue,      // `count` instructions that only take issue slots (integers, conversions, FMAs)
    kPause,      // `count` cycles in which the warp waits for a result other than a load's
    kMma,        // `count` tensor-core instructions, independent of each other; each continues the
                 // accumulators of the kMma before it
    kAsyncMma,   // `count` of them (wgmma), each of which continues the accumulators of the one
                 // before it, while the warp goes on; they read `wavefronts` of shared memory
    kShared,     // a shared-memory instruction of `count` wavefronts (1 without bank conflicts)
    kLoad,       // global memory to registers, or through the L1 to shared memory (cp.async of less
                 // than 16 bytes); raises `scoreboard`
    kAsyncCopy,  // global to shared memory, bypassing registers and L1; raises `scoreboard`
    kStore,      // registers to global memory by `count` instructions; no warp waits for it
    kAtomic,     // `count` additions in the L2, of all lanes; no warp waits for them
    kExchange,   // an addition in the L2 of which the warp waits for the result
    kFence,      // waits until all SMs see the warp's stores, and empties the SM's L1
    kWait,       // waits until all data of `scoreboard` has arrived
    kWaitMma,    // waits until the accumulators are complete
    kBarrier,    // barrier of the thread block
  };
  Kind kind = Kind::kIssue;
  std::uint8_t scoreboard = 0;
  std::uint16_t count = 1;
  std::uint16_t wavefronts = 0;  // of the L1's data; 0 where lanes access whole lines in order, and
                                 // for MMAs without an operand in shared memory
  std::uint32_t first_line = 0;  // touched lines: [first_line, last_line) of WarpTrace::lines
  std::uint32_t last_line = 0;
};

/// The instructions that a warp executes for an operation. Those of a fence and of an addition
/// whose result is waited for are counted with the pieces around them.
constexpr int instructions_of(const WarpOp& op) {
  switch (op.kind) {
    case WarpOp::Kind::kIssue:
    case WarpOp::Kind::kMma:
    case WarpOp::Kind::kAsyncMma:
    case WarpOp::Kind::kStore:
      return op.count;
    case WarpOp::Kind::kShared:
    case WarpOp::Kind::kLoad:
    case WarpOp::Kind::kAsyncCopy:
    case WarpOp::Kind::kAtomic:
    case WarpOp::Kind::kBarrier:
      return 1;
    case WarpOp::Kind::kExchange:
    case WarpOp::Kind::kFence:
    case WarpOp::Kind::kPause:
    case WarpOp::Kind::kWait:
    case WarpOp::Kind::kWaitMma:
      return 0;
  }
  return 0;
}

/// A chunk of a warp's operations. clear() keeps the memory for the next chunk.
class WarpTrace {
 public:
  std::vector<WarpOp> ops = {};
  std::vector<LineTouch> lines = {};

  void clear() {
    ops.clear();
    lines.clear();
  }

  void issue(int instructions) { add(WarpOp::Kind::kIssue, 0, instructions); }
  /// Completes a piece of machine code of `length` instructions that began with operation `first`:
  /// adds the instructions that the operations from there on lack.
  void complete(std::size_t first, int length) {
    for (std::size_t i = first; i < ops.size(); ++i) length -= instructions_of(ops[i]);
    if (length > 0) issue(length);
  }
  void pause(int cycles) { add(WarpOp::Kind::kPause, 0, cycles); }
  void mma(int instructions) { add(WarpOp::Kind::kMma, 0, instructions); }
  /// Adds a warp's part of `instructions` wgmma, and of the wavefronts of their operands in shared
  /// memory.
  void async_mma(int instructions, int wavefronts) {
    assert(wavefronts >= 0 && wavefronts < 0x10000);
    add(WarpOp::Kind::kAsyncMma, 0, instructions);
    ops.back().wavefronts = static_cast<std::uint16_t>(wavefronts);
  }
  void shared(int wavefronts) { add(WarpOp::Kind::kShared, 0, wavefronts); }
  void wait(int scoreboard) { add(WarpOp::Kind::kWait, scoreboard, 1); }
  void wait_mma() { add(WarpOp::Kind::kWaitMma, 0, 1); }
  void barrier() { add(WarpOp::Kind::kBarrier, 0, 1); }
  void fence() { add(WarpOp::Kind::kFence, 0, 1); }
  void exchange() { add(WarpOp::Kind::kExchange, 0, 1); }
  /// Counts a part of a row as complete after its sums were stored, and asks whether it was the
  /// last one, which then fences before it reads the sums of the others.
  void arrive(bool is_last) {
    fence();
    exchange();
    if (is_last) fence();
  }

  /// Adds a memory instruction of the warp. Calls of touch() add its bytes, for an asynchronous
  /// copy calls of copy_to_shared().
  void load(int scoreboard) { add(WarpOp::Kind::kLoad, scoreboard, 1); }
  void async_copy(int scoreboard) { add(WarpOp::Kind::kAsyncCopy, scoreboard, 1); }
  /// Adds `instructions` stores of different parts of the same sectors, which the L1 combines.
  void store(int instructions = 1) { add(WarpOp::Kind::kStore, 0, instructions); }
  void atomic(int additions) { add(WarpOp::Kind::kAtomic, 0, additions); }

  /// Sets the wavefronts of the last memory instruction. Eight lanes of 16 bytes take one wavefront
  /// of 128 bytes from one line, and four wavefronts from four lines, as for an MMA's fragments.
  void wavefronts(int count) {
    assert(count > 0 && count < 0x10000);
    ops.back().wavefronts = static_cast<std::uint16_t>(count);
  }
  /// The number of sectors of the last memory instruction.
  int touched_sectors() const {
    int sectors = 0;
    for (std::uint32_t i = ops.back().first_line; i < ops.back().last_line; ++i)
      sectors += count_sectors(lines[i].sectors);
    return sectors;
  }

  /// Adds the bytes [address, address + bytes) to the last memory instruction.
  void touch(std::uint64_t address, std::int64_t bytes) {
    assert(!ops.empty() && ops.back().kind != WarpOp::Kind::kAsyncCopy && bytes > 0);
    const std::uint64_t last = (address + static_cast<std::uint64_t>(bytes) - 1) / kSectorBytes;
    for (std::uint64_t sector = address / kSectorBytes; sector <= last; ++sector)
      line_of(sector).sectors |= bit_of(sector);
    ops.back().last_line = static_cast<std::uint32_t>(lines.size());
  }

  /// Adds to the last memory instruction, an asynchronous copy by 16 bytes, the copy of these bytes
  /// to `place` in shared memory. A sector whose halves fall into different 32 bytes there is read
  /// twice: measured on an H200 for rows of 512 bytes, 1.00 times their sectors and 8.2 TB/s where
  /// rows begin at multiples of 32 bytes, 1.50 times and 5.7 TB/s where every second one does not.
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
      // The other half of a sector that is present was copied to another row of shared memory.
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

  /// The last memory instruction's line with that sector, added if absent.
  LineTouch& line_of(std::uint64_t sector) {
    const auto line = static_cast<std::uint32_t>(sector / kSectorsPerLine);
    // Lanes may be in any order, but neighbours share lines: the search runs from the last line
    // back.
    for (std::size_t i = lines.size(); i > ops.back().first_line; --i)
      if (lines[i - 1].line == line) return lines[i - 1];
    return lines.emplace_back(LineTouch{.line = line, .sectors = 0});
  }
};

/// The position of a warp in its trace, zero at the start; a kernel defines what the numbers mean.
struct WarpCursor {
  std::int64_t step = 0;
  std::int64_t part = 0;
};

/// The warps of one launch. It refers to the packed matrix from which it was made.
class LaunchTrace {
 public:
  virtual ~LaunchTrace() = default;

  /// Appends the next chunk of the warp's operations (some tens of instructions) and advances the
  /// cursor; false when this was the last chunk. Several threads may call it at once.
  virtual bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
                    WarpTrace& trace) const = 0;
};

/// The addresses of a launch's arrays: one after another, each at the start of a 2 MiB page, as
/// separate allocations are.
class AddressSpace {
 public:
  struct Array {
    std::string name;
    std::uint64_t begin = 0;
    std::int64_t bytes = 0;
  };

  /// Adds an array and returns the address of its first byte.
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
