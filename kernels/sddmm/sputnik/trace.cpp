// The work of sputnik_sddmm: what its thread blocks do, and its warp trace.

#include <algorithm>
#include <memory>

#include "formats/base/check.hpp"
#include "kernels/sddmm/sputnik/sputnik_sddmm.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::sputnik_sddmm {
namespace {

/// Instructions of a warp besides memory instructions, counted in machine code (CUDA 13.0, sm_90a).
struct InstructionCounts {
  static constexpr int kStart = 50;    // until a subwarp knows its strip
  static constexpr int kTile = 20;     // of a tile of columns
  static constexpr int kNonzero = 13;  // of a nonzero in it: address, predicate, four products
  static constexpr int kReduce = 150;  // the shuffles of a strip
  static constexpr int kStore = 10;
};

struct Addresses {
  std::uint64_t rows, offsets, columns, factors, x, y, s;
};

/// A strip of a subwarp: nonzeros [first, last) of a row, perhaps none.
struct Strip {
  std::int32_t row;
  std::int64_t first, last;
};

/// A product: what work and trace need of it.
struct Product {
  Product(const CsrMatrix& matrix, const sddmm::SddmmOptions& chosen, std::int64_t width)
      : a(matrix),
        options(chosen),
        k(width),
        schedule(Schedule::of(matrix, width)),
        rows(swizzled_rows(matrix)) {}

  /// That of a subwarp of a thread block. Row groups are the grid's first dimension.
  Strip strip_of(std::int64_t thread_block, int subwarp) const {
    const std::int64_t index =
        thread_block % schedule.row_groups() * schedule.rows_per_block() + subwarp;
    if (index >= a.rows) return {0, 0, 0};
    const std::int32_t row = rows[index];
    const std::int64_t end = a.row_offsets[row + 1];
    const std::int64_t first =
        std::min(a.row_offsets[row] + thread_block / schedule.row_groups() * kStrip, end);
    return {row, first, std::min(first + kStrip, end)};
  }
  std::int64_t tiles() const {
    const std::int64_t cols = std::int64_t{schedule.lanes} * kLaneCols;
    return (k + cols - 1) / cols;
  }

