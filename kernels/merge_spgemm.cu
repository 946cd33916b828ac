// Device half of merge_spgemm. See kernels/merge_spgemm.cpp.
//
// Level 0 merges rows of B; each further level merges what the one before left of those rows of A
// that had more inputs than a group has lanes. A row of C is made at the level where they are few
// enough. What is left of a level stays until C is complete: it is counted and multiplied from.

#include "kernels/merge_spgemm.hpp"

#include <deque>

#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/row_bins.cuh"

namespace tessera {
namespace {

using namespace merge_spgemm;
using row_bins::blocks_for;
using row_bins::kWholeWarp;

constexpr int kThreads = 256;
constexpr int kNoColumn = 0x7fffffff;  // behind all columns
constexpr int kEmptyBin = kWidths, kLongBin = kWidths + 1, kBins = kWidths + 2;

/// Sparse rows, and in which order they are merged: input k is row order[k], scaled, or row k.
struct Inputs {
  const std::int64_t* offsets;
  const int* cols;
  const float* values;
  const int* order;     // null: as they are
  const float* scales;  // with an order
};

/// Task i merges inputs [begins[place], ends[place]), into row `to[place]`; a null list or row is
/// the number itself.
struct Tasks {
  std::int64_t count;
  const int* places;
  const std::int64_t* begins;
  const std::int64_t* ends;
  const int* to;
};

/// Where merged rows go: their lengths when counting, their columns and values when multiplying.
struct Merged {
  int* lengths = nullptr;
  const std::int64_t* offsets = nullptr;
  int* cols = nullptr;
  float* values = nullptr;
  float alpha = 1;
};

/// A lane's way through a sparse row.
template <bool kMultiply, bool kScales>
struct Cursor {
  std::int64_t at = 0, end = 0;
  float scale = 0;
  int col = kNoColumn;
  float value = 0;

  __device__ void begin(const Inputs& inputs, std::int64_t k) {
    const std::int64_t row = kScales ? inputs.order[k] : k;
    at = inputs.offsets[row];
    end = inputs.offsets[row + 1];
    if (kScales && kMultiply) scale = inputs.scales[k];
    load(inputs);
  }
  __device__ void next(const Inputs& inputs) {
    ++at;
    load(inputs);
  }
  /// The product is rounded: it must not become part of a fused multiply-add.
  __device__ float product() const { return kScales ? __fmul_rn(scale, value) : value; }

