// The work of rows_sddmm: what its thread blocks do, and its warp trace.

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/sddmm/rows/rows_sddmm.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::rows_sddmm {
namespace {

constexpr int kIndexBytes = 8;  // the row and the column of a nonzero

/// Instructions of a warp besides memory instructions, counted in machine code (CUDA 13.0, sm_90a).
struct InstructionCounts {
  static constexpr int kStart = 60;  // until the first indices
  static constexpr int kUnit = 40;   // of a nonzero: indices, addresses, changed rows
  static constexpr int kChunk = 60;  // the same of a chunk of one, and clearing the chunk before
  static constexpr int kWord = 1;    // the product of a word of a lane; more for two of 16 bits:
  static constexpr int kPair = 6;
  static constexpr int kSum = 16;  // the tree of lanes and the store
};

struct Addresses {
  std::uint64_t rows, cols, factors, x, y, s;
};

/// A product: what work and trace need of it.
struct Product {
  Product(const Coo& matrix, const RowsSddmmOptions& chosen, std::int64_t k)
      : a(matrix),
        options(chosen),
        schedule(chosen.schedule(matrix.nnz(), k)),
        row_bytes(k * chosen.bytes()) {}

  /// The first nonzero of a group, counted over all thread blocks.
  std::int64_t first_of(std::int64_t group) const {
    return std::min(group * schedule.run, a.nnz());
  }
  int ahead() const { return nonzeros_in_flight(schedule.vectors); }
  /// True when the registers into which the row of X of nonzero `i` of that group is loaded hold
  /// another row. In chunks every one is loaded.
  bool loads_x(std::int64_t first, std::int64_t i) const {
    return schedule.chunks > 1 || i < ahead() ||
           a.row_indices[first + i] != a.row_indices[first + i - ahead()];
  }

  const Coo& a;
  RowsSddmmOptions options;
  Schedule schedule;
  std::int64_t row_bytes;  // of X and Y
};

ThreadBlockWork work_of(const Product& product, std::int64_t block) {
  ThreadBlockWork work;
  const Schedule& schedule = product.schedule;
  for (std::int64_t group = block * kGroups; group < (block + 1) * kGroups; ++group) {
    const std::int64_t first = product.first_of(group), count = product.first_of(group + 1) - first;
    std::int64_t rows = count;
    for (std::int64_t i = 0; i < count; ++i) rows += product.loads_x(first, i) ? 1 : 0;
    work.fma += count * schedule.all_vectors() * kTurnBytes / product.options.bytes();
    work.a_bytes += count * (schedule.chunks * kIndexBytes + (product.options.scales_by_a ? 4 : 0));
    work.b_bytes += rows * product.row_bytes;
    work.c_bytes += count * product.options.result_bytes();
  }
  return work;
}

/// A step of the cursor is a chunk of a nonzero of each of the warp's groups.
class Trace final : public LaunchTrace {
 public:
  Trace(std::shared_ptr<const Product> product, const Addresses& at)
      : product_(std::move(product)), p_(*product_), at_(at) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const std::int64_t group = thread_block * kGroups + warp * kGroupsPerWarp;
    const std::int64_t units = p_.schedule.run * p_.schedule.chunks;
    if (cursor.step == 0) {
      trace.pause(kSpecialRegisterCycles);
      trace.issue(InstructionCounts::kStart);
      load_indices(group, 0, trace);
      for (int i = 0; i < p_.ahead(); ++i) load(group, i, trace);
    }
    const std::int64_t unit = cursor.step++;
    trace.wait(board_of(unit));
    const bool half = p_.options.storage.b != ElementType::kFp32;
    trace.issue(4 * p_.schedule.vectors *
                (half ? InstructionCounts::kPair : InstructionCounts::kWord));
    load(group, unit + p_.ahead(), trace);
    if (cursor.step % p_.schedule.chunks == 0) finish(group, unit / p_.schedule.chunks, trace);
    return cursor.step < units;
  }

 private:
  static constexpr int kIndexBoard = 0, kFactorBoard = 1, kFirstRowBoard = 2;

  int board_of(std::int64_t unit) const {
    return kFirstRowBoard + static_cast<int>(unit % p_.ahead());
  }

  /// Calls visit(nonzero, index in its group's run) for those of the warp's groups that have it.
  template <class Visit>
  void for_nonzeros(std::int64_t group, std::int64_t i, Visit visit) const {
    for (std::int64_t g = group; g < group + kGroupsPerWarp; ++g)
      if (p_.first_of(g) + i < p_.first_of(g + 1)) visit(p_.first_of(g) + i, i);
  }

  /// A load of `bytes` bytes of an array at each group's nonzero, or a predicated-off instruction.
  void load_each(std::int64_t group, std::int64_t i, std::uint64_t array, int board,
                 WarpTrace& trace) const {
    bool any = false;
    for_nonzeros(group, i, [&](std::int64_t nonzero, std::int64_t) {
      if (!any) trace.load(board);
      any = true;
      trace.touch(element(array, nonzero, 4), 4);
    });
    if (!any) trace.issue(1);
  }
  void load_indices(std::int64_t group, std::int64_t unit, WarpTrace& trace) const {
    for (const std::uint64_t array : {at_.rows, at_.cols})
      load_each(group, unit / p_.schedule.chunks, array, kIndexBoard, trace);
  }

  /// Loads rows of Y, and of X where they change, and the indices of the unit after.
  void load(std::int64_t group, std::int64_t unit, WarpTrace& trace) const {
    trace.wait(kIndexBoard);
    load_indices(group, unit + 1, trace);
    trace.issue(p_.schedule.chunks > 1 ? InstructionCounts::kChunk : InstructionCounts::kUnit);
    for (int v = 0; v < p_.schedule.vectors; ++v)
      for (const bool of_x : {false, true}) load_vector(group, unit, v, of_x, trace);
  }
  void load_vector(std::int64_t group, std::int64_t unit, int v, bool of_x,
                   WarpTrace& trace) const {
    const std::int64_t offset =
        unit % p_.schedule.chunks * p_.schedule.chunk_bytes() + std::int64_t{v} * kTurnBytes;
    const std::int64_t bytes = std::min<std::int64_t>(p_.row_bytes - offset, kTurnBytes);
    bool any = false;
    for_nonzeros(group, unit / p_.schedule.chunks, [&](std::int64_t nonzero, std::int64_t i) {
      if (bytes <= 0 || (of_x && !p_.loads_x(nonzero - i, i))) return;
      if (!any) trace.load(board_of(unit));
      any = true;
      const std::int64_t row = of_x ? p_.a.row_indices[nonzero] : p_.a.col_indices[nonzero];
      trace.touch((of_x ? at_.x : at_.y) + static_cast<std::uint64_t>(row * p_.row_bytes + offset),
                  bytes);
    });
    if (!any) trace.issue(1);
    if (p_.row_bytes % kVectorBytes != 0) trace.issue(kVectorBytes / p_.options.bytes() - 1);
  }

  void finish(std::int64_t group, std::int64_t i, WarpTrace& trace) const {
    trace.issue(InstructionCounts::kSum);
    if (p_.options.scales_by_a) {
      load_each(group, i, at_.factors, kFactorBoard, trace);
      trace.wait(kFactorBoard);
    }
    bool any = false;
    for_nonzeros(group, i, [&](std::int64_t nonzero, std::int64_t) {
      if (!any) trace.store();
      any = true;
      trace.touch(element(at_.s, nonzero, p_.options.result_bytes()), p_.options.result_bytes());
    });
  }

  std::shared_ptr<const Product> product_;
  const Product& p_;
  Addresses at_;
};

}  // namespace

