// Device half of the kernels with rows of C in tables: rows analysed, counted and multiplied.
//
// Offsets of C are known between counting and multiplying. Rows whose table is beyond shared memory
// have it in global memory, a few rows at once, and are sorted together at the end.

#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <bit>
#include <cub/device/device_segmented_sort.cuh>

#include "kernels/hash_rows.cuh"
#include "kernels/hash_rows_gpu.hpp"

namespace tessera::hash_rows {
namespace {

using row_bins::blocks_for;

constexpr int kWarpsOfRows = 4;  // of a thread block whose warps have a row each
constexpr int kAnalysisThreads = 256, kLanesOfRow = 8;
constexpr int kRowsOfAnalysis = kAnalysisThreads / kLanesOfRow;  // a thread block's
constexpr int kLongRow = 512;                                    // nonzeros of A
constexpr int kGlobalThreads = 1024;
constexpr std::int64_t kGlobalTableBytes = std::int64_t{2} << 30;  // unless one row needs more

using Bins = row_bins::RowBins<kBins>;

struct Columns {
  int first, last;
};

/// What is found out about a row.
struct Found {
  int products, first, last;

  __device__ void look(const Operands& x, std::int64_t k, std::int64_t end, int step) {
    for (; k < end; k += step) {
      const std::int64_t begin = x.b_offsets[x.a_cols[k]], stop = x.b_offsets[x.a_cols[k] + 1];
      if (begin == stop) continue;
      products += static_cast<int>(stop - begin);
      first = min(first, x.b_cols[begin]);
      last = max(last, x.b_cols[stop - 1]);
    }
  }
  __device__ void gather(int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
      products += __shfl_xor_sync(kWholeWarp, products, step);
      first = min(first, __shfl_xor_sync(kWholeWarp, first, step));
      last = max(last, __shfl_xor_sync(kWholeWarp, last, step));
    }
  }
};

/// A long row of A, by all threads of the thread block.
__device__ Found analyse_long(const Operands& x, std::int64_t row) {
  __shared__ Found all;
  if (threadIdx.x == 0) all = {0, kNoColumn, -1};
  __syncthreads();
  Found own{0, kNoColumn, -1};
  own.look(x, x.a_offsets[row] + threadIdx.x, x.a_offsets[row + 1], kAnalysisThreads);
  own.gather(32);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&all.products, own.products);
    atomicMin(&all.first, own.first);
    atomicMax(&all.last, own.last);
  }
  __syncthreads();
  const Found found = all;
  __syncthreads();  // before the next row takes its place
  return found;
}

/// A few lanes per row; long rows come after all others of the thread block.
__global__ void __launch_bounds__(kAnalysisThreads)
    analyse(std::int64_t rows, Operands x, int* products, Columns* columns) {
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRowsOfAnalysis;
  const std::int64_t row = first_row + threadIdx.x / kLanesOfRow;
  const int lane = threadIdx.x % kLanesOfRow;
  const auto length = [&](std::int64_t i) { return x.a_offsets[i + 1] - x.a_offsets[i]; };
  const bool is_long = row < rows && length(row) > kLongRow;
  Found found{0, kNoColumn, -1};
  if (row < rows && !is_long)
    found.look(x, x.a_offsets[row] + lane, x.a_offsets[row + 1], kLanesOfRow);
  found.gather(kLanesOfRow);
  if (row < rows && !is_long && lane == 0) {
    products[row] = found.products;
    columns[row] = {found.first, found.last};
  }
  if (!__syncthreads_or(is_long)) return;
  for (std::int64_t i = first_row; i < min(first_row + kRowsOfAnalysis, rows); ++i) {
    if (length(i) <= kLongRow) continue;
    found = analyse_long(x, i);
    if (threadIdx.x != 0) continue;
    products[i] = found.products;
    columns[i] = {found.first, found.last};
  }
}

/// The rows of a product, and what is to be made of them.
struct Rows {
  Operands x;
  const int* products;
  const Columns* columns;
  Choice choice;
  bool quadratic;
  int* nonzeros;  // of C: written when counting, known when multiplying
  float alpha;
  const std::int64_t* offsets;  // of C, when multiplying
  int* cols = nullptr;
  float* values = nullptr;