 private:
  __device__ void load(const Inputs& inputs) {
    col = at < end ? inputs.cols[at] : kNoColumn;
    if (kMultiply && at < end) value = inputs.values[at];
  }
};

template <int kWidth>
__device__ int least_of_group(int x) {
  for (int step = kWidth / 2; step > 0; step /= 2) x = min(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}

template <int kWidth>
__device__ float sum_of_group(float x) {
  for (int step = kWidth / 2; step > 0; step /= 2)
    x = __fadd_rn(x, __shfl_xor_sync(kWholeWarp, x, step));
  return x;
}

/// Keeps a group's last elements, one a lane, until there is one for each.
template <int kWidth>
struct Writer {
  int made = 0;
  int col = 0;
  float value = 0;

  __device__ void put(int new_col, float new_value, const Merged& merged, std::int64_t to,
                      int lane) {
    if (made % kWidth == lane) {
      col = new_col;
      value = new_value;
    }
    if (++made % kWidth == 0) store(merged, to + made - kWidth + lane);
  }
  __device__ void flush(const Merged& merged, std::int64_t to, int lane) const {
    if (lane < made % kWidth) store(merged, to + made - made % kWidth + lane);
  }

 private:
  __device__ void store(const Merged& merged, std::int64_t at) const {
    merged.cols[at] = col;
    merged.values[at] = merged.alpha == 1 ? value : merged.alpha * value;
  }
};

/// A group of kWidth lanes per task. All groups of a warp stay until the last is done.
template <int kWidth, bool kMultiply, bool kScales>
__global__ void __launch_bounds__(kThreads) merge(Tasks tasks, Inputs inputs, Merged merged) {
  const std::int64_t task = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWidth;
  const int lane = threadIdx.x % kWidth;
  std::int64_t row = 0, to = 0;
  Cursor<kMultiply, kScales> cursor;
  if (task < tasks.count) {
    const std::int64_t place = tasks.places == nullptr ? task : tasks.places[task];
    row = tasks.to == nullptr ? place : tasks.to[place];
    if (kMultiply) to = merged.offsets[row];
    const std::int64_t k = tasks.begins[place] + lane;
    if (k < tasks.ends[place]) cursor.begin(inputs, k);
  }
  Writer<kWidth> writer;
  for (;;) {
    const int least = least_of_group<kWidth>(cursor.col);
    const bool goes_on = least != kNoColumn, takes = goes_on && cursor.col == least;
    if (!__any_sync(kWholeWarp, goes_on)) break;
    if constexpr (kMultiply) {
      const float sum = sum_of_group<kWidth>(takes ? cursor.product() : 0.0f);
      if (goes_on) writer.put(least, sum, merged, to, lane);
    } else {
      writer.made += goes_on;
    }
    if (takes) cursor.next(inputs);
  }
  if constexpr (kMultiply)
    writer.flush(merged, to, lane);
  else if (task < tasks.count && lane == 0)
    merged.lengths[row] = writer.made;
}

template <bool kMultiply, bool kScales, int kClass = 0>
void launch_merge(int width_class, const Tasks& tasks, const Inputs& inputs, const Merged& merged,
                  cudaStream_t stream) {
  if constexpr (kClass + 1 < kWidths)
    if (width_class != kClass)
      return launch_merge<kMultiply, kScales, kClass + 1>(width_class, tasks, inputs, merged,
                                                          stream);
  if (tasks.count == 0) return;
  constexpr int kWidth = width_of_class(kClass);
  merge<kWidth, kMultiply, kScales>
      <<<blocks_for(tasks.count, kThreads / kWidth), kThreads, 0, stream>>>(tasks, inputs, merged);
  cuda_check(cudaGetLastError(), "merging rows");
}

template <bool kMultiply>
void launch_merge(int width_class, const Tasks& tasks, const Inputs& inputs, const Merged& merged,
                  ProductRun& run) {
  if (inputs.order != nullptr)
    launch_merge<kMultiply, true>(width_class, tasks, inputs, merged, run.stream());
  else
    launch_merge<kMultiply, false>(width_class, tasks, inputs, merged, run.stream());
}

/// Bins of the rows of a level by their inputs.
struct BinOf {
  const std::int64_t* begins;
  int most_rows;

  __device__ int operator()(std::int64_t place) const {
    const std::int64_t inputs = begins[place + 1] - begins[place];
    if (inputs == 0) return kEmptyBin;
    return inputs > most_rows ? kLongBin : width_class_for(inputs);
  }
};

/// Long rows become the rows of the next level.
__global__ void count_pieces(int count, const int* places, const std::int64_t* begins,
                             const int* rows, int most_rows, int* next_rows, int* pieces) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int place = places[i];
  next_rows[i] = rows == nullptr ? place : rows[place];
  const std::int64_t inputs = begins[place + 1] - begins[place];
  pieces[i] = static_cast<int>((inputs + most_rows - 1) / most_rows);
}

/// A warp per long row.
__global__ void list_pieces(int count, const int* places, const std::int64_t* begins,
                            const std::int64_t* next_begins, int most_rows,
                            std::int64_t* piece_begins, std::int64_t* piece_ends) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= count) return;
  const std::int64_t end = begins[places[i] + 1];
  std::int64_t begin = begins[places[i]] + threadIdx.x % 32 * most_rows;
  for (std::int64_t piece = next_begins[i] + threadIdx.x % 32; piece < next_begins[i + 1];
       piece += 32, begin += 32 * most_rows) {
    piece_begins[piece] = begin;
    piece_ends[piece] = min(begin + most_rows, end);
  }
}

/// Rows of C in the making, each with a run of inputs.
class Level {
 public:
  /// Level 0: all rows of A, and B.
  Level(const DeviceCsr& a, const DeviceCsr& b, int most_rows, ProductRun& run)
      : run_(run),
        most_rows_(most_rows),
        begins_(a.row_offsets.data()),
        inputs_{b.row_offsets.data(), b.col_indices.data(), b.values.data(), a.col_indices.data(),
                a.values.data()},
        bins_(a.rows, BinOf{begins_, most_rows}, run) {}

  /// The long rows of the level before, their inputs merged in pieces; there has to be one.
  explicit Level(const Level* before)
      : run_(before->run_),
        most_rows_(before->most_rows_),
        rows_(run_, before->long_rows()),
        own_begins_(before->cut(rows_)),
        begins_(own_begins_.data()),
        inputs_(merge_pieces(*before)),
        bins_(before->long_rows(), BinOf{begins_, most_rows_}, run_) {}

  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  int long_rows() const { return bins_.count(kLongBin); }

  /// Those rows that are not long.
  template <bool kMultiply>
  void merge_rows(const Merged& merged) const {
    for (int width_class = 0; width_class < kWidths; ++width_class)
      launch_merge<kMultiply>(
          width_class,
          {bins_.count(width_class), bins_.rows(width_class), begins_, begins_ + 1, rows_.data()},
          inputs_, merged, run_);
  }

