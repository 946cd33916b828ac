// Device half of ac_spgemm: it cuts a slice into chunks and joins their cells. See
// kernels/spgemm/esc/ac_spgemm.cpp.

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spgemm/esc/ac_chunks.cuh"

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

struct CellsOfPart {
  const RowPart* row_parts;
  __device__ std::uint32_t operator()(std::int64_t part) const { return row_parts[part].cells; }
};

__global__ void write_row_begins(Slice slice, const std::int64_t* __restrict__ before_rows,
                                 const std::int32_t* __restrict__ row_ids,
                                 const std::int64_t* __restrict__ count,
                                 std::uint32_t* __restrict__ row_begins) {
  const std::int64_t row = grid_thread(), rows = *count;
  if (row > rows) return;
  row_begins[row] = static_cast<std::uint32_t>(
      row < rows ? before_rows[row_ids[row]] - slice.first_product : slice.products);
}

/// Cuts the slice into the chunks of kernels/spgemm/esc/ac_spgemm.hpp.
__global__ void cut_chunks(Slice slice, Chunks chunks, Chunk* __restrict__ begins) {
  const std::int64_t chunk = grid_thread();
  if (chunk > chunks.count) return;
  const auto rows = static_cast<std::uint32_t>(*chunks.rows);
  if (chunk == 0 || chunk == chunks.count) {
    begins[chunk] = chunk == 0 ? Chunk{0, 0} : Chunk{chunks.products, rows};
    return;
  }
  const std::int64_t nominal = (slice.first_product / kStep + chunk) * kStep;
  const auto product = static_cast<std::uint32_t>(nominal - slice.first_product);
  const std::uint32_t row = last_at_most(chunks.row_begins, std::uint32_t{0}, rows, product);
  begins[chunk] = {static_cast<std::uint32_t>(chunk_begin(product, chunks.row_begins[row])), row};
}

/// Gathers the cells of row parts, one part for each thread block.
__global__ void __launch_bounds__(kThreads)
    gather_parts(Chunks chunks, const std::uint32_t* __restrict__ cells_before, int col_bits,
                 std::uint64_t* __restrict__ keys, float* __restrict__ values) {
  const RowPart part = chunks.row_parts[blockIdx.x];
  const std::uint32_t to = cells_before[blockIdx.x];
  for (std::uint32_t i = threadIdx.x; i < part.cells; i += kThreads) {
    keys[to + i] = std::uint64_t{part.row} << col_bits |
                   static_cast<std::uint32_t>(chunks.cols[part.place + i]);
    values[to + i] = chunks.values[part.place + i];
  }
}

/// The sorted cells of rows in several chunks.
struct MergedCells {
  const std::uint64_t* keys;  // [count]
  const float* values;        // [count]
  const std::uint32_t* runs;  // [*nnz] first cell of each row and column
  const std::int64_t* nnz;    // [1]
  std::uint32_t count;
  int col_bits;

