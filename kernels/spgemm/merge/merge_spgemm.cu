// The device half of merge_spgemm. See kernels/spgemm/merge/merge_spgemm.cpp.
//
// Level 0 merges rows of B. Each further level merges the pieces of those rows of A that had more
// inputs than a group has lanes. A row of C is made at the level where its inputs are few enough.
// The pieces of a level stay in memory until C is complete, as counting and multiplying both read
// them. With few products from a pool, one pass merges into room for every product, and the rows
// are then moved together. The host waits for the bins of level 0 with the number of products, and
// once per further level. It waits for C's nonzeros only where there are too many products to
// allocate a nonzero for each.

#include "kernels/spgemm/merge/merge_spgemm.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "formats/base/registry.hpp"
#include "kernels/device/side_streams.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/merge/analysis.cuh"
#include "kernels/spgemm/merge/merges.cuh"

namespace tessera {
namespace {

using namespace merge_spgemm;
using row_bins::blocks_for;

/// Up to this many products, C is allocated with room for each, which saves a wait and an
/// allocation.
constexpr std::int64_t kMostProducts = 2 * spgemm::kMostProductsOfRoom;

/// Up to this many products, rows are merged once. Their room and C take 32 MiB at most, which an
/// L2 of 50 MB holds. On an H200, 1.2 million products take 0.84 of the time of two merges, and 8.4
/// million take 1.5 times as long.
constexpr std::int64_t kMostProductsOfOneMerge = 2 << 20;

/// Makes long rows the rows of the next level, and counts their pieces [count + 1], with 0 at the
/// end.
__global__ void count_pieces(int count, const int* places, const std::int64_t* begins,
                             const int* rows, int most_rows, int* next_rows, int* pieces) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i == count) pieces[i] = 0;
  if (i >= count) return;
  const int place = places[i];
  next_rows[i] = rows == nullptr ? place : rows[place];
  pieces[i] = pieces_of(begins[place + 1] - begins[place], most_rows);
}

/// Lists the pieces of long rows, by a warp per row, and sets the 0 after the lengths of pieces.
__global__ void list_pieces(int count, const int* places, const std::int64_t* begins,
                            const std::int64_t* next_begins, int most_rows,
                            std::int64_t* piece_begins, std::int64_t* piece_ends, int* lengths) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= count) return;
  if (i == 0 && threadIdx.x == 0) lengths[next_begins[count]] = 0;
  const std::int64_t end = begins[places[i] + 1];
  std::int64_t begin = begins[places[i]] + threadIdx.x % 32 * most_rows;
  for (std::int64_t piece = next_begins[i] + threadIdx.x % 32; piece < next_begins[i + 1];
       piece += 32, begin += 32 * most_rows) {
    piece_begins[piece] = begin;
    piece_ends[piece] = min(begin + most_rows, end);
  }
}

/// A level: rows of C, each with a range of inputs to merge.
class Level {
 public:
  using Counts = row_bins::Counts<kBins>;

  /// Level 0: all rows of A, with rows of B as inputs. The bins of A's rows are chosen, but not yet
  /// listed. Writes the lengths of empty rows of C.
  Level(const DeviceCsr& a, const DeviceCsr& b, int most_rows, const Bins& bins,
        const Counts& counts, int* lengths, ProductRun& run)
      : run_(run),
        most_rows_(most_rows),
        begins_(a.row_offsets.data()),
        inputs_{b.row_offsets.data(), b.col_indices.data(), b.values.data(), a.col_indices.data(),
                a.values.data()},
        bins_(bins) {
    list_rows(counts, ListedBinOf{{begins_, most_rows_}, a.rows, lengths});
  }

  /// The level of the long rows of `before`, at least one, whose pieces are merged here.
  Level(const Level& before, ReadBack<Counts>& counts, ReadBack<std::int64_t>& nonzeros)
      : run_(before.run_), most_rows_(before.most_rows_) {
    Pieces pieces(before, block_);
    rows_ = pieces.rows;
    begins_ = pieces.begins;
    bins_ = pieces.bins;
    inputs_ = {pieces.offsets, nullptr, nullptr, nullptr, nullptr};
    const cudaStream_t stream = run_.stream();
    pieces.list(before, stream);
    bins_.choose(BinOf{begins_, most_rows_}, stream);
    counts.request(bins_.counts(), stream);
    pieces.merge<Pass::kCount>(before, {.lengths = pieces.lengths}, stream);
    spgemm::running_sum(pieces.scratch, pieces.lengths, pieces.offsets, pieces.count + 1, stream);
    nonzeros.request(pieces.offsets + pieces.count, stream);
    list_rows(counts.wait(stream), BinOf{begins_, most_rows_});
    allocate(*nonzeros);
    pieces.merge<Pass::kMultiply>(
        before, {.offsets = pieces.offsets, .cols = cols_, .values = values_}, stream);
  }

  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  int long_rows() const { return bins_.count(kLongBin); }