 private:
  /// Names the long rows, and tells where each one's pieces begin.
  RunArray<std::int64_t> cut(const RunArray<int>& rows) const {
    const int count = long_rows();
    RunArray<std::int64_t> begins(run_, std::int64_t{count} + 1);
    const RunArray<int> pieces(run_, count);
    count_pieces<<<blocks_for(count, kThreads), kThreads, 0, run_.stream()>>>(
        count, bins_.rows(kLongBin), begins_, rows_.data(), most_rows_, rows.data(), pieces.data());
    cuda_check(cudaGetLastError(), "cutting long rows");
    row_bins::sum_up(pieces.data(), begins.data(), count, run_);
    return begins;
  }

  Inputs merge_pieces(const Level& before) {
    const int count = before.long_rows();
    const std::int64_t pieces = read_back(begins_ + count, run_.stream());
    const RunArray<std::int64_t> piece_begins(run_, pieces), piece_ends(run_, pieces);
    list_pieces<<<blocks_for(count, kThreads / 32), kThreads, 0, run_.stream()>>>(
        count, before.bins_.rows(kLongBin), before.begins_, begins_, most_rows_,
        piece_begins.data(), piece_ends.data());
    cuda_check(cudaGetLastError(), "listing pieces of long rows");
    const Tasks tasks{pieces, nullptr, piece_begins.data(), piece_ends.data(), nullptr};
    const int width_class = width_class_for(most_rows_);

    const RunArray<int> lengths(run_, pieces);
    launch_merge<false>(width_class, tasks, before.inputs_, {.lengths = lengths.data()}, run_);
    offsets_ = RunArray<std::int64_t>(run_, pieces + 1);
    row_bins::sum_up(lengths.data(), offsets_.data(), pieces, run_);
    const std::int64_t nonzeros = read_back(offsets_.data() + pieces, run_.stream());
    cols_ = RunArray<int>(run_, nonzeros);
    values_ = RunArray<float>(run_, nonzeros);
    launch_merge<true>(width_class, tasks, before.inputs_,
                       {.offsets = offsets_.data(), .cols = cols_.data(), .values = values_.data()},
                       run_);
    return {offsets_.data(), cols_.data(), values_.data(), nullptr, nullptr};
  }

  ProductRun& run_;
  int most_rows_;
  RunArray<int> rows_;                 // of C; none: all
  RunArray<std::int64_t> own_begins_;  // [rows + 1], none at level 0
  const std::int64_t* begins_;         // of each row's inputs
  RunArray<std::int64_t> offsets_;     // of the inputs, which are the pieces of the level before
  RunArray<int> cols_;
  RunArray<float> values_;
  Inputs inputs_;
  row_bins::RowBins<kBins> bins_;
};

class MergeProduct final : public GpuSparseProduct {
 public:
  MergeProduct(const CsrMatrix& a, const CsrMatrix& b, int most_rows)
      : most_rows_(most_rows), a_(a), b_(b) {}

  void multiply(float alpha, ProductRun& run) override {
    release();
    SparseResult c;
    c.rows = a_.rows;
    c.cols = b_.cols;
    c.row_offsets = RunArray<std::int64_t>(run, std::int64_t{a_.rows} + 1);
    run.stage("pieces");
    std::deque<Level> levels;
    levels.emplace_back(a_, b_, most_rows_, run);
    while (levels.back().long_rows() > 0) levels.emplace_back(&levels.back());
    run.stage("count");
    count(levels, c, run);
    run.stage("multiply");
    const Merged merged{.offsets = c.row_offsets.data(),
                        .cols = c.col_indices.data(),
                        .values = c.values.data(),
                        .alpha = alpha};
    for (const Level& level : levels) level.merge_rows<true>(merged);
    c_ = std::move(c);
  }

  void release() override { c_ = {}; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  /// Leaves C with its offsets and room for its nonzeros.
  static void count(const std::deque<Level>& levels, SparseResult& c, ProductRun& run) {
    const RunArray<int> lengths(run, c.rows);
    if (c.rows > 0)
      cuda_check(cudaMemsetAsync(lengths.data(), 0, sizeof(int) * c.rows, run.stream()),
                 "clearing the lengths of rows");
    for (const Level& level : levels) level.merge_rows<false>({.lengths = lengths.data()});
    run.stage("allocate");
    row_bins::sum_up(lengths.data(), c.row_offsets.data(), c.rows, run);
    const std::int64_t nonzeros = read_back(c.row_offsets.data() + c.rows, run.stream());
    c.col_indices = RunArray<int>(run, nonzeros);
    c.values = RunArray<float>(run, nonzeros);
  }

  int most_rows_;
  DeviceCsr a_, b_;
  SparseResult c_;
};

class GpuMergeSpgemm final : public GpuSpgemm {
 public:
  explicit GpuMergeSpgemm(int most_rows) : most_rows_(most_rows) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
    require<Unsupported>(a.nnz() <= kMost && b.nnz() <= kMost,
                         "A has {} and B {} nonzeros; at most {} fit", a.nnz(), b.nnz(), kMost);
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