  __device__ std::uint32_t row(std::uint32_t run) const {
    return static_cast<std::uint32_t>(keys[runs[run]] >> col_bits);
  }
  /// Returns the first run of the row, or of a later row.
  __device__ std::uint32_t first_run(std::uint32_t of_row) const {
    std::uint32_t low = 0, high = static_cast<std::uint32_t>(*nnz);
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
  const RowPart part = chunks.row_parts[i];
  if (part.cells == 0 || part.first == 0) return;
  const std::uint32_t begin = merged.first_run(part.row), end = merged.first_run(part.row + 1);
  chunks.row_places[part.row] = kMerged | begin;
  chunks.row_cells[part.row] = end - begin;
}

__global__ void write_lengths(Slice slice, Chunks chunks, std::int64_t* __restrict__ lengths) {
  const std::int64_t row = grid_thread();
  if (row < *chunks.rows) lengths[chunks.row_ids[row] - slice.first_row] = chunks.row_cells[row];
}

/// The arrays of C for a slice.
struct Target {
  const std::int64_t* offsets;  // [slice.rows + 1]
  std::int32_t* cols;
  float* values;
  float alpha;
};

constexpr int kCopyLanes = 16;

/// Copies the rows that are in one chunk, sixteen lanes each.
__global__ void __launch_bounds__(kThreads) copy_rows(Slice slice, Chunks chunks, Target target) {
  const std::int64_t row = grid_thread() / kCopyLanes;
  if (row >= *chunks.rows) return;
  const std::uint32_t place = chunks.row_places[row], cells = chunks.row_cells[row];
  if ((place & kMerged) != 0) return;
  const std::int64_t to = target.offsets[chunks.row_ids[row] - slice.first_row];
  for (std::uint32_t i = threadIdx.x % kCopyLanes; i < cells; i += kCopyLanes) {
    target.cols[to + i] = chunks.cols[place + i];
    target.values[to + i] = scaled(target.alpha, chunks.values[place + i]);
  }
}

/// Adds up the cells of rows in several chunks, in the order of the chunks.
__global__ void add_merged(Slice slice, Chunks chunks, MergedCells merged, Target target) {
  const std::int64_t run = grid_thread(), nnz = *merged.nnz;
  if (run >= nnz) return;
  const std::uint32_t begin = merged.runs[run];
  const std::uint32_t end = run + 1 < nnz ? merged.runs[run + 1] : merged.count;
  float sum = merged.values[begin];
  for (std::uint32_t i = begin + 1; i < end; ++i) sum = __fadd_rn(sum, merged.values[i]);
  const std::uint32_t row = merged.row(static_cast<std::uint32_t>(run));
  const std::int64_t to = target.offsets[chunks.row_ids[row] - slice.first_row] + run -
                          (chunks.row_places[row] & ~kMerged);
  const std::uint64_t mask = (std::uint64_t{1} << merged.col_bits) - 1;
  target.cols[to] = static_cast<std::int32_t>(merged.keys[begin] & mask);
  target.values[to] = scaled(target.alpha, sum);
}

/// The memory of a slice, its cells of C and the rows in several chunks excepted, in one block.
class Workspace {
 public:
  explicit Workspace(const SliceJob& job) : job_(job) {
    const Slice& slice = job.slice;
    const std::int64_t end = slice.first_product + slice.products;
    chunks.products = static_cast<std::uint32_t>(slice.products);
    chunks.count =
        static_cast<std::uint32_t>((end + kStep - 1) / kStep - slice.first_product / kStep);
    num_parts = 2 * std::int64_t{chunks.count};
    const std::int64_t bytes = most_scratch();
    RunBlock block;
    const auto at_numbers = block.place<std::int64_t>(2);
    const auto at_ids = block.place<std::int32_t>(slice.rows);
    const auto at_row_begins = block.place<std::uint32_t>(slice.rows + 1);
    const auto at_nonzero_begins = block.place<std::uint32_t>(slice.nonzeros);
    const auto at_begins = block.place<Chunk>(std::int64_t{chunks.count} + 1);
    const auto at_places = block.place<std::uint32_t>(slice.rows);
    const auto at_cells = block.place<std::uint32_t>(slice.rows);
    const auto at_parts = block.place<RowPart>(num_parts + 1);
    const auto at_before = block.place<std::uint32_t>(num_parts + 1);
    const auto at_cols = block.place<std::int32_t>(slice.products);
    const auto at_values = block.place<float>(slice.products);
    const auto at_scratch = block.place<std::byte>(bytes);
    block.take(job.run, job.room);
    rows = block.data<std::int64_t>(at_numbers);
    runs = rows + 1;
    chunks.rows = rows;
    chunks.row_ids = row_ids = block.data<std::int32_t>(at_ids);
    chunks.row_begins = row_begins = block.data<std::uint32_t>(at_row_begins);
    chunks.nonzero_begins = nonzero_begins = block.data<std::uint32_t>(at_nonzero_begins);
    chunks.begins = begins = block.data<Chunk>(at_begins);
    chunks.row_places = block.data<std::uint32_t>(at_places);
    chunks.row_cells = block.data<std::uint32_t>(at_cells);
    chunks.row_parts = block.data<RowPart>(at_parts);
    chunks.cols = block.data<std::int32_t>(at_cols);
    chunks.values = block.data<float>(at_values);
    cells_before = block.data<std::uint32_t>(at_before);
    scratch = block.array<std::byte>(at_scratch, bytes);
  }