  /// An upper bound, before they are counted.
  __device__ std::int64_t bound(std::int64_t row) const {
    const std::int64_t range = std::int64_t{columns[row].last} - columns[row].first + 1;
    return products[row] == 0 ? 0 : min(std::int64_t{products[row]}, range);
  }

  template <bool kMultiply>
  __device__ std::int64_t expected(std::int64_t row) const {
    return kMultiply ? nonzeros[row] : bound(row);
  }

  __device__ float scaled(float sum) const { return alpha == 1 ? sum : alpha * sum; }
};

template <bool kMultiply>
struct BinOf {
  Rows rows;

  __device__ int operator()(std::int64_t row) const {
    const Columns columns = rows.columns[row];
    return rows.choice.bin({.a_nonzeros = rows.x.a_offsets[row + 1] - rows.x.a_offsets[row],
                            .products = rows.products[row],
                            .nonzeros = rows.expected<kMultiply>(row),
                            .range = std::int64_t{columns.last} - columns.first + 1});
  }
};

template <class M, class Group>
__device__ void make_row(const Group& group, Table table, const Chunk& chunk, const Rows& rows,
                         int row) {
  const Columns columns = rows.columns[row];
  const std::int64_t step = M::kDense ? table.slots : std::int64_t{1} << 31;
  const bool clips = M::kDense && std::int64_t{columns.last} - columns.first >= step;
  int made = 0;
  for (std::int64_t first = columns.first; first <= columns.last; first += step) {
    table.first = static_cast<int>(first);
    table.clear(group);
    const int entered =
        fill<M>(group, table, chunk, rows.x, row, Window{first, first + step, clips});
    if constexpr (!M::kMultiply) {
      made += group.sum(entered).all;
    } else {
      const int kept = table.compact(group);
      if (!M::kDense) table.sort(group, kept);
      const std::int64_t to = rows.offsets[row] + made;
      for (int i = group.rank(); i < kept; i += group.size()) {
        rows.cols[to + i] = table.keys[i];
        rows.values[to + i] = rows.scaled(table.values[i]);
      }
      made += kept;
    }
    group.sync();
  }
  if (!M::kMultiply && group.rank() == 0) rows.nonzeros[row] = made;
}

/// Slots in shared memory: keys, then values, then bids, as far as there are any.
template <class M>
__device__ Table shared_table(int* memory, int slots, bool has_bids, bool quadratic) {
  return {.keys = memory,
          .values = M::kMultiply ? reinterpret_cast<float*>(memory + slots) : nullptr,
          .bids = has_bids ? reinterpret_cast<unsigned*>(memory + 2 * slots) : nullptr,
          .slots = static_cast<std::uint32_t>(slots),
          .quadratic = quadratic};
}

template <class M>
constexpr bool needs_bids(bool is_warp) {
  return M::kMultiply && !M::kAtomic && !is_warp;
}
/// Words per slot of a table.
template <class M>
constexpr int words_per_slot(bool is_warp) {
  return 1 + (M::kMultiply ? 1 : 0) + (needs_bids<M>(is_warp) ? 1 : 0);
}

template <class M>
__global__ void rows_by_warps(Rows rows, const int* listed, int count, int slots) {
  extern __shared__ int memory[];
  const int warp = threadIdx.x / 32;
  const std::int64_t at = std::int64_t{blockIdx.x} * kWarpsOfRows + warp;
  if (at >= count) return;
  int* own = memory + warp * (Chunk::kWordsPerLane * 32 + words_per_slot<M>(true) * slots);
  make_row<M>(
      WarpGroup(),
      shared_table<M>(own + Chunk::kWordsPerLane * 32, slots, needs_bids<M>(true), rows.quadratic),
      Chunk(own, 32), rows, listed[at]);
}

template <class M>
__global__ void __launch_bounds__(1024) rows_by_blocks(Rows rows, const int* listed, int slots) {
  extern __shared__ int memory[];
  __shared__ int totals[kMostWarps];
  const int threads = blockDim.x;
  make_row<M>(BlockGroup{totals},
              shared_table<M>(memory + Chunk::kWordsPerLane * threads, slots, needs_bids<M>(false),
                              rows.quadratic),
              Chunk(memory, threads), rows, listed[blockIdx.x]);
}

