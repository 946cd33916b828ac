// Persistent thread blocks, each with an equal share of the stream of TC blocks: the loop of
// windows_spmm continues from one window to the next, and split windows are summed by atomics.
//
// The idea is that of merge-based SpMM (Merrill and Garland, SC 2016), which DTC-SpMM (section 4.5)
// and Acc-SpMM (section 3.5) apply to TC blocks where it pays; here shares are always equal.
// Departures: C is cleared by a launch of its own; a window that lies within one share is stored,
// not added.

#include "kernels/spmm/row_windows/shares_spmm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ranges>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/row_windows/staged_tiles_trace.hpp"

namespace tessera {

std::vector<shares_spmm::Share> shares_spmm::plan_shares(const BitTcf& a,
                                                         std::int64_t thread_blocks) {
  std::vector<Share> shares(static_cast<std::size_t>(thread_blocks));
  for (std::int64_t i = 0; i < thread_blocks; ++i) {
    const auto bound = [&](std::int64_t share) {
      return static_cast<std::uint32_t>(a.num_tc_blocks() * share / thread_blocks);
    };
    Share& share = shares[i];
    share.first = bound(i), share.last = bound(i + 1);
    if (share.first == share.last) continue;
    const auto after =
        std::upper_bound(a.row_window_offset.begin(), a.row_window_offset.end(), share.first);
    share.window = static_cast<std::uint32_t>(after - a.row_window_offset.begin() - 1);
    share.window_first = *(after - 1);
  }
  return shares;
}

namespace {

using namespace staged_tiles;
using shares_spmm::Share;

/// The TC blocks [first, last) of a window that lie in one share.
struct WindowPart {
  std::int64_t window, first, last;
  bool whole;
};

/// Calls visit(part) for every window of which the share has TC blocks.
template <class Visit>
void for_each_part(const BitTcf& a, const Share& share, Visit visit) {
  for (std::int64_t window = share.window, first = share.first; first < share.last; ++window) {
    const std::int64_t begin = a.row_window_offset[window], end = a.row_window_offset[window + 1];
    if (begin == end) continue;
    const std::int64_t last = std::min<std::int64_t>(end, share.last);
    visit(WindowPart{window, first, last, first == begin && last == end});
    first = last;
  }
}

/// An operand or the result of an atomic addition, which flushes subnormal numbers to zero (PTX
/// ISA, "red").
float flushed(float value) {
  return std::abs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value;
}

/// The result of red.global.add.f32.
float add_atomically(float sum, float value) {
  const float result = flushed(flushed(sum) + flushed(value));
  return std::isnan(result) ? std::bit_cast<float>(0x7fffffff) : result;
}

/// C as the first launch leaves it.
DenseMatrix cleared(const Scaling& scaling, const DenseMatrix& old_c) {
  DenseMatrix c(old_c.rows, old_c.cols);
  if (scaling.beta == 0) return c;
  for (std::size_t i = 0; i < c.values.size(); ++i)
    c.values[i] = scaled({.alpha = scaling.beta, .beta = 0}, old_c.values[i], nullptr);
  return c;
}

/// A warp of the first launch stores 128 bytes of zeros at a time.
class ClearTrace final : public LaunchTrace {
 public:
  ClearTrace(std::int64_t values, std::uint64_t c) : values_(values), c_(c) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    trace.issue(kOtherInstructions);
    for (int i = 0; i < shares_spmm::kClearStores; ++i) {
      const std::int64_t at = shares_spmm::cleared_value(static_cast<std::uint32_t>(thread_block),
                                                         i, static_cast<std::uint32_t>(32 * warp));
      if (at >= values_) {
        trace.issue(1);
        continue;
      }
      trace.store();
      trace.touch(c_ + 4 * static_cast<std::uint64_t>(at),
                  4 * std::min<std::int64_t>(32, values_ - at));
    }
    return false;
  }