  const CsrMatrix& a;
  sddmm::SddmmOptions options;
  std::int64_t k;
  Schedule schedule;
  std::vector<std::int32_t> rows;
};

ThreadBlockWork work_of(const Product& product, std::int64_t thread_block) {
  ThreadBlockWork work;
  for (int subwarp = 0; subwarp < product.schedule.rows_per_block(); ++subwarp) {
    const Strip strip = product.strip_of(thread_block, subwarp);
    const std::int64_t count = strip.last - strip.first;
    work.a_bytes += 4 + 16;  // the row and its offsets
    if (count == 0) continue;
    work.fma += count * product.tiles() * product.schedule.lanes * kLaneCols;
    work.a_bytes += (product.tiles() * 4 + (product.options.scales_by_a ? 4 : 0)) * count;
    work.b_bytes += 4 * product.k * (1 + count);
    work.c_bytes += 4 * count;
  }
  return work;
}

/// A step of the cursor is kUnroll nonzeros of the warp's strips, a part a tile of columns.
class Trace final : public LaunchTrace {
 public:
  Trace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), p_(*product_), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::vector<Strip> strips = strips_of(thread_block, warp);
    std::int64_t longest = 0;
    for (const Strip& strip : strips) longest = std::max(longest, strip.last - strip.first);
    if (cursor.step == 0 && cursor.part == 0) start(thread_block, warp, trace);
    if (longest == 0) return false;
    if (cursor.step == 0) load_x(strips, cursor.part, trace);
    const std::int64_t begin = cursor.step * kUnroll;
    multiply(strips, cursor.part, begin, std::min(begin + kUnroll, longest), trace);
    if (++cursor.step * kUnroll < longest) return true;
    cursor.step = 0;
    if (++cursor.part < p_.tiles()) return true;
    finish(strips, trace);
    return false;
  }

 private:
  static constexpr int kRowBoard = 0, kColumnBoard = 1, kXBoard = 2, kYBoard = 3;

  int subwarps() const { return 32 / p_.schedule.lanes; }

  std::vector<Strip> strips_of(std::int64_t thread_block, int warp) const {
    std::vector<Strip> strips;
    for (int i = 0; i < subwarps(); ++i)
      strips.push_back(p_.strip_of(thread_block, warp * subwarps() + i));
    return strips;
  }

  void start(std::int64_t thread_block, int warp, WarpTrace& trace) const {
    trace.pause(kSpecialRegisterCycles);
    const std::int64_t index =
        thread_block % p_.schedule.row_groups() * p_.schedule.rows_per_block() +
        std::int64_t{warp} * subwarps();
    const std::int64_t count = std::min<std::int64_t>(subwarps(), p_.a.rows - index);
    if (count > 0) {
      trace.load(kRowBoard);
      trace.touch(element(at_.rows, index, 4), 4 * count);
      trace.wait(kRowBoard);
      trace.load(kRowBoard);
      for (std::int64_t i = index; i < index + count; ++i)
        trace.touch(element(at_.offsets, p_.rows[i], 8), 16);
      trace.wait(kRowBoard);
    }
    trace.issue(InstructionCounts::kStart);
  }

  /// Calls visit(strip) for the strips that have nonzero `i`; a load of `board` comes before the
  /// first, and a predicated instruction is issued where there is none.
  template <class Visit>
  void for_strips(const std::vector<Strip>& strips, std::int64_t i, int board, WarpTrace& trace,
                  Visit visit) const {
    bool any = false;
    for (const Strip& strip : strips) {
      if (strip.first + i >= strip.last) continue;
      if (!any) trace.load(board);
      any = true;
      visit(strip);
    }
    if (!any) trace.issue(1);
    if (p_.k % kLaneCols != 0 && board != kColumnBoard) trace.issue(kLaneCols - 1);
  }

  void touch_columns(std::uint64_t array, std::int64_t row, std::int64_t tile,
                     WarpTrace& trace) const {
    const std::int64_t cols = std::int64_t{p_.schedule.lanes} * kLaneCols, first = tile * cols;
    trace.touch(element(array, row * p_.k + first, 4), 4 * std::min(cols, p_.k - first));
  }

  void load_x(const std::vector<Strip>& strips, std::int64_t tile, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kTile);
    for_strips(strips, 0, kXBoard, trace,
               [&](const Strip& strip) { touch_columns(at_.x, strip.row, tile, trace); });
  }

  void multiply(const std::vector<Strip>& strips, std::int64_t tile, std::int64_t begin,
                std::int64_t end, WarpTrace& trace) const {
    for (std::int64_t i = begin; i < end; ++i)
      for_strips(strips, i, kColumnBoard, trace, [&](const Strip& strip) {
        trace.touch(element(at_.columns, strip.first + i, 4), 4);
      });
    trace.wait(kColumnBoard);
    for (std::int64_t i = begin; i < end; ++i)
      for_strips(strips, i, kYBoard, trace, [&](const Strip& strip) {
        touch_columns(at_.y, p_.a.col_indices[strip.first + i], tile, trace);
      });
    if (begin == 0) trace.wait(kXBoard);
    trace.wait(kYBoard);
    trace.issue(InstructionCounts::kNonzero * kUnroll);
  }

  void finish(const std::vector<Strip>& strips, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kReduce);
    if (p_.options.scales_by_a) {
      for_strips(strips, 0, kColumnBoard, trace, [&](const Strip& strip) {
        trace.touch(element(at_.factors, strip.first, 4), 4 * (strip.last - strip.first));
      });
      trace.wait(kColumnBoard);
    }
    trace.issue(InstructionCounts::kStore);
    trace.store(kStrip / p_.schedule.lanes);
    for (const Strip& strip : strips)
      if (strip.first < strip.last)
        trace.touch(element(at_.s, strip.first, 4), 4 * (strip.last - strip.first));
  }

  std::shared_ptr<const Product> product_;
  const Product& p_;
  Addresses at_;
};

}  // namespace

WorkDescription describe_work(const CsrMatrix& a, const sddmm::SddmmOptions& options,
                              std::int64_t k) {
  const auto product = std::make_shared<const Product>(a, options, k);
  const std::int64_t blocks = product->schedule.thread_blocks();
  require<Unsupported>(blocks <= kMostDescribed,
                       "sputnik_sddmm has {} thread blocks for this matrix, most of them without "
                       "nonzeros; up to {} are described",
                       blocks, kMostDescribed);
  WorkDescription work{.kernel = "sputnik_sddmm"};
  const Addresses at{.rows = work.memory.add("rows", 4 * std::int64_t{a.rows}),
                     .offsets = work.memory.add("offsets", 8 * (std::int64_t{a.rows} + 1)),
                     .columns = work.memory.add("columns", 4 * a.nnz()),
                     .factors = work.memory.add("factors", options.scales_by_a ? 4 * a.nnz() : 0),
                     .x = work.memory.add("x", 4 * k * a.rows),
                     .y = work.memory.add("y", 4 * k * a.cols),
                     .s = work.memory.add("s", 4 * a.nnz())};
  for (std::int64_t block = 0; block < blocks; ++block)
    work.thread_blocks.push_back(work_of(*product, block));
  std::int64_t rows_of_x = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) rows_of_x += a.row_length(row) > 0 ? 1 : 0;
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = blocks,
                           .threads_per_block = kThreads,
                           .registers_per_thread = kRegisters,
                           .shared_bytes = 0,
                           .trace = std::make_shared<Trace>(product, at)});
  work.footprint_bytes =
      4 * a.rows + 8 * (std::int64_t{a.rows} + 1) + (options.scales_by_a ? 8 : 4) * a.nnz();
  work.b_rows_bytes = 4 * k * (rows_of_x + count_distinct(a.col_indices, a.cols));
  work.c_bytes = 4 * a.nnz();
  work.useful_flops = 2 * a.nnz() * k;
  return work;
}

}  // namespace tessera::sputnik_sddmm
