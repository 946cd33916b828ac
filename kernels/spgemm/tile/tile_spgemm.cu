// Device half of tile_spgemm: it makes tiles from CSR and tasks from tiles, counts the cells of C
// and adds them up. The host waits once, for the number of C's nonzeros. See
// kernels/spgemm/tile/tile_spgemm.cpp.

#include <algorithm>
#include <optional>

#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm/shared/rows.cuh"
#include "kernels/spgemm/tile/sums.cuh"

namespace tessera {
namespace {

using namespace tile_spgemm;

void check_launch() { cuda_check(cudaGetLastError(), "launching tile_spgemm"); }

unsigned blocks_for(std::int64_t threads) { return spgemm::grid_for(threads, kThreads); }

/// The memory of a product, C excepted, in one block.
template <class Value>
class Workspace {
 public:
  Workspace(ProductRun& run, const CsrView& a, const CsrView& b, bool is_square, bool with_places)
      : tile_rows_(a.tile_rows), rows_(a.rows) {
    const std::int64_t of_scan = spgemm::running_sum_bytes<std::int64_t>(
        static_cast<const std::uint32_t*>(nullptr), rows_ + 1);
    most_slices_ = static_cast<std::uint32_t>(most_slices(tile_rows_, b.tile_cols));
    const std::int64_t tasks = tile_rows_ + most_slices_;
    const std::int64_t a_places = with_places ? a.nonzeros : 0,
                       b_places = with_places ? b.nonzeros : 0;
    const std::int64_t at_found = block_.place<Totals>(1);
    const std::int64_t at_lengths = block_.place<std::uint32_t>(kSide * tile_rows_ + 1);
    cleared_ = block_.next() - at_found;
    const std::int64_t at_offsets = block_.place<std::int64_t>(rows_ + 1);
    const std::int64_t at_tasks = block_.place<Task>(tasks);
    const std::int64_t at_cells = block_.place<std::uint32_t>(kSide * tasks);
    const std::int64_t at_a = block_.place<Tile>(a.nonzeros);
    const std::int64_t at_a_rows = block_.place<TileRow>(a.tile_rows);
    const std::int64_t at_b = is_square ? at_a : block_.place<Tile>(b.nonzeros);
    const std::int64_t at_b_rows = is_square ? at_a_rows : block_.place<TileRow>(b.tile_rows);
    const std::int64_t at_a_values = block_.place<Value>(a.nonzeros);
    const std::int64_t at_b_values = block_.place<Value>(b.nonzeros);
    const std::int64_t at_a_places = block_.place<std::uint32_t>(a_places);
    const std::int64_t at_b_places = block_.place<std::uint32_t>(b_places);
    const std::int64_t at_scratch = block_.place<std::byte>(of_scan);
    block_.take(run);
    found = block_.data<Totals>(at_found);
    row_lengths = block_.data<std::uint32_t>(at_lengths);
    row_offsets = block_.data<std::int64_t>(at_offsets);
    scratch_ = block_.array<std::byte>(at_scratch, of_scan);
    tasks_ = block_.data<Task>(at_tasks);
    cells_ = block_.data<std::uint32_t>(at_cells);
    a_tiles = block_.data<Tile>(at_a);
    b_tiles = block_.data<Tile>(at_b);
    a_rows = block_.data<TileRow>(at_a_rows);
    b_rows = block_.data<TileRow>(at_b_rows);
    const auto values_at = [&](std::int64_t values, std::int64_t places) {
      return OrderedValues<Value>{block_.data<Value>(values),
                                  with_places ? block_.data<std::uint32_t>(places) : nullptr};
    };
    a_values = values_at(at_a_values, at_a_places);
    b_values = values_at(at_b_values, at_b_places);
  }

  /// Clears the arrays that start as zero.
  void clear(cudaStream_t stream) const {
    cuda_check(cudaMemsetAsync(found, 0, static_cast<std::size_t>(cleared_), stream), "clearing");
  }

  TileMatrix a() const { return {a_tiles, a_rows}; }
  TileMatrix b() const { return {b_tiles, b_rows}; }
  TasksView tasks() const { return {tile_rows_, most_slices_, tasks_, cells_, found}; }
  std::int64_t most_tasks() const { return std::int64_t{tile_rows_} + most_slices_; }

  /// Finds where the rows of C begin, from their lengths.
  void place_rows(cudaStream_t stream) const {
    spgemm::running_sum(scratch_, static_cast<const std::uint32_t*>(row_lengths), row_offsets,
                        rows_ + 1, stream);
  }

  Totals* found;                            // [1]
  std::uint32_t* row_lengths;               // [8 tile rows + 1] of C
  std::int64_t* row_offsets;                // [rows + 1] of C
  Tile *a_tiles, *b_tiles;                  // [nonzeros]; the same where B is A
  TileRow *a_rows, *b_rows;                 // [tile rows]
  OrderedValues<Value> a_values, b_values;  // [nonzeros]; A by rows, B by columns