 private:
  // Besides the stores, counted in machine code (CUDA 13.0, sm_90a).
  static constexpr int kOtherInstructions = 74;

  std::int64_t values_;
  std::uint64_t c_;
};

/// A warp of the second launch multiplies its share's TC blocks one after another, in passes of 128
/// columns, and writes rows of C at the end of every window.
class SharesTrace final : public StagedTrace {
 public:
  SharesTrace(const BitTcf& a, std::int64_t n, std::vector<Share> shares, const BitTcfAddresses& at,
              std::uint64_t shares_at)
      : StagedTrace(a, n, at, InstructionCounts::kStages),
        shares_(std::move(shares)),
        shares_at_(shares_at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const Share& share = shares_[thread_block];
    const Columns mine = columns(warp, cursor.part);
    const bool idle = share.first == share.last || mine.count == 0;
    if (cursor.step == 0 && cursor.part == 0)
      begin(thread_block, idle ? InstructionCounts::kIdle : InstructionCounts::kWarp, trace);
    if (idle) return false;
    if (cursor.step == 0) begin_pass(share, mine, trace);
    const std::int64_t tile = share.first + cursor.step;
    advance(share.first, share.last, cursor.step++, mine, trace);
    const std::int64_t window = window_of(tile);
    const bool last = tile + 1 == share.last;
    if (last || tile + 1 == a_.row_window_offset[window + 1])
      finish_window(share, window, last, mine, trace);
    if (!last) return true;
    trace.issue(InstructionCounts::kPass);
    cursor = {.step = 0, .part = cursor.part + 1};
    return columns(warp, cursor.part).count > 0;
  }

 private:
  /// Instructions of a warp, memory instructions included, counted in machine code for aligned
  /// operands (CUDA 13.0, sm_90a).
  struct InstructionCounts {
    static constexpr StageInstructionCounts kStages = {.start = 64,
                                                       .first_copy = {58, 58, 52},
                                                       .between_copies = 36,
                                                       .wait = 9,
                                                       .copy = 55,
                                                       .product = 99};
    static constexpr int kIdle = 15, kWarp = 21, kPass = 6;
    static constexpr int kFinishWindow = 51, kNextWindow = 14;
    static constexpr int kSkipWindow = 19;  // for every window, those without TC blocks, too
  };
  static constexpr int kShareBoard = kExtentBoard + 1, kNextBoard = kExtentBoard + 2;

  void begin(std::int64_t thread_block, int instructions, WarpTrace& trace) const {
    trace.pause(kSpecialRegisterCycles);
    trace.load(kShareBoard);
    trace.touch(shares_at_ + sizeof(Share) * static_cast<std::uint64_t>(thread_block),
                sizeof(Share));
    trace.wait(kShareBoard);
    trace.issue(instructions - 1);
  }

  void begin_pass(const Share& share, const Columns& mine, WarpTrace& trace) const {
    start(share.first, share.last, mine, trace);
    load_end(share.window, kExtentBoard, trace);
    load_end(share.window + 1, kNextBoard, trace);
    trace.wait(kExtentBoard);
  }

  /// Loads the end of a window.
  void load_end(std::int64_t window, int board, WarpTrace& trace) const {
    trace.load(board);
    trace.touch(at_.row_window_offset + 4 * std::min(window + 1, a_.num_row_windows()), 4);
  }

  std::int64_t window_of(std::int64_t tile) const {
    return std::upper_bound(a_.row_window_offset.begin(), a_.row_window_offset.end(), tile) -
           a_.row_window_offset.begin() - 1;
  }