/// Rows of A with one nonzero: a scaled row of B, a warp each.
template <bool kMultiply>
__global__ void copy_rows(Rows rows, const int* listed, int count) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (at >= count) return;
  const int row = listed[at], lane = threadIdx.x % 32;
  if constexpr (!kMultiply) {
    if (lane == 0) rows.nonzeros[row] = rows.products[row];
  } else {
    const std::int64_t k = rows.x.a_offsets[row];
    const std::int64_t from = rows.x.b_offsets[rows.x.a_cols[k]], to = rows.offsets[row];
    const float a = rows.x.a_values[k];
    for (int i = lane; i < rows.nonzeros[row]; i += 32) {
      rows.cols[to + i] = rows.x.b_cols[from + i];
      rows.values[to + i] = rows.scaled(fmaf(a, rows.x.b_values[from + i], 0.0f));
    }
  }
}

/// Tables in global memory, one for each thread block of a launch.
struct GlobalTables {
  int* keys;
  float* values;
  unsigned* bids;
  std::int64_t slots;  // of each
};

/// Multiplied rows go to places of their own, row i of the list to offsets[i], not sorted.
template <class M>
__global__ void __launch_bounds__(kGlobalThreads)
    rows_in_global_memory(Rows rows, const int* listed, int count, GlobalTables tables,
                          const std::int64_t* offsets, int* cols, float* values) {
  extern __shared__ int memory[];
  __shared__ int totals[kMostWarps];
  const BlockGroup group{totals};
  const Chunk chunk(memory, kGlobalThreads);
  const std::int64_t own = blockIdx.x * tables.slots;
  Table table{.keys = tables.keys + own,
              .values = tables.values == nullptr ? nullptr : tables.values + own,
              .bids = tables.bids == nullptr ? nullptr : tables.bids + own,
              .slots = 0,
              .quadratic = rows.quadratic};
  for (int at = blockIdx.x; at < count; at += gridDim.x) {
    const int row = listed[at];
    table.slots = static_cast<std::uint32_t>(
        rows.choice.hash_slots(rows.template expected<M::kMultiply>(row)));
    table.clear(group);
    const int entered = fill<M>(group, table, chunk, rows.x, row, Window{0, 0, false});
    if constexpr (!M::kMultiply) {
      const int made = group.sum(entered).all;
      if (group.rank() == 0) rows.nonzeros[row] = made;
    } else {
      const int kept = table.compact(group);
      for (int i = group.rank(); i < kept; i += group.size()) {
        cols[offsets[at] + i] = table.keys[i];
        values[offsets[at] + i] = rows.scaled(table.values[i]);
      }
    }
    group.sync();
  }
}

/// Sorted rows to their places in C, a thread block each.
__global__ void put_rows(Rows rows, const int* listed, const std::int64_t* offsets, const int* cols,
                         const float* values) {
  const int row = listed[blockIdx.x];
  const std::int64_t from = offsets[blockIdx.x], to = rows.offsets[row];
  for (int i = threadIdx.x; i < rows.nonzeros[row]; i += blockDim.x) {
    rows.cols[to + i] = cols[from + i];
    rows.values[to + i] = values[from + i];
  }
}

template <bool kMultiply>
__global__ void find_largest(Rows rows, const int* listed, int count, unsigned* largest) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= count) return;
  atomicMax(largest, static_cast<unsigned>(rows.expected<kMultiply>(listed[at])));
}

struct NonzerosOf {
  const int* nonzeros;
  const int* listed;
  __host__ __device__ std::int64_t operator()(std::int64_t i) const { return nonzeros[listed[i]]; }
};

template <class Kernel, class... Args>
void launch(Kernel kernel, std::int64_t blocks, int threads, std::int64_t shared_words,
            ProductRun& run, Args... args) {
  const auto bytes = static_cast<int>(4 * shared_words);
  if (bytes > 48 * 1024)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "asking for shared memory");
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, run.stream()>>>(args...);
  cuda_check(cudaGetLastError(), "launching rows of C");
}

constexpr int threads_for(int slots) { return std::clamp(slots / 16, 256, 1024); }

template <class M>
constexpr std::int64_t block_words(int slots) {
  return std::int64_t{Chunk::kWordsPerLane} * threads_for(slots) + words_per_slot<M>(false) * slots;
}