WorkDescription describe_work(const Coo& a, const RowsSddmmOptions& options, std::int64_t k) {
  const auto product = std::make_shared<const Product>(a, options, k);
  WorkDescription work{.kernel = "rows_sddmm"};
  const Addresses at{.rows = work.memory.add("rows", 4 * a.nnz()),
                     .cols = work.memory.add("cols", 4 * a.nnz()),
                     .factors = work.memory.add("factors", options.scales_by_a ? 4 * a.nnz() : 0),
                     .x = work.memory.add("x", product->row_bytes * a.rows()),
                     .y = work.memory.add("y", product->row_bytes * a.cols()),
                     .s = work.memory.add("s", options.result_bytes() * a.nnz())};
  const std::int64_t blocks = product->schedule.thread_blocks(a.nnz());
  for (std::int64_t block = 0; block < blocks; ++block)
    work.thread_blocks.push_back(work_of(*product, block));
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = blocks,
                           .threads_per_block = kThreads,
                           .registers_per_thread = 65536 / (kThreads * kResident),
                           .shared_bytes = 0,
                           .trace = std::make_shared<Trace>(product, at)});
  work.footprint_bytes = (kIndexBytes + (options.scales_by_a ? 4 : 0)) * a.nnz();
  work.b_rows_bytes = product->row_bytes * (count_distinct(a.row_indices, a.rows()) +
                                            count_distinct(a.col_indices, a.cols()));
  work.c_bytes = options.result_bytes() * a.nnz();
  work.useful_flops = 2 * a.nnz() * k;
  return work;
}

}  // namespace tessera::rows_sddmm