  void finish_window(const Share& share, std::int64_t window, bool last, const Columns& mine,
                     WarpTrace& trace) const {
    trace.wait_mma();
    trace.issue(InstructionCounts::kFinishWindow - 2);
    if (a_.row_window_offset[window] >= share.first &&
        a_.row_window_offset[window + 1] <= share.last)
      store(window, mine.first, mine.count, 1, trace);
    else
      add(window, mine.first, mine.count, trace);
    if (last) return;
    // The next window that is not empty; the end of the one after it is loaded meanwhile.
    do {
      trace.wait(kNextBoard);
      trace.issue(InstructionCounts::kSkipWindow - 1);
      load_end(++window + 1, kNextBoard, trace);
    } while (a_.row_window_offset[window] == a_.row_window_offset[window + 1]);
    trace.issue(InstructionCounts::kNextWindow);
  }

  std::vector<Share> shares_;
  std::uint64_t shares_at_;
};

class SharesSpmm final : public BitTcfKernel {
 public:
  explicit SharesSpmm(std::int64_t thread_blocks)
      : BitTcfKernel(find_precision("tf32")), thread_blocks_(thread_blocks) {}

  int version() const override { return 3; }

  Arithmetic arithmetic() const override {
    Arithmetic arithmetic = BitTcfKernel::arithmetic();
    arithmetic.adds_in_memory = true;
    return arithmetic;
  }

  /// Counts an addition of parts as one more MMA, which has the larger error.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& a = packed_as<BitTcf>(packed);
    auto terms = BitTcfKernel::terms_per_row(packed);
    for_each_split(a, [&](const WindowPart& part) {
      for (std::int64_t r = 0; r < rows_of_window(a, part.window); ++r)
        ++terms[part.window * BitTcf::kTileRows + r];
    });
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const DenseMatrix not_read(packed.rows(), b.cols);
    return std::move(emulate_scaled(packed, b, generation, {}, not_read).front());
  }

  /// A beta C is rounded by the first launch, and the two sums of a split window after alpha.
  std::vector<DenseMatrix> emulate_scaled(const PackedMatrix& packed, const DenseMatrix& b,
                                          const Generation& generation, const Scaling& scaling,
                                          const DenseMatrix& old_c) const override;

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override;

 private:
  /// Calls visit(part) for every part of a split window.
  template <class Visit>
  void for_each_split(const BitTcf& a, Visit visit) const {
    for (const Share& share : shares_spmm::plan_shares(a, thread_blocks_))
      for_each_part(a, share, [&](const WindowPart& part) {
        if (!part.whole) visit(part);
      });
  }

  std::int64_t thread_blocks_;
};

std::vector<DenseMatrix> SharesSpmm::emulate_scaled(const PackedMatrix& packed,
                                                    const DenseMatrix& b,
                                                    const Generation& generation,
                                                    const Scaling& scaling,
                                                    const DenseMatrix& old_c) const {
  const auto& a = packed_as<BitTcf>(packed);
  require(old_c.rows == a.rows() && old_c.cols == b.cols, "A B is {} x {}, but C is {} x {}",
          a.rows(), b.cols, old_c.rows, old_c.cols);
  std::vector<WindowPart> parts;
  std::vector<int> parts_of(static_cast<std::size_t>(a.num_row_windows()), 0);
  for_each_split(a, [&](const WindowPart& part) {
    parts.push_back(part);
    ++parts_of[part.window];
  });
  for (std::size_t w = 0; w < parts_of.size(); ++w)
    require<Unsupported>(parts_of[w] <= 2,
                         "shares_spmm adds the {} parts of row window {} in no fixed order: the "
                         "sum is reproducible for one or two parts only",
                         parts_of[w], w);

  const DenseMatrix product = BitTcfKernel::emulate(packed, b, generation);
  const Scaling of_whole{scaling.alpha, scaling.beta == 0 ? 0.0f : 1.0f};
  DenseMatrix c = cleared(scaling, old_c);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t window = row / BitTcf::kTileRows;
    if (parts_of[window] > 0 || a.row_window_offset[window] == a.row_window_offset[window + 1])
      continue;
    const auto to = c.row(row);
    const auto sums = product.row(row);
    for (std::size_t j = 0; j < to.size(); ++j) to[j] = scaled(of_whole, sums[j], &to[j]);
  }

  const FusedStep& step = generation.step(MmaType::kTf32);
  const PreparedB prepared(b, precision());
  WindowEmulation emulation(a, precision(), step, prepared);
  std::vector<float> sums(static_cast<std::size_t>(b.cols));
  const auto add = [&](const WindowPart& part, DenseMatrix& to) {
    for (int r = 0; r < rows_of_window(a, part.window); ++r) {
      const auto row = to.row(part.window * BitTcf::kTileRows + r);
      std::ranges::fill(sums, 0.0f);
      emulation.run_row(r, part.first, part.last, sums);
      for (std::size_t j = 0; j < sums.size(); ++j)
        row[j] = add_atomically(row[j], scaling.alpha * sums[j]);
    }
  };
  std::vector<DenseMatrix> results{std::move(c)};
  // Two sums give the same in either order, unless there is a third number below them.
  if (scaling.beta != 0 && !parts.empty()) {
    results.push_back(results.front());
    for (const WindowPart& part : std::views::reverse(parts)) add(part, results.back());
  }
  for (const WindowPart& part : parts) add(part, results.front());
  return results;
}

