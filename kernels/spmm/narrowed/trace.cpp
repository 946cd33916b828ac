#include "kernels/spmm/narrowed/trace.hpp"

#include <algorithm>
#include <memory>

#include "formats/base/check.hpp"
#include "kernels/spmm/narrowed/schedule.hpp"

namespace tessera::narrowed {
namespace {

/// Instructions of a warp besides those of memory, counted in machine code (CUDA 13.0, sm_90a) for
/// an aligned B.
struct InstructionCounts {
  static constexpr int kStart = 114;           // before the first rows are loaded
  static constexpr int kSample = 176;          // from the sample's rows to the factors
  static constexpr int kStep = 10, kRow = 60;  // a step, and each of its rows, loaded and stored
  static constexpr int kEnd = 52;
  static constexpr int kIdle = 80;  // of a warp of a launch that ends at once
};

class NarrowTrace final : public LaunchTrace {
 public:
  NarrowTrace(std::int64_t k, std::int64_t n, const Grid& grid, std::uint64_t b,
              std::uint64_t halves, AddressSpace& memory)
      : k_(k),
        n_(n),
        grid_(grid),
        b_(b),
        halves_(halves),
        words_(memory.add("largest magnitudes of columns", 4 * n)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t col = thread_block / grid_.of_rows * kSegmentCols;
    const std::int64_t cols = std::min<std::int64_t>(kSegmentCols, n_ - col);
    const std::int64_t warps = grid_.of_rows * kWarps;
    const std::int64_t first = thread_block % grid_.of_rows * kWarps + warp;
    const auto rows_at = [&](std::int64_t step) { return first + step * kInFlight * warps; };
    const auto load = [&](std::int64_t row) {
      trace.load(kDataBoard);
      if (row < k_) trace.touch(element(b_, row * n_ + col, 4), 4 * cols);
    };
    const std::int64_t at = rows_at(cursor.step);
    if (cursor.step == 0) {
      trace.issue(InstructionCounts::kStart);
      trace.pause(kSpecialRegisterCycles);
    }
    for (int i = 0; i < kInFlight; ++i) load(at + i * warps);
    if (cursor.step == 0) take_sample(warp, load, trace);
    trace.wait(kDataBoard);
    trace.issue(InstructionCounts::kStep);
    for (int i = 0; i < kInFlight && at + i * warps < k_; ++i) {
      trace.issue(InstructionCounts::kRow);
      trace.store();
      trace.touch(element(halves_, (at + i * warps) * n_ + col, 2), 2 * cols);
    }
    if (rows_at(++cursor.step) < k_) return true;
    trace.shared(kLaneCols);
    trace.barrier();
    trace.atomic(1);
    trace.touch(element(words_, col, 4), 4 * cols);
    trace.issue(InstructionCounts::kEnd);
    trace.fence();
    trace.barrier();
    if (warp == 0) trace.exchange();
    trace.barrier();
    if (thread_block + 1 == grid_.thread_blocks()) trace.fence();
    return false;
  }

 private:
  static constexpr int kDataBoard = 0;

  template <class Load>
  void take_sample(int warp, const Load& load, WarpTrace& trace) const {
    for (int i = warp; i < kSampleRows; i += kWarps) load(sample_row(i, k_));
    trace.barrier();
    trace.wait(kDataBoard);
    trace.shared(kLaneCols);
    trace.barrier();
    trace.shared(1);
    trace.issue(InstructionCounts::kSample);
  }

  std::int64_t k_, n_;
  Grid grid_;
  std::uint64_t b_, halves_, words_;
};

class IdleTrace final : public LaunchTrace {
 public:
  bool next(std::int64_t, int, WarpCursor&, WarpTrace& trace) const override {
    trace.issue(InstructionCounts::kIdle);
    trace.pause(kSpecialRegisterCycles);
    return false;
  }
};

}  // namespace

Grid grid_of(std::int64_t k, std::int64_t n, std::int64_t sms) {
  const std::int64_t segments = (n + kSegmentCols - 1) / kSegmentCols;
  const std::int64_t needed = (k + kWarps * kInFlight - 1) / (kWarps * kInFlight);
  const std::int64_t resident = std::max<std::int64_t>(sms * kBlocksPerSm / segments, 1);
  return {std::clamp<std::int64_t>(needed, 1, resident), segments};
}

void add_launches(std::int64_t k, std::int64_t n, std::int64_t sms, WorkDescription& work) {
  const Grid grid = grid_of(k, n, sms);
  const auto halves = std::ranges::find(work.memory.arrays(), "b", &AddressSpace::Array::name);
  require(halves != work.memory.arrays().end(), "{} has no array b", work.kernel);
  const std::uint64_t to = halves->begin;
  const std::uint64_t b = work.memory.add("b in FP32", 4 * k * n);
  const std::int64_t idle = work.launches.front().thread_blocks;
  const std::int64_t of_block = (k + grid.of_rows - 1) / grid.of_rows;
  const std::int64_t cols = std::min<std::int64_t>(n, kSegmentCols);
  work.thread_blocks.insert(
      work.thread_blocks.begin(), static_cast<std::size_t>(grid.thread_blocks()),
      {.b_bytes = 4 * cols * (of_block + kSampleRows), .c_bytes = 0, .barriers = 4});
  work.launches.insert(work.launches.begin(),
                       {.name = "narrow B",
                        .thread_blocks = grid.thread_blocks(),
                        .threads_per_block = kThreads,
                        .registers_per_thread = kRegisters,
                        .shared_bytes = 2 * 4 * kSegmentCols + 1,
                        .trace = std::make_shared<NarrowTrace>(k, n, grid, b, to, work.memory)});
  for (std::size_t i = 1; i < work.launches.size(); ++i) work.launches[i].overlaps = true;
  work.thread_blocks.resize(work.thread_blocks.size() + static_cast<std::size_t>(idle));
  work.launches.push_back({.name = "multiply B as it is, where it is not narrowed",
                           .thread_blocks = idle,
                           .threads_per_block = work.launches[1].threads_per_block,
                           .registers_per_thread = work.launches[1].registers_per_thread,
                           .shared_bytes = work.launches[1].shared_bytes,
                           .overlaps = true,
                           .trace = std::make_shared<IdleTrace>()});
  work.b_rows_bytes *= 2;  // read in FP32
}

}  // namespace tessera::narrowed