 private:
  RunBlock block_;
  std::int32_t tile_rows_;
  std::int64_t rows_;
  std::uint32_t most_slices_;
  std::int64_t cleared_;         // bytes
  RunArray<std::byte> scratch_;  // of prefix sums
  Task* tasks_;
  std::uint32_t* cells_;
};

CsrView view_of(const DeviceCsr& csr) {
  return {csr.rows,         tiles_across(csr.rows), tiles_across(csr.cols),
          csr.nnz,          csr.row_offsets.data(), csr.col_indices.data(),
          csr.values.data()};
}

template <TileArithmetic kArithmetic>
class TileProduct final : public GpuSparseProduct {
 public:
  TileProduct(const CsrMatrix& a, const CsrMatrix& b, bool reuse)
      : reuse_(reuse), a_(a), rows_(a.rows), cols_(b.cols) {
    if (&a != &b) b_.emplace(b);
    constexpr int kThreadsOfMultiprocessor = 2048;
    resident_blocks_ = static_cast<unsigned>(sms_of_gpu()) * (kThreadsOfMultiprocessor / kThreads);
  }

  void multiply(float alpha, ProductRun& run) override {
    const CsrView a = view_of(a_), b = view_of(b_ ? *b_ : a_);
    if (a.nonzeros == 0 || b.nonzeros == 0) return make_empty(run);
    const cudaStream_t stream = run.stream();
    run.stage("tiles");
    Space space(run, a, b, is_square(), reuse_);
    space.clear(stream);
    make_tiles(a, b, space, stream);
    run.stage("cells");
    count(space, stream);
    run.stage("multiplication");
    found_.request(space.found, stream);
    nonzeros_.request(space.row_offsets + rows_, stream);
    c_ = SparseResult::in_one_block(run, rows_, cols_, nonzeros_.wait(stream));
    cuda_check(
        cudaMemcpyAsync(c_.row_offsets.data(), space.row_offsets,
                        static_cast<std::size_t>(c_.row_offsets.size()) * sizeof(std::int64_t),
                        cudaMemcpyDeviceToDevice, stream),
        "copying the offsets of rows");
    sum(alpha, space, true, stream);
    if (reuse_) kept_.emplace(std::move(space));
  }

  bool keeps_structure() const override { return reuse_; }

  void multiply_again(float alpha, ProductRun& run) override {
    require<Unsupported>(reuse_, "tile_spgemm repeats a product only with reuse = true");
    require(c_.row_offsets.size() > 0, "tile_spgemm has no product to repeat; multiply first");
    if (!kept_) return;  // C is empty
    const cudaStream_t stream = run.stream();
    run.stage("values");
    renew(*kept_, stream);
    run.stage("multiplication");
    cuda_check(cudaMemsetAsync(kept_->found->cursors, 0, sizeof(Totals::cursors), stream),
               "clearing");
    sum(alpha, *kept_, false, stream);
  }

  void set_values(std::span<const float> a, std::span<const float> b) override {
    require_values(a, b, a_.values.size(), b_ ? b_->values.size() : 0);
    check_values(a, 'A', kArithmetic);
    check_values(b, 'B', kArithmetic);
    a_.values.upload(a);
    if (b_) b_->values.upload(b);
  }

  void release() override {
    kept_.reset();
    c_ = {};
  }
  const SparseResult* result() const override { return &c_; }
  CsrMatrix download() const override { return c_.download(); }

 private:
  using Value = typename Sums<kArithmetic>::Value;
  using Space = Workspace<Value>;
  static constexpr bool kScales = Sums<kArithmetic>::kScales;

  bool is_square() const { return !b_.has_value(); }

  void make_empty(ProductRun& run) {
    c_ = SparseResult::in_one_block(run, rows_, cols_, 0);
    cuda_check(
        cudaMemsetAsync(c_.row_offsets.data(), 0,
                        static_cast<std::size_t>(c_.row_offsets.size()) * sizeof(std::int64_t),
                        run.stream()),
        "making an empty C");
  }

  void make_tiles(const CsrView& a, const CsrView& b, const Space& space, cudaStream_t stream) {
    std::uint32_t* largest = kScales ? space.found->largest : nullptr;
    if constexpr (kScales) find_scales(a, b, largest, stream);
    const OrderedValues<Value> none{};
    fill(
        a,
        {space.a_tiles, space.a_rows, largest, space.a_values, is_square() ? space.b_values : none},
        stream);
    if (!is_square())
      fill(b, {space.b_tiles, space.b_rows, kScales ? largest + 1 : nullptr, none, space.b_values},
           stream);
  }

  static void fill(const CsrView& csr, const FillTarget<Value>& to, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>(FillTiles::thread_blocks(csr.tile_rows));
    const auto bytes = static_cast<std::size_t>(FillTiles::slot_bytes(csr.tile_cols));
    fill_tiles<Value><<<blocks, kThreads, bytes, stream>>>(csr, to);
    check_launch();
  }

