// Device half of ac_spgemm: the chunks of a slice, and what joins them. See kernels/ac_spgemm.cpp.

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/ac_chunks.cuh"

namespace tessera {
namespace {

using namespace spgemm;
using namespace ac_spgemm;

struct HasProducts {
  const std::int64_t* before_rows;
  __device__ bool operator()(std::int32_t row) const {
    return before_rows[row] < before_rows[row + 1];
  }
};

struct CellsOfPiece {
  const Piece* pieces;
  __device__ std::uint32_t operator()(std::int64_t piece) const { return pieces[piece].cells; }
};

__global__ void write_row_begins(Slice slice, const std::int64_t* __restrict__ before_rows,
                                 const std::int32_t* __restrict__ row_ids, std::uint32_t rows,
                                 std::uint32_t* __restrict__ row_begins) {
  const std::int64_t row = grid_thread();
  if (row > rows) return;
  row_begins[row] = static_cast<std::uint32_t>(
      row < rows ? before_rows[row_ids[row]] - slice.first_product : slice.products);
}

/// Chunks as the header of ac_spgemm has them, from the slice's first product on.
__global__ void cut_chunks(Slice slice, Chunks chunks, Chunk* __restrict__ begins) {
  const std::int64_t chunk = grid_thread();
  if (chunk > chunks.count) return;
  if (chunk == 0 || chunk == chunks.count) {
    begins[chunk] = chunk == 0 ? Chunk{0, 0} : Chunk{chunks.products, chunks.rows};
    return;
  }
  const std::int64_t nominal = (slice.first_product / kStep + chunk) * kStep;
  const auto product = static_cast<std::uint32_t>(nominal - slice.first_product);
  const std::uint32_t row = last_at_most(chunks.row_begins, std::uint32_t{0}, chunks.rows, product);
  begins[chunk] = {static_cast<std::uint32_t>(chunk_begin(product, chunks.row_begins[row])), row};
}

/// A thread block per piece.
__global__ void __launch_bounds__(kThreads)
    gather_pieces(Chunks chunks, const std::uint32_t* __restrict__ cells_before, int col_bits,
                  std::uint64_t* __restrict__ keys, float* __restrict__ values) {
  const Piece piece = chunks.pieces[blockIdx.x];
  const std::uint32_t to = cells_before[blockIdx.x];
  for (std::uint32_t i = threadIdx.x; i < piece.cells; i += kThreads) {
    keys[to + i] = std::uint64_t{piece.row} << col_bits |
                   static_cast<std::uint32_t>(chunks.cols[piece.place + i]);
    values[to + i] = chunks.values[piece.place + i];
  }
}

/// Sorted cells of rows of several chunks.
struct MergedCells {
  const std::uint64_t* keys;  // [count]
  const float* values;        // [count]
  const std::uint32_t* runs;  // [nnz] where those of one row and column begin
  std::uint32_t count, nnz;
  int col_bits;

