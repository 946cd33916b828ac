// One thread block per row window, its warps next to each other in C, rows of B copied to shared
// memory asynchronously: DTC-SpMM's division of C (section 4.3) with Acc-SpMM's format, and a
// pipeline of four stages for each warp.
//
// Departures: any N, M and K; operands rounded to nearest; no balance between windows of different
// length, because the simulator is validated with an unbalanced kernel, too.

#include "kernels/spmm/row_windows/windows_spmm.hpp"

#include "formats/base/registry.hpp"
#include "kernels/spmm/row_windows/staged_tiles_trace.hpp"

namespace tessera {
namespace {

using namespace staged_tiles;

/// A warp multiplies its window's TC blocks one after another, in passes of 128 columns.
class WindowsTrace final : public StagedTrace {
 public:
  WindowsTrace(const BitTcf& a, std::int64_t n, const BitTcfAddresses& at)
      : StagedTrace(a, n, at, InstructionCounts::kStages) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t window = windows_spmm::window_of(static_cast<std::uint32_t>(thread_block));
    const Columns mine = columns(warp, cursor.part);
    if (mine.count == 0) {
      trace.issue(InstructionCounts::kIdle);
      return false;
    }
    const std::int64_t first = a_.row_window_offset[window],
                       last = a_.row_window_offset[window + 1];
    if (cursor.step == 0) begin(window, cursor.part, trace);
    if (cursor.step == 0 && first < last) start(first, last, mine, trace);
    const std::int64_t step = cursor.step++;
    if (first + step < last) advance(first, last, step, mine, trace);
    if (first + cursor.step < last) return true;
    trace.wait_mma();
    trace.issue(InstructionCounts::kStore - 2);
    store(window, mine.first, mine.count, 1, trace);
    cursor = {.step = 0, .part = cursor.part + 1};
    return columns(warp, cursor.part).count > 0;
  }

 private:
  /// Instructions of a warp, memory instructions included, counted in machine code for aligned
  /// operands (CUDA 13.0, sm_90a).
  struct InstructionCounts {
    static constexpr StageInstructionCounts kStages = {.start = 75,
                                                       .first_copy = {49, 39, 39},
                                                       .between_copies = 35,
                                                       .wait = 6,
                                                       .copy = 46,
                                                       .product = 74};
    static constexpr int kIdle = 11, kWarp = 15, kPass = 6, kStore = 58;
  };

  void begin(std::int64_t window, std::int64_t pass, WarpTrace& trace) const {
    if (pass == 0) {
      trace.issue(InstructionCounts::kWarp - 2);
      trace.pause(kSpecialRegisterCycles);
      load_extent(window, kExtentBoard, trace);
      trace.wait(kExtentBoard);
    }
    trace.issue(InstructionCounts::kPass);
  }
};

class WindowsSpmm final : public BitTcfKernel {
 public:
  WindowsSpmm() : BitTcfKernel(find_precision("tf32")) {}

  int version() const override { return 3; }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const auto& a = packed_as<BitTcf>(packed);
    WorkDescription work = describe("windows_spmm", a, n);
    const std::int64_t thread_blocks = windows_spmm::thread_blocks(a.num_row_windows());
    for (std::int64_t i = 0; i < thread_blocks; ++i) {
      const std::int64_t window = windows_spmm::window_of(static_cast<std::uint32_t>(i));
      ThreadBlockWork& block = work.thread_blocks.emplace_back();
      const std::int64_t first = a.row_window_offset[window],
                         last = a.row_window_offset[window + 1];
      if (first < last) add_staged_work(a, first, last, n, block);
      block.a_bytes += 8 * kWarps;  // the window's extent
      block.c_bytes = 4 * rows_of_window(a, window) * n;
    }
    const BitTcfAddresses at(a, n, work.memory);
    work.launches = {{.name = "multiply",
                      .thread_blocks = thread_blocks,
                      .threads_per_block = kThreads,
                      .registers_per_thread = kRegisters,
                      .shared_bytes = kSharedBytes,
                      .trace = std::make_shared<WindowsTrace>(a, n, at)}};
    return work;
  }
};

const Register<SpmmKernel> entry{{
    .name = "windows_spmm",
    .summary = "BitTCF, one thread block per row window, rows of B copied asynchronously (TF32)",
    .make = [](const Params&) { return std::make_unique<WindowsSpmm>(); },
}};

}  // namespace
}  // namespace tessera
