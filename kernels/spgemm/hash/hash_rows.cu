// The device half of hash_spgemm and speck_spgemm: it analyses, counts and multiplies rows by the
// launches of kernels/spgemm/hash/hash_rows_kernels.cuh.
//
// The host waits twice: for the bins for counting, and for the bins for multiplying with the number
// of C's nonzeros. Tables that do not fit shared memory lie in global memory, a few at a time;
// their rows are sorted together at the end.

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cub/device/device_segmented_sort.cuh>
#include <functional>
#include <vector>

#include "kernels/device/side_streams.hpp"
#include "kernels/spgemm/hash/hash_rows_gpu.hpp"
#include "kernels/spgemm/hash/hash_rows_kernels.cuh"
#include "kernels/spgemm/shared/rows.cuh"

namespace tessera::hash_rows {
namespace {

using row_bins::blocks_for;

constexpr std::int64_t kGlobalTableBytes = std::int64_t{2} << 30;  // or as much as one row needs

using Bins = row_bins::RowBins<kBins>;

template <class Kernel, class... Args>
void launch(Kernel kernel, std::int64_t blocks, int threads, std::int64_t shared_words,
            cudaStream_t stream, Args... args) {
  const auto bytes = static_cast<int>(4 * shared_words);
  if (bytes > 48 * 1024)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "raising the limit of shared memory");
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(args...);
  cuda_check(cudaGetLastError(), "launching rows of C");
}

constexpr int threads_for(int slots) { return std::clamp(slots / 16, 256, 1024); }

template <class M>
constexpr std::int64_t block_words(int slots) {
  return std::int64_t{Chunk::kWordsPerLane} * threads_for(slots) + words_per_slot<M>(false) * slots;
}

/// The rows of one bin with tables of one size.
template <class M>
void launch_size(const Rows& rows, const int* listed, int count, int size, cudaStream_t stream) {
  const int slots = slots_of_size(size);
  if (size < kWarpSizes)
    launch(rows_by_warps<M>, blocks_for(count, kWarpsOfRows), 32 * kWarpsOfRows,
           kWarpsOfRows * (Chunk::kWordsPerLane * 32 + words_per_slot<M>(true) * slots), stream,
           rows, listed, count, slots);
  else
    launch(rows_by_blocks<M>, count, threads_for(slots), block_words<M>(slots), stream, rows,
           listed, slots);
}

/// The rows with tables in global memory. Their memory outlives this object.
template <class M>
class GlobalRows {
 public:
  GlobalRows(const Rows& rows, const Bins& bins, const row_bins::Counts<kBins>& counts,
             ProductRun& run, RunArray<std::byte>& room)
      : rows_(rows),
        listed_(bins.rows(kGlobalBin)),
        count_(bins.count(kGlobalBin)),
        nonzeros_(static_cast<std::int64_t>(counts.watched)),
        run_(run) {
    if (count_ == 0) return;
    tables_.slots = rows.choice.hash_slots(counts.largest);
    const std::int64_t bytes = 4 * words_per_slot<M>(false) * tables_.slots;
    num_tables_ = std::clamp<std::int64_t>(kGlobalTableBytes / bytes, 1, std::min(count_, 264));
    take(room);
  }

  bool has_rows() const { return count_ > 0; }

  void fill(cudaStream_t stream) {
    launch(rows_in_global_memory<M>, num_tables_, kGlobalThreads,
           Chunk::kWordsPerLane * kGlobalThreads, stream, rows_, listed_, count_, tables_, offsets_,
           cols_, values_);
  }

  /// Sorts the rows, once they are filled, into their places in C.
  void sort() {
    sort_pairs(scratch_.data(), static_cast<std::size_t>(scratch_.size()));
    launch(copy_sorted_rows, count_, 256, 0, run_.stream(), rows_, listed_, offsets_, sorted_cols_,
           sorted_values_);
  }

 private:
  auto lengths() const {
    return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                           NonzerosOf{rows_.nonzeros, listed_, count_});
  }