  void find_scales(const CsrView& a, const CsrView& b, std::uint32_t* largest,
                   cudaStream_t stream) const {
    const auto find = [&](const CsrView& csr, std::uint32_t* of_matrix, int factors) {
      constexpr unsigned kMostBlocks = 1024;
      find_largest<<<std::min(blocks_for(csr.nonzeros), kMostBlocks), kThreads, 0, stream>>>(
          csr.values, csr.nonzeros, of_matrix, factors);
      check_launch();
    };
    find(a, largest, is_square() ? 2 : 1);
    if (!is_square()) find(b, largest + 1, 1);
  }

  /// Stores the current values of A and B in their tiles.
  void renew(const Space& space, cudaStream_t stream) const {
    const CsrView a = view_of(a_), b = view_of(b_ ? *b_ : a_);
    std::uint32_t* largest = kScales ? space.found->largest : nullptr;
    if constexpr (kScales) {
      cuda_check(cudaMemsetAsync(largest, 0, sizeof(Totals::largest), stream), "clearing");
      find_scales(a, b, largest, stream);
    }
    const auto renew_one = [&](const CsrView& csr, const std::uint32_t* of_matrix,
                               const OrderedValues<Value>& by_rows,
                               const OrderedValues<Value>& by_cols) {
      renew_values<Value><<<blocks_for(csr.nonzeros), kThreads, 0, stream>>>(
          csr.values, csr.nonzeros, of_matrix, by_rows, by_cols);
      check_launch();
    };
    if (is_square()) return renew_one(a, largest, space.a_values, space.b_values);
    renew_one(a, largest, space.a_values, {});
    renew_one(b, kScales ? largest + 1 : nullptr, {}, space.b_values);
  }

  /// Makes the tasks and counts their cells in each row of C.
  void count(Space& space, cudaStream_t stream) {
    const TasksView tasks = space.tasks();
    const DeviceCsr& b = b_ ? *b_ : a_;
    make_tasks<<<static_cast<unsigned>(MakeTasks::thread_blocks(tasks.tile_rows)), kThreads, 0,
                 stream>>>(space.a(), space.b(), pairs_of_task(a_.nnz, b.nnz, b.rows), tasks);
    check_launch();
    count_cells<<<blocks_of_tasks(space), kThreads, 0, stream>>>(space.a(), space.b(), tasks,
                                                                 space.row_lengths);
    check_launch();
    space.place_rows(stream);
  }

  /// The number of thread blocks that the device holds at once, or the most tasks if fewer.
  unsigned blocks_of_tasks(const Space& space) const {
    return static_cast<unsigned>(std::min(std::int64_t{resident_blocks_}, space.most_tasks()));
  }

  /// Requires that the host has read Totals.
  void sum(float alpha, const Space& space, bool with_cols, cudaStream_t stream) {
    const Output output{rows_,
                        space.row_offsets,
                        with_cols ? c_.col_indices.data() : nullptr,
                        c_.values.data(),
                        alpha,
                        kScales ? space.found->largest : nullptr};
    if (found_->longest > kShortRow) sum_rows<LongRowMatches>(space, output, stream);
    sum_rows<ShortRowMatches>(space, output, stream);
  }

  /// Adds up the tasks with long tile rows of A, or with short ones.
  template <class Matches>
  void sum_rows(const Space& space, const Output& output, cudaStream_t stream) {
    const auto kernel = make_sums<kArithmetic, Matches>;
    const int bytes = static_cast<int>(sums_bytes<kArithmetic, Matches>(found_->longest));
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "reserving shared memory");
    const Values<kArithmetic> values{space.a_values.values, space.b_values.values};
    kernel<<<blocks_of_tasks(space), kThreads, bytes, stream>>>(space.a(), space.b(), values,
                                                                space.tasks(), output);
    check_launch();
  }

  bool reuse_;
  DeviceCsr a_;
  std::optional<DeviceCsr> b_;  // where it is not A
  std::int32_t rows_, cols_;
  unsigned resident_blocks_;
  ReadBack<Totals> found_;
  ReadBack<std::int64_t> nonzeros_;
  SparseResult c_;
  std::optional<Space> kept_;  // of the last product, for multiply_again()
};

class GpuTileSpgemm final : public GpuSpgemm {
 public:
  explicit GpuTileSpgemm(TileSpgemmOptions options) : options_(options) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    const auto [arithmetic, reuse] = options_;
    check_operands(a, b, arithmetic);
    if (arithmetic == TileArithmetic::kFp16)
      return std::make_unique<TileProduct<TileArithmetic::kFp16>>(a, b, reuse);
    if (arithmetic == TileArithmetic::kTf32)
      return std::make_unique<TileProduct<TileArithmetic::kTf32>>(a, b, reuse);
    return std::make_unique<TileProduct<TileArithmetic::kTf32x3>>(a, b, reuse);
  }

 private:
  TileSpgemmOptions options_;
};

const Register<GpuSpgemm> entry{{
    .name = "tile_spgemm",
    .summary = "device half of tile_spgemm",
    .make =
        [](const Params& params) {
          return std::make_unique<GpuTileSpgemm>(TileSpgemmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