  /// Merges the rows that are not long.
  template <Pass kPass>
  void merge_rows(const Merged& merged, cudaStream_t stream) const {
    Tasks tasks{{}, bins_.rows(0), begins_, begins_ + 1, rows_};
    for (int i = 0; i < kWidths; ++i)
      tasks.first_of_width[i + 1] = tasks.first_of_width[i] + bins_.count(i);
    launch_merge<kPass>(tasks, inputs_, merged, stream);
  }

 private:
  /// The pieces of the long rows of a level, in memory of the next level.
  struct Pieces {
    Pieces(const Level& before, RunBlock& block)
        : rows_count(before.long_rows()), count(before.num_pieces_) {
      const std::int64_t most = std::max<std::int64_t>(rows_count, count) + 1;
      const std::int64_t sum_bytes =
          spgemm::running_sum_bytes<std::int64_t>(static_cast<const int*>(nullptr), most);
      const auto at_state = block.place<Bins::State>(1);
      const auto at_rows = block.place<int>(rows_count);
      const auto at_pieces = block.place<int>(rows_count + 1);
      const auto at_begins = block.place<std::int64_t>(rows_count + 1);
      const auto at_listed = block.place<int>(rows_count);
      const auto at_piece_begins = block.place<std::int64_t>(count);
      const auto at_piece_ends = block.place<std::int64_t>(count);
      const auto at_lengths = block.place<int>(count + 1);
      const auto at_offsets = block.place<std::int64_t>(count + 1);
      const auto at_scratch = block.place<std::byte>(sum_bytes);
      block.take(before.run_);
      rows = block.data<int>(at_rows);
      pieces = block.data<int>(at_pieces);
      begins = block.data<std::int64_t>(at_begins);
      auto* state = block.data<Bins::State>(at_state);
      bins = Bins(rows_count, {nullptr, block.data<int>(at_listed), state});
      piece_begins = block.data<std::int64_t>(at_piece_begins);
      piece_ends = block.data<std::int64_t>(at_piece_ends);
      lengths = block.data<int>(at_lengths);
      offsets = block.data<std::int64_t>(at_offsets);
      scratch = block.array<std::byte>(at_scratch, sum_bytes);
      cuda_check(cudaMemsetAsync(state, 0, sizeof(*state), before.run_.stream()),
                 "clearing counts");
    }

    /// Lists the long rows, and where their pieces begin and end.
    void list(const Level& before, cudaStream_t stream) const {
      const int* places = before.bins_.rows(kLongBin);
      count_pieces<<<blocks_for(std::int64_t{rows_count} + 1, kThreads), kThreads, 0, stream>>>(
          rows_count, places, before.begins_, before.rows_, before.most_rows_, rows, pieces);
      cuda_check(cudaGetLastError(), "cutting long rows");
      spgemm::running_sum(scratch, pieces, begins, std::int64_t{rows_count} + 1, stream);
      list_pieces<<<blocks_for(rows_count, kThreads / 32), kThreads, 0, stream>>>(
          rows_count, places, before.begins_, begins, before.most_rows_, piece_begins, piece_ends,
          lengths);
      cuda_check(cudaGetLastError(), "listing pieces of long rows");
    }

    template <Pass kPass>
    void merge(const Level& before, const Merged& merged, cudaStream_t stream) const {
      Tasks tasks{{}, nullptr, piece_begins, piece_ends, nullptr};
      for (int i = width_class_for(before.most_rows_); i < kWidths; ++i)
        tasks.first_of_width[i + 1] = count;
      launch_merge<kPass>(tasks, before.inputs_, merged, stream);
    }

    int rows_count;
    std::int64_t count;
    int* rows;                                // [rows_count]: rows of C
    int* pieces;                              // [rows_count + 1]: pieces of each row
    std::int64_t* begins;                     // [rows_count + 1]: pieces of earlier rows
    Bins bins;                                // of the rows, by their pieces
    std::int64_t *piece_begins, *piece_ends;  // [count]: inputs of the level before
    int* lengths;                             // [count + 1]
    std::int64_t* offsets;                    // [count + 1]
    RunArray<std::byte> scratch;              // of prefix sums
  };

  template <class BinOfRow>
  void list_rows(const Counts& counts, BinOfRow bin_of) {
    bins_.list(counts, bin_of, run_.stream());
    num_pieces_ = static_cast<std::int64_t>(counts.watched);
  }