  __device__ std::uint32_t row(std::uint32_t run) const {
    return static_cast<std::uint32_t>(keys[runs[run]] >> col_bits);
  }
  /// The first run of the row, or of one behind it.
  __device__ std::uint32_t first_run(std::uint32_t of_row) const {
    std::uint32_t low = 0, high = nnz;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (row(middle) < of_row)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

__global__ void write_merged_rows(Chunks chunks, MergedCells merged) {
  const std::int64_t i = grid_thread();
  if (i >= 2 * std::int64_t{chunks.count}) return;
  const Piece piece = chunks.pieces[i];
  if (piece.cells == 0 || piece.first == 0) return;
  const std::uint32_t begin = merged.first_run(piece.row), end = merged.first_run(piece.row + 1);
  chunks.row_places[piece.row] = kMerged | begin;
  chunks.row_cells[piece.row] = end - begin;
}

__global__ void write_lengths(Slice slice, Chunks chunks, std::int64_t* __restrict__ lengths) {
  const std::int64_t row = grid_thread();
  if (row < chunks.rows) lengths[chunks.row_ids[row] - slice.first_row] = chunks.row_cells[row];
}

/// What a slice becomes.
struct Target {
  const std::int64_t* offsets;  // [slice.rows + 1]
  std::int32_t* cols;
  float* values;
  float alpha;
};

constexpr int kCopyLanes = 16;

/// Rows of one chunk, sixteen lanes each.
__global__ void __launch_bounds__(kThreads) copy_rows(Slice slice, Chunks chunks, Target target) {
  const std::int64_t row = grid_thread() / kCopyLanes;
  if (row >= chunks.rows) return;
  const std::uint32_t place = chunks.row_places[row], cells = chunks.row_cells[row];
  if ((place & kMerged) != 0) return;
  const std::int64_t to = target.offsets[chunks.row_ids[row] - slice.first_row];
  for (std::uint32_t i = threadIdx.x % kCopyLanes; i < cells; i += kCopyLanes) {
    target.cols[to + i] = chunks.cols[place + i];
    target.values[to + i] = scaled(target.alpha, chunks.values[place + i]);
  }
}

/// Cells of rows of several chunks: the chunks' sums are added in order.
__global__ void add_merged(Slice slice, Chunks chunks, MergedCells merged, Target target) {
  const std::int64_t run = grid_thread();
  if (run >= merged.nnz) return;
  const std::uint32_t begin = merged.runs[run];
  const std::uint32_t end = run + 1 < merged.nnz ? merged.runs[run + 1] : merged.count;
  float sum = merged.values[begin];
  for (std::uint32_t i = begin + 1; i < end; ++i) sum = __fadd_rn(sum, merged.values[i]);
  const std::uint32_t row = merged.row(static_cast<std::uint32_t>(run));
  const std::int64_t to = target.offsets[chunks.row_ids[row] - slice.first_row] + run -
                          (chunks.row_places[row] & ~kMerged);
  const std::uint64_t mask = (std::uint64_t{1} << merged.col_bits) - 1;
  target.cols[to] = static_cast<std::int32_t>(merged.keys[begin] & mask);
  target.values[to] = scaled(target.alpha, sum);
}

/// A slice on its way from products to cells.
class SliceInChunks {
 public:
  SliceInChunks(ProductRun& run, CsrView a, CsrView b, const Slice& slice,
                const std::int64_t* before_rows)
      : run_(run), a_(a), b_(b), slice_(slice), col_bits_(index_bits(b.cols)) {
    list_rows(before_rows);
    cut();
    places_ = RunArray<std::uint32_t>(run, chunks_.rows);
    cells_ = RunArray<std::uint32_t>(run, chunks_.rows);
    pieces_ = RunArray<Piece>(run, 2 * std::int64_t{chunks_.count} + 1);
    cols_ = RunArray<std::int32_t>(run, slice.products);
    values_ = RunArray<float>(run, slice.products);
    chunks_.row_places = places_.data();
    chunks_.row_cells = cells_.data();
    chunks_.pieces = pieces_.data();
    chunks_.cols = cols_.data();
    chunks_.values = values_.data();
    clear(pieces_.data(), pieces_.size());
  }

  SliceCells multiply(float alpha, std::int64_t* offsets) {
    run_.stage("chunks");
    constexpr int kRowBits = 11;
    static_assert(kCapacity <= 1 << kRowBits, "rows of a chunk");
    const bool narrow = kRowBits + col_bits_ <= 32;
    (narrow ? compress_chunks<std::uint32_t>
            : compress_chunks<std::uint64_t>)<<<chunks_.count, kThreads, 0, run_.stream()>>>(
        a_, b_, slice_, chunks_);
    cuda_check(cudaGetLastError(), "compressing chunks");
    run_.stage("merge");
    const RunArray<std::uint32_t> before = cells_before_pieces();
    const std::int64_t count = read_back(run_, before.data() + before.size() - 1);
    SortedCells<std::uint64_t> sorted(run_, count);
    const MergedCells merged = count > 0 ? merge(sorted, before, count) : MergedCells{};
    run_.stage("copy");
    write_offsets(offsets);
    const std::int64_t nnz = read_back(run_, offsets + slice_.rows);
    SliceCells c{RunArray<std::int32_t>(run_, nnz), RunArray<float>(run_, nnz)};
    const Target target{offsets, c.col_indices.data(), c.values.data(), alpha};
    copy_rows<<<grid_for(chunks_.rows, kThreads / kCopyLanes), kThreads, 0, run_.stream()>>>(
        slice_, chunks_, target);
    cuda_check(cudaGetLastError(), "copying rows");
    add_merged<<<grid_for(merged.nnz, kThreads), kThreads, 0, run_.stream()>>>(slice_, chunks_,
                                                                               merged, target);
    cuda_check(cudaGetLastError(), "adding up chunks");
    return c;
  }

 private:
  template <class T>
  void clear(T* array, std::int64_t count) {
    cuda_check(
        cudaMemsetAsync(array, 0, sizeof(T) * static_cast<std::size_t>(count), run_.stream()),
        "clearing memory");
  }

  /// The rows that have products.
  void list_rows(const std::int64_t* before_rows) {
    row_ids_ = RunArray<std::int32_t>(run_, slice_.rows);
    const RunArray<std::int64_t> found(run_, 1);
    const auto select = [&](void* scratch, std::size_t& bytes) {
      const thrust::counting_iterator<std::int32_t> rows(
          static_cast<std::int32_t>(slice_.first_row));
      cuda_check(cub::DeviceSelect::If(scratch, bytes, rows, row_ids_.data(), found.data(),
                                       slice_.rows, HasProducts{before_rows}, run_.stream()),
                 "finding rows that have products");
    };
    std::size_t bytes = 0;
    select(nullptr, bytes);
    const RunArray<std::uint8_t> scratch(run_, static_cast<std::int64_t>(bytes));
    select(scratch.data(), bytes);
    chunks_.products = static_cast<std::uint32_t>(slice_.products);
    chunks_.rows = static_cast<std::uint32_t>(read_back(run_, found.data()));
    chunks_.row_ids = row_ids_.data();
    row_begins_ = RunArray<std::uint32_t>(run_, std::int64_t{chunks_.rows} + 1);
    write_row_begins<<<grid_for(row_begins_.size(), kThreads), kThreads, 0, run_.stream()>>>(
        slice_, before_rows, row_ids_.data(), chunks_.rows, row_begins_.data());
    cuda_check(cudaGetLastError(), "listing rows");
    chunks_.row_begins = row_begins_.data();
  }

  void cut() {
    nonzero_begins_ = products_before_nonzeros(run_, a_, b_, slice_);
    chunks_.nonzero_begins = nonzero_begins_.data();
    const std::int64_t end = slice_.first_product + slice_.products;
    chunks_.count =
        static_cast<std::uint32_t>((end + kStep - 1) / kStep - slice_.first_product / kStep);
    begins_ = RunArray<Chunk>(run_, std::int64_t{chunks_.count} + 1);
    cut_chunks<<<grid_for(begins_.size(), kThreads), kThreads, 0, run_.stream()>>>(slice_, chunks_,
                                                                                   begins_.data());
    cuda_check(cudaGetLastError(), "cutting chunks");
    chunks_.begins = begins_.data();
  }

  /// [pieces, and one behind them]
  RunArray<std::uint32_t> cells_before_pieces() {
    RunArray<std::uint32_t> before(run_, pieces_.size());
    running_sum(run_,
                thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                CellsOfPiece{pieces_.data()}),
                before.data(), before.size());
    return before;
  }

  MergedCells merge(SortedCells<std::uint64_t>& sorted, const RunArray<std::uint32_t>& before,
                    std::int64_t count) {
    gather_pieces<<<2 * chunks_.count, kThreads, 0, run_.stream()>>>(
        chunks_, before.data(), col_bits_, sorted.keys(), sorted.values());
    cuda_check(cudaGetLastError(), "gathering rows of several chunks");
    sorted.sort(index_bits(chunks_.rows) + col_bits_);
    const auto nnz = static_cast<std::uint32_t>(sorted.find_runs());
    const MergedCells merged{sorted.keys(), sorted.values(),
                             sorted.runs(), static_cast<std::uint32_t>(count),
                             nnz,           col_bits_};
    write_merged_rows<<<grid_for(2 * std::int64_t{chunks_.count}, kThreads), kThreads, 0,
                        run_.stream()>>>(chunks_, merged);
    cuda_check(cudaGetLastError(), "merging chunks");
    return merged;
  }

  void write_offsets(std::int64_t* offsets) {
    clear(offsets, slice_.rows + 1);
    write_lengths<<<grid_for(chunks_.rows, kThreads), kThreads, 0, run_.stream()>>>(slice_, chunks_,
                                                                                    offsets);
    cuda_check(cudaGetLastError(), "writing C's row lengths");
    running_sum(run_, offsets, offsets, slice_.rows + 1);
  }

  ProductRun& run_;
  CsrView a_, b_;
  Slice slice_;
  int col_bits_;
  RunArray<std::int32_t> row_ids_;  // [slice.rows], the first chunks_.rows used
  RunArray<std::uint32_t> row_begins_, nonzero_begins_;
  RunArray<Chunk> begins_;
  RunArray<std::uint32_t> places_, cells_;
  RunArray<Piece> pieces_;
  RunArray<std::int32_t> cols_;
  RunArray<float> values_;
  Chunks chunks_{};
};

struct Ac {
  static SliceCells multiply_slice(ProductRun& run, CsrView a, CsrView b, const Slice& slice,
                                   float alpha, const std::int64_t* before_rows,
                                   std::int64_t* offsets) {
    return SliceInChunks(run, a, b, slice, before_rows).multiply(alpha, offsets);
  }
};

const Register<GpuSpgemm> entry{{
    .name = "ac_spgemm",
    .summary = "device half of ac_spgemm",
    .make =
        [](const Params& params) {
          return std::make_unique<SlicedSpgemm<Ac>>(params.integer("slice"));
        },
}};

}  // namespace
}  // namespace tessera