  /// Allocates tables and, when multiplying, offsets and rows before and after sorting. Sorted rows
  /// reuse the memory of the tables.
  void take(RunArray<std::byte>& room) {
    RunBlock block;
    const std::int64_t made = M::kMultiply ? nonzeros_ : 0;
    const std::int64_t offsets = M::kMultiply ? count_ + std::int64_t{1} : 0;
    const std::int64_t sum_bytes =
        M::kMultiply ? spgemm::running_sum_bytes<std::int64_t>(lengths(), offsets) : 0;
    const std::int64_t sort_bytes = M::kMultiply ? sort_pairs(nullptr, 0) : 0;
    const std::int64_t slots = num_tables_ * tables_.slots;

    const auto at_offsets = block.place<std::int64_t>(offsets);
    const auto at_sums = block.place<std::byte>(sum_bytes);
    const auto at_cols = block.place<int>(made), at_values = block.place<float>(made);
    const std::int64_t shared = block.next();
    const auto at_keys = block.place<int>(slots);
    const auto at_table_values = block.place<float>(M::kMultiply ? slots : 0);
    const auto at_bids = block.place<unsigned>(needs_bids<M>(false) ? slots : 0);
    block.place_over(shared);
    const auto at_sorted_cols = block.place<int>(made), at_sorted = block.place<float>(made);
    const auto at_scratch = block.place<std::byte>(sort_bytes);
    block.take(run_, room);

    tables_.keys = block.data<int>(at_keys);
    if constexpr (!M::kMultiply) return;
    tables_.values = block.data<float>(at_table_values);
    if (needs_bids<M>(false)) tables_.bids = block.data<unsigned>(at_bids);
    offsets_ = block.data<std::int64_t>(at_offsets);
    cols_ = block.data<int>(at_cols);
    values_ = block.data<float>(at_values);
    sorted_cols_ = block.data<int>(at_sorted_cols);
    sorted_values_ = block.data<float>(at_sorted);
    scratch_ = block.array<std::byte>(at_scratch, sort_bytes);
    spgemm::running_sum(block.array<std::byte>(at_sums, sum_bytes), lengths(), offsets_, offsets,
                        run_.stream());
  }

  /// Sorts, or with scratch = nullptr returns the bytes of scratch memory.
  std::int64_t sort_pairs(std::byte* scratch, std::size_t bytes) const {
    cuda_check(cub::DeviceSegmentedSort::SortPairs(
                   static_cast<void*>(scratch), bytes, const_cast<const int*>(cols_), sorted_cols_,
                   const_cast<const float*>(values_), sorted_values_, nonzeros_,
                   std::int64_t{count_}, offsets_, offsets_ + 1, run_.stream()),
               "sorting rows of C");
    return static_cast<std::int64_t>(bytes);
  }

  Rows rows_;
  const int* listed_;
  int count_;
  std::int64_t nonzeros_;  // of all these rows, or an upper bound
  ProductRun& run_;
  std::int64_t num_tables_ = 0;
  GlobalTables tables_{};
  std::int64_t* offsets_ = nullptr;  // [count + 1]
  int *cols_ = nullptr, *sorted_cols_ = nullptr;
  float *values_ = nullptr, *sorted_values_ = nullptr;
  RunArray<std::byte> scratch_;
};

/// Counts or multiplies all rows of C by one launch per bin, the largest tables first.
template <bool kMultiply, bool kAtomic>
void launch_bins(const Rows& rows, const Bins& bins, const row_bins::Counts<kBins>& counts,
                 ProductRun& run, RunArray<std::byte>& room, SideStreams& sides) {
  using Hash = Mode<false, kMultiply, kAtomic>;
  using Dense = Mode<true, kMultiply, kAtomic>;
  GlobalRows<Hash> global(rows, bins, counts, run, room);
  std::vector<std::function<void(cudaStream_t)>> launches;
  if (global.has_rows()) launches.push_back([&](cudaStream_t stream) { global.fill(stream); });
  for (int size = kSizes - 1; size >= 0; --size) {
    const int hash = kHashBins + size, dense = kDenseBins + size;
    if (bins.count(hash) > 0)
      launches.push_back([&rows, &bins, hash, size](cudaStream_t stream) {
        launch_size<Hash>(rows, bins.rows(hash), bins.count(hash), size, stream);
      });
    if (bins.count(dense) > 0)
      launches.push_back([&rows, &bins, dense, size](cudaStream_t stream) {
        launch_size<Dense>(rows, bins.rows(dense), bins.count(dense), size, stream);
      });
  }
  if (const int count = bins.count(kCopyBin); kMultiply && count > 0)
    launches.push_back([&, count](cudaStream_t stream) {
      launch(copy_rows, blocks_for(count, 8), 256, 0, stream, rows, bins.rows(kCopyBin), count);
    });
  sides.run(static_cast<int>(launches.size()), run.stream(),
            [&](int i, cudaStream_t stream) { launches[i](stream); });
  if (!kMultiply || !global.has_rows()) return;
  run.stage("sort");
  global.sort();
}