/// The rows of one bin with tables of one size.
template <class M>
void launch_size(const Rows& rows, const int* listed, int count, int size, ProductRun& run) {
  if (count == 0) return;
  const int slots = slots_of_size(size);
  if (size < kWarpSizes)
    launch(rows_by_warps<M>, blocks_for(count, kWarpsOfRows), 32 * kWarpsOfRows,
           kWarpsOfRows * (Chunk::kWordsPerLane * 32 + words_per_slot<M>(true) * slots), run, rows,
           listed, count, slots);
  else
    launch(rows_by_blocks<M>, count, threads_for(slots), block_words<M>(slots), run, rows, listed,
           slots);
}

/// Rows beyond shared memory, with what their launch needs.
template <class M>
class GlobalRows {
 public:
  GlobalRows(const Rows& rows, const int* listed, int count, ProductRun& run)
      : rows_(rows), listed_(listed), count_(count), run_(run) {
    const RunArray<unsigned> largest(run, 1);
    cuda_check(cudaMemsetAsync(largest.data(), 0, sizeof(unsigned), run.stream()), "clearing");
    launch(find_largest<M::kMultiply>, blocks_for(count, 256), 256, 0, run, rows, listed, count,
           largest.data());
    slots_ = rows.choice.hash_slots(read_back(largest.data(), run.stream()));
    const std::int64_t bytes = 4 * words_per_slot<M>(false) * slots_;
    tables_ = std::clamp<std::int64_t>(kGlobalTableBytes / bytes, 1, std::min(count, 264));
  }

  void count() {
    const RunArray<int> keys(run_, tables_ * slots_);
    fill_tables({keys.data(), nullptr, nullptr, slots_}, nullptr, nullptr, nullptr);
  }

  void multiply() {
    const RunArray<std::int64_t> offsets(run_, std::int64_t{count_} + 1);
    row_bins::sum_up(thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                                     NonzerosOf{rows_.nonzeros, listed_}),
                     offsets.data(), count_, run_);
    const std::int64_t nonzeros = read_back(offsets.data() + count_, run_.stream());
    const RunArray<int> cols(run_, nonzeros);
    const RunArray<float> values(run_, nonzeros);
    {
      const RunArray<int> keys(run_, tables_ * slots_);
      const RunArray<float> sums(run_, tables_ * slots_);
      const RunArray<unsigned> bids(run_, needs_bids<M>(false) ? tables_ * slots_ : 0);
      fill_tables({keys.data(), sums.data(), bids.data(), slots_}, offsets.data(), cols.data(),
                  values.data());
    }
    run_.stage("sort");
    sort(nonzeros, offsets, cols, values);
  }

 private:
  void fill_tables(const GlobalTables& tables, const std::int64_t* offsets, int* cols,
                   float* values) {
    launch(rows_in_global_memory<M>, tables_, kGlobalThreads, Chunk::kWordsPerLane * kGlobalThreads,
           run_, rows_, listed_, count_, tables, offsets, cols, values);
  }

  void sort(std::int64_t nonzeros, const RunArray<std::int64_t>& offsets, const RunArray<int>& cols,
            const RunArray<float>& values) {
    const RunArray<int> sorted_cols(run_, nonzeros);
    const RunArray<float> sorted_values(run_, nonzeros);
    std::size_t bytes = 0;
    const auto sort_pairs = [&](void* scratch) {
      cuda_check(
          cub::DeviceSegmentedSort::SortPairs(
              scratch, bytes, cols.data(), sorted_cols.data(), values.data(), sorted_values.data(),
              nonzeros, std::int64_t{count_}, offsets.data(), offsets.data() + 1, run_.stream()),
          "sorting rows of C");
    };
    sort_pairs(nullptr);
    const RunArray<char> scratch(run_, static_cast<std::int64_t>(bytes));
    sort_pairs(scratch.data());
    launch(put_rows, count_, 256, 0, run_, rows_, listed_, offsets.data(), sorted_cols.data(),
           sorted_values.data());
  }

  Rows rows_;
  const int* listed_;
  int count_;
  ProductRun& run_;
  std::int64_t slots_ = 0, tables_ = 0;
};