  /// Allocates the merged pieces.
  void allocate(std::int64_t nonzeros) {
    const auto at_cols = merged_.place<int>(nonzeros), at_values = merged_.place<float>(nonzeros);
    merged_.take(run_);
    inputs_.cols = cols_ = merged_.data<int>(at_cols);
    inputs_.values = values_ = merged_.data<float>(at_values);
  }

  ProductRun& run_;
  int most_rows_;
  const int* rows_ = nullptr;             // of C; nullptr: all rows
  const std::int64_t* begins_ = nullptr;  // first input of each row
  Inputs inputs_{};                       // beyond level 0 the pieces of the level before
  int* cols_ = nullptr;                   // columns and values of these pieces
  float* values_ = nullptr;
  Bins bins_;
  std::int64_t num_pieces_ = 0;  // of the long rows
  RunBlock block_, merged_;
};

/// The memory of a product beside the further levels. With few products, it holds C, too, or, with
/// still fewer, room for every product, if rows are merged once.
struct Workspace {
  Workspace(ProductRun& run, std::int32_t rows, std::int64_t products)
      : merges_once(run.source() == MemorySource::kPool && products <= kMostProductsOfOneMerge &&
                    rows <= kMostTiles * spgemm::kTile),
        is_tiled(merges_once || rows <= spgemm::kMostTiled) {
    if (!merges_once && products <= kMostProducts) of_c.emplace(block, rows, products);
    const std::int64_t count = std::int64_t{rows} + 1;
    const auto at_rooms = block.place<int>(merges_once ? rows : 0);
    const auto at_cols = block.place<int>(merges_once ? products : 0);
    const auto at_values = block.place<float>(merges_once ? products : 0);
    const std::int64_t sum_bytes =
        is_tiled ? 0
                 : spgemm::running_sum_bytes<std::int64_t>(static_cast<const int*>(nullptr), count);
    const auto at_lengths = block.place<int>(count);
    const auto at_listed = block.place<int>(rows);
    const auto at_offsets = of_c ? of_c->row_offsets : block.place<std::int64_t>(count);
    const auto at_scratch = block.place<std::byte>(sum_bytes);
    block.take(run);
    lengths = block.data<int>(at_lengths);
    listed = block.data<int>(at_listed);
    rooms = block.data<int>(at_rooms);
    cols = block.data<int>(at_cols);
    values = block.data<float>(at_values);
    offsets = block.array<std::int64_t>(at_offsets, count);
    scratch = block.array<std::byte>(at_scratch, sum_bytes);
  }

  bool merges_once;
  bool is_tiled;  // the offsets are sums over tiles: faster than a scan, for few rows
  RunBlock block;
  std::optional<SparseResult::Places> of_c;
  int* lengths;                    // [rows + 1] of C
  int* listed;                     // [rows], by bin
  int* rooms;                      // [rows]: where each begins in cols and values, if merged once
  int* cols;                       // [products], too
  float* values;                   // [products], too
  RunArray<std::int64_t> offsets;  // [rows + 1] of C
  RunArray<std::byte> scratch;     // of prefix sums
};

class MergeProduct final : public GpuSparseProduct {
 public:
  MergeProduct(const CsrMatrix& a, const CsrMatrix& b, int most_rows)
      : most_rows_(most_rows), a_(a), b_(b) {}

  void multiply(float alpha, ProductRun& run) override {
    release();
    const cudaStream_t stream = run.stream();
    run.stage("pieces");
    const Found& found = analyse(stream);
    const auto products = static_cast<std::int64_t>(found.products);
    Workspace work(run, a_.rows, products);
    const Bins bins(a_.rows, {nullptr, work.listed, &kept_.data()->found.bins});
    std::deque<Level> levels;
    levels.emplace_back(a_, b_, most_rows_, bins, found.bins.counts, work.lengths, run);
    while (levels.back().long_rows() > 0) levels.emplace_back(levels.back(), counts_, nonzeros_);
    if (work.merges_once) {
      c_ = merge_once(levels, work, products, alpha, run);
      return;
    }
    run.stage("count");
    row_bins::Sum* const of_tiles = work.is_tiled ? kept_.data()->of_tiles : nullptr;
    merge_rows<Pass::kCount>(levels, {.lengths = work.lengths, .of_tiles = of_tiles}, stream);
    run.stage("allocate");
    if (work.is_tiled) {
      place_rows<<<blocks_for(work.offsets.size(), spgemm::kTile), spgemm::kTile, 0, stream>>>(
          a_.rows, work.lengths, of_tiles, work.offsets.data());
      cuda_check(cudaGetLastError(), "placing rows");
    } else {
      spgemm::running_sum(work.scratch, work.lengths, work.offsets.data(), work.offsets.size(),
                          stream);
    }
    SparseResult c = work.of_c ? SparseResult::in_block(std::move(work.block), *work.of_c, a_.rows,
                                                        b_.cols, products)
                               : allocate(work, run);
    run.stage("multiply");
    merge_rows<Pass::kMultiply>(levels,
                                {.offsets = c.row_offsets.data(),
                                 .cols = c.col_indices.data(),
                                 .values = c.values.data(),
                                 .alpha = alpha},
                                stream);
    c_ = std::move(c);
  }