  /// Finds the rows that have products.
  auto select_rows() const {
    return [this](void* memory, std::size_t& bytes) {
      const thrust::counting_iterator<std::int32_t> from(
          static_cast<std::int32_t>(job_.slice.first_row));
      cuda_check(cub::DeviceSelect::If(memory, bytes, from, row_ids, rows, job_.slice.rows,
                                       HasProducts{job_.before_rows}, job_.run.stream()),
                 "finding rows that have products");
    };
  }
  auto products_of_nonzeros() const {
    return spgemm::products_of_nonzeros(job_.a, job_.b, job_.slice);
  }
  auto cells_of_parts() const {
    return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                           CellsOfPart{chunks.row_parts});
  }

  Chunks chunks{};
  std::int64_t num_parts;
  std::int64_t* rows = nullptr;           // [1] rows that have products
  std::int64_t* runs = nullptr;           // [1] runs of equal cells
  std::int32_t* row_ids = nullptr;        // [slice.rows]; the first *rows are used
  std::uint32_t* row_begins = nullptr;    // [slice.rows + 1]
  std::uint32_t* nonzero_begins;          // [slice.nonzeros]
  Chunk* begins;                          // [chunks.count + 1]
  std::uint32_t* cells_before = nullptr;  // [num_parts + 1]
  RunArray<std::byte> scratch;            // of one algorithm after another

 private:
  std::int64_t most_scratch() const {
    return std::max({scratch_bytes(select_rows()),
                     running_sum_bytes<std::uint32_t>(products_of_nonzeros(), job_.slice.nonzeros),
                     running_sum_bytes<std::uint32_t>(cells_of_parts(), num_parts + 1),
                     running_sum_bytes<std::int64_t>(static_cast<const std::int64_t*>(nullptr),
                                                     job_.slice.rows + 1)});
  }

  const SliceJob& job_;
};

/// Multiplies a slice. The host waits twice: for the size of rows in several chunks, and for the
/// numbers of runs and nonzeros.
class SliceInChunks {
 public:
  explicit SliceInChunks(const SliceJob& job)
      : job_(job),
        run_(job.run),
        stream_(job.run.stream()),
        slice_(job.slice),
        col_bits_(index_bits(job.b.cols)),
        work_(job),
        chunks_(work_.chunks) {
    list_rows();
    cut();
    clear(chunks_.row_parts, work_.num_parts + 1);
  }

  SliceCells multiply() {
    run_.stage("chunks");
    constexpr int kRowBits = 11;
    static_assert(kCapacity <= 1 << kRowBits, "rows of a chunk");
    const bool narrow = kRowBits + col_bits_ <= 32;
    (narrow ? compress_chunks<std::uint32_t>
            : compress_chunks<std::uint64_t>)<<<chunks_.count, kThreads, 0, stream_>>>(
        job_.a, job_.b, slice_, chunks_);
    cuda_check(cudaGetLastError(), "compressing chunks");
    run_.stage("merge");
    const std::int64_t count = count_merged();
    const MergedCells merged = count > 0 ? merge(count) : MergedCells{};
    run_.stage("copy");
    write_offsets();
    job_.numbers.nonzeros.request(job_.offsets + slice_.rows, stream_);
    if (count > 0) job_.numbers.runs.request(work_.runs, stream_);
    SliceCells c = job_.cells(job_.numbers.nonzeros.wait(stream_));
    const Target target{job_.offsets, c.col_indices.data(), c.values.data(), job_.alpha};
    copy_rows<<<grid_for(rows(), kThreads / kCopyLanes), kThreads, 0, stream_>>>(slice_, chunks_,
                                                                                 target);
    cuda_check(cudaGetLastError(), "copying rows");
    if (count == 0) return c;
    add_merged<<<grid_for(*job_.numbers.runs, kThreads), kThreads, 0, stream_>>>(slice_, chunks_,
                                                                                 merged, target);
    cuda_check(cudaGetLastError(), "adding up chunks");
    return c;
  }

