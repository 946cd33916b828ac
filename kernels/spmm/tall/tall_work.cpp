#include "kernels/spmm/tall/tall_work.hpp"

#include <algorithm>
#include <utility>

#include "kernels/spmm/tall/trace.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::tall_spmm {
namespace {

constexpr int kRegisters = 168;     // of a thread (CUDA 13.0, sm_90a)
constexpr int kNonzeroBytes = 4;    // an element of 16 bits and its place in an expanded tile
constexpr int kWideRegisters = 32;  // allocated for those 27 or 28 that the kernel takes
constexpr int kTaskBarriers = 2;    // before a thread block's first tile

/// Adds a tile to its thread block, for `cols` columns of B and C.
void add_turn(const TallTiles& a, const TileExtent& tile, const Plan& plan, const Turn& turn,
              const Storage& storage, std::int64_t cols, ThreadBlockWork& work) {
  work.mma += kWarps * tile.steps();
  work.a_bytes +=
      std::int64_t{sizeof(Turn)} + std::int64_t{sizeof(TileRecord)} + kNonzeroBytes * tile.nonzeros;
  work.b_bytes += static_cast<std::int64_t>(bytes_of(storage.b)) * tile.columns * cols;
  work.barriers += kWarps;
  if (!turn.is_last()) return;
  const std::int64_t rows =
      std::min<std::int64_t>(kWindowRows, a.rows() - std::int64_t{turn.window} * kWindowRows);
  // The last part of a split window stores it.
  if (turn.split == 0 || turn.part() + 1 == plan.tasks.splits[turn.split - 1].parts)
    work.c_bytes += static_cast<std::int64_t>(bytes_of(storage.c)) * rows * cols;
}

void add_footprints(const TallTiles& a, std::int64_t n, const Storage& storage,
                    WorkDescription& work) {
  work.footprint_bytes = stats(a).bytes;
  work.b_rows_bytes =
      static_cast<std::int64_t>(bytes_of(storage.b)) * n * count_distinct(a.tile_cols, a.cols());
  work.c_bytes = static_cast<std::int64_t>(bytes_of(storage.c)) * n * a.rows();
  work.useful_flops = 2 * a.nnz() * n;
}

}  // namespace

WorkDescription describe(const TallTiles& a, std::int64_t n, const TallSpmmOptions& options) {
  const Storage storage = options.storage();
  Plan plan = options.plan(a.window_offset, n);
  std::vector<TileExtent> extents = extents_of(a);
  const std::int64_t chunks = chunks_of(n);
  WorkDescription work{.kernel = "tall_spmm",
                       .mma_type = "fp16",  // BF16 has the same rate
                       .mma_shape = "m64n128k16",
                       // A warp's part of the instruction.
                       .flops_per_mma = 2 * kWarpRows * kCols * kStepDepth};
  for (std::int64_t worker = 0; worker < plan.workers(); ++worker) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t cols = std::min<std::int64_t>(kCols, n - chunk * kCols);
      ThreadBlockWork& thread_block =
          work.thread_blocks.emplace_back(ThreadBlockWork{.barriers = kWarps * kTaskBarriers});
      for (std::uint32_t i = plan.first_turn[worker]; i < plan.first_turn[worker + 1]; ++i)
        add_turn(a, extents[plan.turns[i].tile], plan, plan.turns[i], storage, cols, thread_block);
    }
  }
  work.launches.push_back(
      {.name = "multiply",
       .thread_blocks = std::ssize(work.thread_blocks),
       .threads_per_block = kThreads,
       .registers_per_thread = kRegisters,
       .shared_bytes = kSharedBytes,
       .overlaps = true,
       .trace = make_trace(a, std::move(extents), n, storage, std::move(plan), work.memory)});
  add_footprints(a, n, storage, work);
  return work;
}

WorkDescription describe_wide(const TallTiles& a, std::int64_t n) {
  WorkDescription work{.kernel = "tall_spmm"};
  const CsrMatrix csr = a.unpack();
  constexpr std::int64_t kNonzero = sizeof(float) + sizeof(std::int32_t) + sizeof(std::uint16_t);
  work.thread_blocks.resize(static_cast<std::size_t>(wide_blocks(a.rows(), n)));
  for (std::int64_t item = 0; item < wide_items(a.rows(), n); ++item) {
    const std::int64_t cols = std::min<std::int64_t>(kCols, n - item / a.rows() * kCols);
    const std::int64_t length = csr.row_length(item % a.rows());
    ThreadBlockWork& thread_block =
        work.thread_blocks[item / kWideRows % std::ssize(work.thread_blocks)];
    thread_block.fma += length * cols;
    thread_block.a_bytes += kNonzero * length;
    thread_block.b_bytes += std::int64_t{sizeof(float)} * length * cols;
    thread_block.c_bytes += std::int64_t{sizeof(float)} * cols;
  }
  work.launches.push_back({.name = "multiply",
                           .thread_blocks = std::ssize(work.thread_blocks),
                           .threads_per_block = kWideThreads,
                           .registers_per_thread = kWideRegisters});
  add_footprints(a, n, {}, work);
  return work;
}

}  // namespace tessera::tall_spmm
