// The kernels of hash_spgemm and speck_spgemm: they analyse rows, choose bins, and count or
// multiply rows in tables of shared or global memory. See kernels/spgemm/hash/hash_bins.hpp.
#pragma once

#include <cstdint>

#include "kernels/spgemm/hash/hash_rows.cuh"

namespace tessera::hash_rows {

constexpr int kWarpsOfRows = 4;  // warps of a thread block, one row each
constexpr int kAnalysisThreads = 256, kLanesOfRow = 8;
constexpr int kRowsOfAnalysis = kAnalysisThreads / kLanesOfRow;  // per thread block
constexpr int kLongRow = 512;  // nonzeros of A; the whole thread block analyses longer rows
constexpr int kGlobalThreads = 1024;

struct Columns {
  int first, last;
};

/// The products and the column range of a row.
struct Found {
  int products, first, last;

  __device__ void scan(const Operands& x, std::int64_t k, std::int64_t end, int step) {
    for (; k < end; k += step) {
      const std::int64_t begin = x.b_offsets[x.a_cols[k]], stop = x.b_offsets[x.a_cols[k] + 1];
      if (begin == stop) continue;
      products += static_cast<int>(stop - begin);
      first = min(first, x.b_cols[begin]);
      last = max(last, x.b_cols[stop - 1]);
    }
  }
  __device__ void reduce(int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
      products += __shfl_xor_sync(kWholeWarp, products, step);
      first = min(first, __shfl_xor_sync(kWholeWarp, first, step));
      last = max(last, __shfl_xor_sync(kWholeWarp, last, step));
    }
  }
};

/// Analyses a long row of A by all threads of the thread block.
__device__ inline Found analyse_long(const Operands& x, std::int64_t row) {
  __shared__ Found all;
  if (threadIdx.x == 0) all = {0, kNoColumn, -1};
  __syncthreads();
  Found own{0, kNoColumn, -1};
  own.scan(x, x.a_offsets[row] + threadIdx.x, x.a_offsets[row + 1], kAnalysisThreads);
  own.reduce(32);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&all.products, own.products);
    atomicMin(&all.first, own.first);
    atomicMax(&all.last, own.last);
  }
  __syncthreads();
  const Found found = all;
  __syncthreads();  // before the next row overwrites it
  return found;
}

/// Analyses rows by a few lanes each, and then the long rows of the thread block. It also writes
/// nonzeros [rows + 1]: a row's products where its row of A has one nonzero, else 0, as for the
/// element after the last.
__global__ void __launch_bounds__(kAnalysisThreads)
    analyse(std::int64_t rows, Operands x, int* products, Columns* columns, int* nonzeros) {
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kRowsOfAnalysis;
  const std::int64_t row = first_row + threadIdx.x / kLanesOfRow;
  const int lane = threadIdx.x % kLanesOfRow;
  const auto length = [&](std::int64_t i) { return x.a_offsets[i + 1] - x.a_offsets[i]; };
  const bool is_long = row < rows && length(row) > kLongRow;
  Found found{0, kNoColumn, -1};
  if (row < rows && !is_long)
    found.scan(x, x.a_offsets[row] + lane, x.a_offsets[row + 1], kLanesOfRow);
  found.reduce(kLanesOfRow);
  if (row <= rows && lane == 0) nonzeros[row] = row < rows && length(row) == 1 ? found.products : 0;
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

/// The rows of a product, and its options and output.
struct Rows {
  Operands x;
  const int* products;
  const Columns* columns;
  MethodChoice choice;
  bool quadratic;
  int* nonzeros;  // of C: output of counting, input of multiplying
  float alpha;
  const std::int64_t* offsets;  // of C; used when multiplying
  int* cols = nullptr;
  float* values = nullptr;

  /// An upper bound on the row's nonzeros, before they are counted.
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
  static constexpr int kWatchedBin = kGlobalBin;
  Rows rows;

  __device__ row_bins::RowBin operator()(std::int64_t row) const {
    const Columns columns = rows.columns[row];
    const std::int64_t nonzeros = rows.expected<kMultiply>(row);
    return {rows.choice.bin({.a_nonzeros = rows.x.a_offsets[row + 1] - rows.x.a_offsets[row],
                             .products = rows.products[row],
                             .nonzeros = nonzeros,
                             .range = std::int64_t{columns.last} - columns.first + 1}),
            static_cast<int>(nonzeros)};
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

/// A table in shared memory: keys, then values and bids if the mode needs them.
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
/// Words of memory per slot of a table.
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

/// Copies scaled rows of B for rows of A with one nonzero, by a warp each.
__global__ void copy_rows(Rows rows, const int* listed, int count) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (at >= count) return;
  const int row = listed[at], lane = threadIdx.x % 32;
  const std::int64_t k = rows.x.a_offsets[row];
  const std::int64_t from = rows.x.b_offsets[rows.x.a_cols[k]], to = rows.offsets[row];
  const float a = rows.x.a_values[k];
  for (int i = lane; i < rows.nonzeros[row]; i += 32) {
    rows.cols[to + i] = rows.x.b_cols[from + i];
    rows.values[to + i] = rows.scaled(fmaf(a, rows.x.b_values[from + i], 0.0f));
  }
}

/// Tables in global memory, one for each thread block of a launch.
struct GlobalTables {
  int* keys;
  float* values;
  unsigned* bids;
  std::int64_t slots;  // of each
};

/// Counts rows, or multiplies row i of the list into cols and values from offsets[i] on, not
/// sorted.
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

/// Copies sorted rows to their places in C, by a thread block each.
__global__ void copy_sorted_rows(Rows rows, const int* listed, const std::int64_t* offsets,
                                 const int* cols, const float* values) {
  const int row = listed[blockIdx.x];
  const std::int64_t from = offsets[blockIdx.x], to = rows.offsets[row];
  for (int i = threadIdx.x; i < rows.nonzeros[row]; i += blockDim.x) {
    rows.cols[to + i] = cols[from + i];
    rows.values[to + i] = values[from + i];
  }
}

/// The nonzeros of a listed row; 0 after the last.
struct NonzerosOf {
  const int* nonzeros;
  const int* listed;
  int count;
  __host__ __device__ std::int64_t operator()(std::int64_t i) const {
    return i < count ? nonzeros[listed[i]] : 0;
  }
};

}  // namespace tessera::hash_rows