  void release() override { c_ = {}; }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  /// Chooses bins and counts products. Waits for the device.
  const Found& analyse(cudaStream_t stream) {
    const unsigned row_blocks = blocks_for(a_.rows, kThreads);
    const spgemm::Report<Found> report = reports_.next(&kept_.data()->found);
    analyse_rows<<<row_blocks + spgemm::blocks_to_add(a_.nnz), kThreads, 0, stream>>>(
        a_.rows, row_blocks, BinOf{a_.row_offsets.data(), most_rows_}, a_.nnz,
        a_.col_indices.data(), b_.row_offsets.data(), kept_.data(), report);
    cuda_check(cudaGetLastError(), "analysing rows");
    return reports_.wait(report, stream);
  }

  /// Merges all rows into the workspace's room and moves them to their places in C.
  SparseResult merge_once(const std::deque<Level>& levels, const Workspace& work,
                          std::int64_t products, float alpha, ProductRun& run) {
    run.stage("multiply");
    row_bins::Sum* const of_tiles = kept_.data()->of_tiles;
    merge_rows<Pass::kBoth>(levels,
                            {.lengths = work.lengths,
                             .of_tiles = of_tiles,
                             .taken = &kept_.data()->taken,
                             .rooms = work.rooms,
                             .cols = work.cols,
                             .values = work.values,
                             .alpha = alpha},
                            run.stream());
    run.stage("place");
    RunBlock block;
    const SparseResult::Places places(block, a_.rows, products);
    block.take(run);
    SparseResult c = SparseResult::in_block(std::move(block), places, a_.rows, b_.cols, products);
    move_rows<<<blocks_for(std::int64_t{a_.rows} + 1, spgemm::kTile), spgemm::kTile, 0,
                run.stream()>>>(a_.rows,
                                {work.lengths, of_tiles, work.rooms, work.cols, work.values},
                                c.row_offsets.data(), c.col_indices.data(), c.values.data());
    cuda_check(cudaGetLastError(), "moving rows");
    return c;
  }

  /// Allocates C, once its nonzeros are counted. Waits for the device.
  SparseResult allocate(const Workspace& work, ProductRun& run) {
    nonzeros_.request(work.offsets.data() + a_.rows, run.stream());
    SparseResult c =
        SparseResult::in_one_block(run, a_.rows, b_.cols, nonzeros_.wait(run.stream()));
    cuda_check(cudaMemcpyAsync(c.row_offsets.data(), work.offsets.data(),
                               sizeof(std::int64_t) * static_cast<std::size_t>(work.offsets.size()),
                               cudaMemcpyDeviceToDevice, run.stream()),
               "writing C's offsets");
    return c;
  }

  /// Merges the rows that are not long, of every level.
  template <Pass kPass>
  void merge_rows(const std::deque<Level>& levels, const Merged& merged, cudaStream_t stream) {
    sides_.run(static_cast<int>(levels.size()), stream, [&](int i, cudaStream_t side) {
      levels[i].template merge_rows<kPass>(merged, side);
    });
  }

  int most_rows_;
  DeviceCsr a_, b_;
  DeviceArray<Kept> kept_{std::vector<Kept>(1)};
  spgemm::Reports<Found> reports_;
  ReadBack<Level::Counts> counts_;  // of a level beyond the first
  ReadBack<std::int64_t> nonzeros_;
  SideStreams sides_;
  SparseResult c_;
};

class GpuMergeSpgemm final : public GpuSpgemm {
 public:
  explicit GpuMergeSpgemm(int most_rows) : most_rows_(most_rows) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    require<Unsupported>(a.nnz() <= kMost && b.nnz() <= kMost,
                         "A has {} and B {} nonzeros; an operand may have at most {}", a.nnz(),
                         b.nnz(), kMost);
    return std::make_unique<MergeProduct>(a, b, most_rows_);
  }

 private:
  int most_rows_;
};

const Register<GpuSpgemm> entry{{
    .name = "merge_spgemm",
    .summary = "device half of merge_spgemm",
    .make =
        [](const Params& params) { return std::make_unique<GpuMergeSpgemm>(most_rows(params)); },
}};

}  // namespace
}  // namespace tessera