/// The memory of a product beside C and tables in global memory.
struct Workspace {
  Workspace(ProductRun& run, std::int64_t rows) {
    const std::int64_t sum_bytes =
        spgemm::running_sum_bytes<std::int64_t>(static_cast<const int*>(nullptr), rows + 1);
    const auto at_products = block.place<int>(rows), at_nonzeros = block.place<int>(rows + 1);
    const auto at_columns = block.place<Columns>(rows);
    const auto at_bins = block.place<std::uint8_t>(rows);
    const auto at_listed = block.place<int>(rows);
    const auto at_states = block.place<Bins::State>(2);
    const auto at_scratch = block.place<std::byte>(sum_bytes);
    block.take(run);
    products = block.data<int>(at_products);
    nonzeros = block.data<int>(at_nonzeros);
    columns = block.data<Columns>(at_columns);
    auto* states = block.data<Bins::State>(at_states);
    for (int pass = 0; pass < 2; ++pass)
      bins[pass] = Bins(
          rows, {block.data<std::uint8_t>(at_bins), block.data<int>(at_listed), states + pass});
    scratch = block.array<std::byte>(at_scratch, sum_bytes);
    cuda_check(cudaMemsetAsync(states, 0, 2 * sizeof(*states), run.stream()), "clearing counts");
  }

  RunBlock block;
  int* products;                // [rows]
  int* nonzeros;                // [rows + 1]
  Columns* columns;             // [rows]
  Bins bins[2];                 // for counting and for multiplying, in the same memory
  RunArray<std::byte> scratch;  // of prefix sums
};

class TableProduct final : public GpuSparseProduct {
 public:
  TableProduct(const CsrMatrix& a, const CsrMatrix& b, const Options& options)
      : options_(options), a_(a), b_(b) {}

  void multiply(float alpha, ProductRun& run) override {
    release();
    const cudaStream_t stream = run.stream();
    Workspace work(run, a_.rows);
    Rows rows{.x = operands(),
              .products = work.products,
              .columns = work.columns,
              .choice = options_.choice,
              .quadratic = options_.quadratic,
              .nonzeros = work.nonzeros,
              .alpha = alpha,
              .offsets = nullptr};
    RunArray<std::byte> room;  // of rows with tables in global memory
    run.stage("analyse");
    launch(analyse, blocks_for(std::int64_t{a_.rows} + 1, kRowsOfAnalysis), kAnalysisThreads, 0,
           stream, std::int64_t{a_.rows}, rows.x, work.products, work.columns, work.nonzeros);
    run.stage("count");
    auto& [to_count, to_multiply] = work.bins;
    list(to_count, BinOf<false>{rows}, stream);
    launch_bins<false, false>(rows, to_count, *counts_, run, room, sides_);
    run.stage("allocate");
    list(to_multiply, BinOf<true>{rows}, stream);
    SparseResult c =
        SparseResult::in_one_block(run, a_.rows, b_.cols, static_cast<std::int64_t>(counts_->all));
    spgemm::running_sum(work.scratch, work.nonzeros, c.row_offsets.data(), c.row_offsets.size(),
                        stream);
    rows.offsets = c.row_offsets.data();
    rows.cols = c.col_indices.data();
    rows.values = c.values.data();
    run.stage("multiply");
    (options_.atomic ? launch_bins<true, true>
                     : launch_bins<true, false>)(rows, to_multiply, *counts_, run, room, sides_);
    c_ = std::move(c);
  }

  void release() override { c_ = {}; }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  Operands operands() const {
    return {a_.row_offsets.data(), a_.col_indices.data(), a_.values.data(),
            b_.row_offsets.data(), b_.col_indices.data(), b_.values.data()};
  }

  /// Sorts rows into bins. Waits for the counts.
  template <class BinOf>
  void list(Bins& bins, BinOf bin_of, cudaStream_t stream) {
    bins.choose(bin_of, stream);
    counts_.request(bins.counts(), stream);
    bins.list(counts_.wait(stream), stream);
  }

  Options options_;
  DeviceCsr a_, b_;
  ReadBack<row_bins::Counts<kBins>> counts_;
  SideStreams sides_;
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
    require<Unsupported>(matrix.nnz() <= kMost, "{} has {} nonzeros; it may have at most {}", name,
                         matrix.nnz(), kMost);
  }

  static void require_shared_memory() {
    int device = 0, bytes = 0;
    cuda_check(cudaGetDevice(&device), "finding the device");
    cuda_check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "raising the limit of shared memory");
    constexpr std::int64_t kMost = 4 * block_words<Mode<false, true, false>>(kMostSlots) + 256;
    require<Unsupported>(bytes >= kMost,
                         "tables need {} bytes of shared memory; a thread block may have {}", kMost,
                         bytes);
  }

  Options options_;
};

}  // namespace

std::unique_ptr<GpuSpgemm> make_gpu(const Options& options) {
  return std::make_unique<TableSpgemm>(options);
}

}  // namespace tessera::hash_rows