template <bool kMultiply, bool kAtomic>
void launch_bins(const Rows& rows, const Bins& bins, ProductRun& run) {
  using Hash = Mode<false, kMultiply, kAtomic>;
  using Dense = Mode<true, kMultiply, kAtomic>;
  for (int size = kSizes - 1; size >= 0; --size) {
    const int hash = kHashBins + size, dense = kDenseBins + size;
    launch_size<Hash>(rows, bins.rows(hash), bins.count(hash), size, run);
    launch_size<Dense>(rows, bins.rows(dense), bins.count(dense), size, run);
  }
  if (const int count = bins.count(kCopyBin); count > 0)
    launch(copy_rows<kMultiply>, blocks_for(count, 8), 256, 0, run, rows, bins.rows(kCopyBin),
           count);
  if (bins.count(kGlobalBin) == 0) return;
  GlobalRows<Hash> global(rows, bins.rows(kGlobalBin), bins.count(kGlobalBin), run);
  if constexpr (kMultiply)
    global.multiply();
  else
    global.count();
}

class TableProduct final : public GpuSparseProduct {
 public:
  TableProduct(const CsrMatrix& a, const CsrMatrix& b, const Options& options)
      : options_(options), a_(a), b_(b) {}

  void multiply(float alpha, ProductRun& run) override {
    release();
    SparseResult c;
    c.rows = a_.rows;
    c.cols = b_.cols;
    c.row_offsets = RunArray<std::int64_t>(run, std::int64_t{a_.rows} + 1);
    const RunArray<int> products(run, a_.rows), nonzeros(run, a_.rows);
    const RunArray<Columns> columns(run, a_.rows);
    Rows rows{.x = operands(),
              .products = products.data(),
              .columns = columns.data(),
              .choice = options_.choice,
              .quadratic = options_.quadratic,
              .nonzeros = nonzeros.data(),
              .alpha = alpha,
              .offsets = c.row_offsets.data()};
    run.stage("analyse");
    if (a_.rows > 0)
      launch(analyse, blocks_for(a_.rows, kRowsOfAnalysis), kAnalysisThreads, 0, run,
             std::int64_t{a_.rows}, rows.x, products.data(), columns.data());
    run.stage("count");
    count(rows, run);
    run.stage("allocate");
    row_bins::sum_up(nonzeros.data(), c.row_offsets.data(), a_.rows, run);
    const std::int64_t all = read_back(c.row_offsets.data() + a_.rows, run.stream());
    c.col_indices = RunArray<int>(run, all);
    c.values = RunArray<float>(run, all);
    rows.cols = c.col_indices.data();
    rows.values = c.values.data();
    run.stage("multiply");
    const Bins bins(a_.rows, BinOf<true>{rows}, run);
    options_.atomic ? launch_bins<true, true>(rows, bins, run)
                    : launch_bins<true, false>(rows, bins, run);
    c_ = std::move(c);
  }

  void release() override { c_ = {}; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  Operands operands() const {
    return {a_.row_offsets.data(), a_.col_indices.data(), a_.values.data(),
            b_.row_offsets.data(), b_.col_indices.data(), b_.values.data()};
  }

  void count(const Rows& rows, ProductRun& run) const {
    if (a_.rows == 0) return;
    cuda_check(cudaMemsetAsync(rows.nonzeros, 0, sizeof(int) * a_.rows, run.stream()),
               "clearing the lengths of rows");
    launch_bins<false, false>(rows, Bins(a_.rows, BinOf<false>{rows}, run), run);
  }

  Options options_;
  DeviceCsr a_, b_;
  SparseResult c_;
};

class TableSpgemm final : public GpuSpgemm {
 public:
  explicit TableSpgemm(const Options& options) : options_(options) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    require_nonzeros(a, "A");
    require_nonzeros(b, "B");
    require_shared_memory();
    return std::make_unique<TableProduct>(a, b, options_);
  }

 private:
  static void require_nonzeros(const CsrMatrix& matrix, const char* name) {
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    require<Unsupported>(matrix.nnz() <= kMost, "{} has {} nonzeros; at most {} fit", name,
                         matrix.nnz(), kMost);
  }

  static void require_shared_memory() {
    int device = 0, bytes = 0;
    cuda_check(cudaGetDevice(&device), "asking for the device");
    cuda_check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "asking for shared memory");
    constexpr std::int64_t kMost = 4 * block_words<Mode<false, true, false>>(kMostSlots) + 256;
    require<Unsupported>(bytes >= kMost,
                         "tables take {} bytes of shared memory; a thread block may have {}", kMost,
                         bytes);
  }

  Options options_;
};

}  // namespace

std::unique_ptr<GpuSpgemm> make_gpu(const Options& options) {
  return std::make_unique<TableSpgemm>(options);
}

}  // namespace tessera::hash_rows