 private:
  template <class T>
  void clear(T* array, std::int64_t count) {
    cuda_check(cudaMemsetAsync(array, 0, sizeof(T) * static_cast<std::size_t>(count), stream_),
               "clearing memory");
  }

  /// The number of rows that have products; known once the number of their cells is.
  std::int64_t rows() const { return *job_.numbers.rows; }

  void list_rows() {
    use_scratch(work_.scratch, work_.select_rows());
    job_.numbers.rows.request(work_.rows, stream_);
    write_row_begins<<<grid_for(slice_.rows + 1, kThreads), kThreads, 0, stream_>>>(
        slice_, job_.before_rows, work_.row_ids, work_.rows, work_.row_begins);
    cuda_check(cudaGetLastError(), "listing rows");
  }

  void cut() {
    running_sum(work_.scratch, work_.products_of_nonzeros(), work_.nonzero_begins, slice_.nonzeros,
                stream_);
    cut_chunks<<<grid_for(std::int64_t{chunks_.count} + 1, kThreads), kThreads, 0, stream_>>>(
        slice_, chunks_, work_.begins);
    cuda_check(cudaGetLastError(), "cutting chunks");
  }

  /// Counts the cells of rows in several chunks before they are merged.
  std::int64_t count_merged() {
    running_sum(work_.scratch, work_.cells_of_parts(), work_.cells_before, work_.num_parts + 1,
                stream_);
    job_.numbers.cells.request(work_.cells_before + work_.num_parts, stream_);
    return job_.numbers.cells.wait(stream_);
  }

  MergedCells merge(std::int64_t count) {
    RunBlock block;
    SortedCells<std::uint64_t> sorted(block, count, index_bits(rows()) + col_bits_);
    sorted.place_scratch(block);
    block.take(run_, job_.more_room);
    sorted.settle(block);
    gather_parts<<<static_cast<unsigned>(work_.num_parts), kThreads, 0, stream_>>>(
        chunks_, work_.cells_before, col_bits_, sorted.keys(), sorted.values());
    cuda_check(cudaGetLastError(), "gathering rows in several chunks");
    sorted.sort(stream_);
    sorted.find_runs(work_.runs, stream_);
    const MergedCells merged{sorted.keys(),
                             sorted.values(),
                             sorted.runs(),
                             work_.runs,
                             static_cast<std::uint32_t>(count),
                             col_bits_};
    write_merged_rows<<<grid_for(work_.num_parts, kThreads), kThreads, 0, stream_>>>(chunks_,
                                                                                     merged);
    cuda_check(cudaGetLastError(), "merging chunks");
    return merged;
  }

  void write_offsets() {
    clear(job_.offsets, slice_.rows + 1);
    write_lengths<<<grid_for(rows(), kThreads), kThreads, 0, stream_>>>(slice_, chunks_,
                                                                        job_.offsets);
    cuda_check(cudaGetLastError(), "writing C's row lengths");
    running_sum(work_.scratch, job_.offsets, job_.offsets, slice_.rows + 1, stream_);
  }

  const SliceJob& job_;
  ProductRun& run_;
  cudaStream_t stream_;
  Slice slice_;
  int col_bits_;
  Workspace work_;
  Chunks chunks_;
};

struct Ac {
  static SliceCells multiply_slice(const SliceJob& job) { return SliceInChunks(job).multiply(); }
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