WorkDescription SharesSpmm::work(const PackedMatrix& packed, std::int64_t n) const {
  using namespace shares_spmm;
  const auto& a = packed_as<BitTcf>(packed);
  WorkDescription work = describe("shares_spmm", a, n);
  const std::int64_t values = a.rows() * n;
  const std::int64_t clearings = clear_thread_blocks(values);
  for (std::int64_t i = 0; i < clearings; ++i)
    work.thread_blocks.push_back(
        {.c_bytes =
             4 * std::min<std::int64_t>(
                     kClearValues, values - cleared_value(static_cast<std::uint32_t>(i), 0, 0))});

  std::vector<Share> shares = plan_shares(a, thread_blocks_);
  for (const Share& share : shares) {
    ThreadBlockWork block = {.a_bytes = std::int64_t{sizeof(Share)} * kWarps};
    if (share.first < share.last) add_staged_work(a, share.first, share.last, n, block);
    for_each_part(a, share, [&](const WindowPart& part) {
      const std::int64_t sums = rows_of_window(a, part.window) * n;
      block.a_bytes += 4 * window_tile::num_col_chunks(n);  // the window's end
      (part.whole ? block.c_bytes : block.atomics) += (part.whole ? 4 : 1) * sums;
    });
    work.thread_blocks.push_back(block);
  }

  const BitTcfAddresses at(a, n, work.memory);
  const std::uint64_t shares_at =
      work.memory.add("shares", static_cast<std::int64_t>(shares.size() * sizeof(Share)));
  work.launches = {
      {.name = "clear",
       .thread_blocks = clearings,
       .threads_per_block = kClearThreads,
       .registers_per_thread = 24,  // allocated for a thread
       .trace = std::make_shared<ClearTrace>(values, at.c)},
      {.name = "multiply",
       .thread_blocks = thread_blocks_,
       .threads_per_block = kThreads,
       .registers_per_thread = kRegisters,
       .shared_bytes = kSharedBytes,
       .trace = std::make_shared<SharesTrace>(a, n, std::move(shares), at, shares_at)}};
  return work;
}

const Register<SpmmKernel> entry{{
    .name = "shares_spmm",
    .summary = "BitTCF, persistent thread blocks with equal shares of TC blocks, atomics (TF32)",
    .params = {{.name = "thread_blocks",
                .fallback = shares_spmm::kThreadBlocks,
                .help = "number of thread blocks, and of equal shares of the TC blocks",
                .min = 1,
                .max = 1 << 20}},
    .make =
        [](const Params& params) {
          return std::make_unique<SharesSpmm>(params.integer("thread_blocks"));
        },
}};

}  // namespace
}  // namespace tessera
