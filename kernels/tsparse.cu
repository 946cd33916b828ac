// Device half of tsparse: the pipeline around the launches of kernels/tsparse_kernels.cuh. See
// kernels/tsparse.cpp.

#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <type_traits>

#include "formats/base/registry.hpp"
#include "formats/running_sum.cuh"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/half_operand.hpp"
#include "kernels/tsparse_kernels.cuh"

namespace tessera {
namespace {

using namespace tsparse_spgemm;

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

void check_launch() { cuda_check(cudaGetLastError(), "launching tsparse"); }

/// An operand on the device.
template <class Value>
struct DeviceTiles {
  explicit DeviceTiles(const TileOperand& operand)
      : tiles(operand.tiles), row_of_tile(operand.row_of_tile), row_begin(operand.row_begin) {
    if constexpr (std::is_same_v<Value, float>)
      values = DeviceArray<Value>(operand.values);
    else
      values = DeviceArray<Value>(to_half(operand.values));
  }

  std::int64_t count() const { return static_cast<std::int64_t>(tiles.size()); }
  TilesView<Value> view() const { return {tiles.data(), row_begin.data(), values.data()}; }

  DeviceArray<Tile> tiles;
  DeviceArray<std::int32_t> row_of_tile;  // [tiles]
  DeviceArray<std::uint32_t> row_begin;   // [tile rows + 1]
  DeviceArray<Value> values;              // [nnz]
};

/// Tiles of C in a run's memory.
struct DeviceTilesOfC {
  DeviceTilesOfC(ProductRun& run, std::int64_t tiles)
      : tile_row(run, tiles),
        tile_col(run, tiles),
        bitmap(run, tiles),
        first_value(run, tiles + 1) {}

  std::int64_t count() const { return bitmap.size(); }
  ViewOfC view() const {
    return {tile_row.data(), tile_col.data(), bitmap.data(), first_value.data(), values.data()};
  }
  TilesOfC download() const {
    return {bring(tile_row), bring(tile_col), bring(bitmap), bring(first_value), bring(values)};
  }

  RunArray<std::int32_t> tile_row, tile_col;  // [tiles]
  RunArray<std::uint64_t> bitmap;             // [tiles]
  RunArray<std::int64_t> first_value;         // [tiles + 1]
  RunArray<float> values;

 private:
  template <class T>
  static std::vector<T> bring(const RunArray<T>& array) {
    std::vector<T> host(static_cast<std::size_t>(array.size()));
    cuda_check(
        cudaMemcpy(host.data(), array.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost),
        "bringing C back");
    return host;
  }
};

/// What CUB's algorithms work in; it grows with what they ask for.
class Scratch {
 public:
  explicit Scratch(ProductRun& run) : run_(&run) {}

  /// call(memory, bytes), twice, as CUB wants it.
  template <class Call>
  void with(const char* doing, Call call) {
    std::size_t bytes = 0;
    cuda_check(call(nullptr, bytes), doing);
    if (memory_.size() < static_cast<std::int64_t>(bytes)) {
      memory_ = RunArray<std::byte>();
      memory_ = RunArray<std::byte>(*run_, static_cast<std::int64_t>(bytes));
    }
    cuda_check(call(memory_.data(), bytes), doing);
  }

  /// In place.
  void running_sum(const RunArray<std::int64_t>& counts) {
    with("summing up", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceScan::ExclusiveSum(memory, bytes, counts.data(), counts.data(),
                                           counts.size(), run_->stream());
    });
  }

 private:
  ProductRun* run_;
  RunArray<std::byte> memory_;
};

/// Tile rows of A whose products are listed together.
struct Slice {
  SliceOfA of_a;
  std::int32_t rows;
  std::int64_t tasks;
};

/// The list of tasks of a slice, before and after sorting. Both keys and tasks are there twice.
template <class Key>
struct Workspace {
  Workspace(ProductRun& run, std::int64_t tasks)
      : keys(run, 2 * tasks), tasks(run, 2 * tasks), counters(run, 2), scratch(run) {}

  RunArray<Key> keys;
  RunArray<TileTask> tasks;
  RunArray<unsigned> counters;  // tiles of C; whether there are zeros among the cells
  Scratch scratch;
};

template <class Cores>
class TsparseProduct final : public GpuSparseProduct {
 public:
  TsparseProduct(const TileOperand& a, const TileOperand& b, std::int32_t rows, std::int32_t cols,
                 const Choices& choices)
      : rows_(rows),
        cols_(cols),
        tile_rows_(a.tile_rows),
        col_bits_(std::bit_width(static_cast<unsigned>(std::max(b.tile_cols, 1) - 1))),
        choices_(choices),
        factor_(std::ldexp(1.0, -a.exponent - b.exponent)),
        row_begin_(a.row_begin),
        a_(a),
        b_(b) {
    load_now(count_tasks, pick_rows, list_tasks<std::uint32_t>, list_tasks<std::uint64_t>);
    load_now(count_cells<std::uint32_t>, count_cells<std::uint64_t>);
    load_now(multiply_tiles<Cores>, count_kept, compact);
  }

  void multiply(float alpha, ProductRun& run) override {
    release();
    if (a_.count() == 0 || b_.count() == 0) return;
    run.stage("task list");
    const RunArray<std::int64_t> first_task = count_all_tasks(run);
    const std::vector<Slice> slices = plan(first_task, run);
    std::int64_t most_tasks = 0;
    std::int32_t most_rows = 1;
    for (const Slice& slice : slices) {
      most_tasks = std::max(most_tasks, slice.tasks);
      most_rows = std::max(most_rows, slice.rows);
    }
    const Finish finish{factor_, alpha};
    if (row_bits(most_rows) + col_bits_ <= 32)
      multiply_slices<std::uint32_t>(slices, first_task, most_tasks, finish, run);
    else
      multiply_slices<std::uint64_t>(slices, first_task, most_tasks, finish, run);
  }

  void release() override { c_.clear(); }

  CsrMatrix download() const override {
    cuda_check(cudaDeviceSynchronize(), "waiting for a product");
    std::vector<TilesOfC> slices;
    for (const DeviceTilesOfC& slice : c_) slices.push_back(slice.download());
    return to_csr(rows_, cols_, slices);
  }

 private:
  static int row_bits(std::int32_t rows) { return std::bit_width(static_cast<unsigned>(rows - 1)); }

  /// Running sums over A's tiles of the products they take part in. [tiles + 1]
  RunArray<std::int64_t> count_all_tasks(ProductRun& run) const {
    RunArray<std::int64_t> tasks(run, a_.count() + 1);
    cuda_check(cudaMemsetAsync(tasks.data() + a_.count(), 0, sizeof(std::int64_t), run.stream()),
               "counting the tasks");
    count_tasks<<<blocks_for(32 * a_.count()), kThreads, 0, run.stream()>>>(
        a_.count(), a_.tiles.data(), b_.tiles.data(), b_.row_begin.data(), tasks.data());
    check_launch();
    Scratch(run).running_sum(tasks);
    return tasks;
  }

  /// One slice where the list may be as long as that, else several; none without tasks.
  std::vector<Slice> plan(const RunArray<std::int64_t>& first_task, ProductRun& run) const {
    const std::int64_t all = read_back(first_task.data() + a_.count(), run.stream());
    if (all == 0) return {};
    if (all <= choices_.tasks_of_slice)
      return {{{0, a_.count(), 0, col_bits_, 0}, tile_rows_, all}};
    const RunArray<std::int64_t> first_of_row(run, tile_rows_ + 1);
    pick_rows<<<blocks_for(std::int64_t{tile_rows_} + 1), kThreads, 0, run.stream()>>>(
        tile_rows_, a_.row_begin.data(), first_task.data(), first_of_row.data());
    check_launch();
    std::vector<std::int64_t> sums(static_cast<std::size_t>(tile_rows_) + 1);
    cuda_check(cudaMemcpyAsync(sums.data(), first_of_row.data(), sums.size() * sizeof(sums[0]),
                               cudaMemcpyDeviceToHost, run.stream()),
               "reading the numbers of tasks");
    cuda_check(cudaStreamSynchronize(run.stream()), "counting the tasks");
    const std::vector<std::int32_t> begins = cut_slices(sums, choices_.tasks_of_slice);
    std::vector<Slice> slices;
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const std::int32_t begin = begins[i], end = begins[i + 1];
      const std::int64_t tasks = sums[end] - sums[begin];
      if (tasks == 0) continue;
      slices.push_back({{row_begin_[begin], row_begin_[end], begin, col_bits_, sums[begin]},
                        end - begin,
                        tasks});
    }
    return slices;
  }

  template <class Key>
  void multiply_slices(const std::vector<Slice>& slices, const RunArray<std::int64_t>& first_task,
                       std::int64_t most_tasks, const Finish& finish, ProductRun& run) {
    Workspace<Key> workspace(run, most_tasks);
    for (const Slice& slice : slices) multiply_slice(slice, first_task, workspace, finish, run);
  }

  template <class Key>
  void multiply_slice(const Slice& slice, const RunArray<std::int64_t>& first_task,
                      Workspace<Key>& workspace, const Finish& finish, ProductRun& run) {
    run.stage("task list");
    cub::DoubleBuffer<Key> keys(workspace.keys.data(), workspace.keys.data() + slice.tasks);
    cub::DoubleBuffer<TileTask> tasks(workspace.tasks.data(), workspace.tasks.data() + slice.tasks);
    list_tasks<<<blocks_for(32 * (slice.of_a.end - slice.of_a.begin)), kThreads, 0, run.stream()>>>(
        slice.of_a, a_.tiles.data(), a_.row_of_tile.data(), b_.tiles.data(), b_.row_begin.data(),
        first_task.data(), keys.Current(), tasks.Current());
    check_launch();
    run.stage("sorting");
    const int bits = std::max(row_bits(slice.rows) + col_bits_, 1);
    workspace.scratch.with("sorting the tasks", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, tasks, slice.tasks, 0, bits,
                                             run.stream());
    });
    run.stage("counting");
    // The keys' other half is free.
    auto* heads = reinterpret_cast<std::uint32_t*>(keys.Alternate());
    const TaskList list{tasks.Current(), heads,
                        find_heads(keys.Current(), heads, slice.tasks, workspace, run),
                        static_cast<std::uint32_t>(slice.tasks)};
    DeviceTilesOfC c = make_tiles(list, slice.of_a, keys.Current(), workspace.scratch, run);
    run.stage("multiplication");
    fill_tiles(list, c, workspace, finish, run);
  }

  /// The first task of each tile of C; returns their number.
  template <class Key>
  std::int64_t find_heads(const Key* keys, std::uint32_t* heads, std::int64_t tasks,
                          Workspace<Key>& workspace, ProductRun& run) const {
    workspace.scratch.with("finding the tiles of C", [&](void* memory, std::size_t& bytes) {
      return cub::DeviceSelect::If(memory, bytes, thrust::make_counting_iterator(0u), heads,
                                   workspace.counters.data(), tasks, IsHead<Key>{keys},
                                   run.stream());
    });
    return read_back(workspace.counters.data(), run.stream());
  }

  /// The tiles of C, with room for the cells of their bitmaps.
  template <class Key>
  DeviceTilesOfC make_tiles(const TaskList& list, const SliceOfA& slice, const Key* keys,
                            Scratch& scratch, ProductRun& run) const {
    DeviceTilesOfC c(run, list.tiles);
    count_cells<<<blocks_for(kSide * (list.tiles + 1)), kThreads, 0, run.stream()>>>(
        list, slice, keys, a_.tiles.data(), b_.tiles.data(), c.view());
    check_launch();
    scratch.running_sum(c.first_value);
    c.values = RunArray<float>(run, read_back(c.first_value.data() + list.tiles, run.stream()));
    return c;
  }

  template <class Key>
  void fill_tiles(const TaskList& list, DeviceTilesOfC& c, Workspace<Key>& workspace,
                  const Finish& finish, ProductRun& run) {
    const RunArray<std::uint64_t> kept(run, choices_.drops_zeros ? list.tiles : 0);
    unsigned* zeros = workspace.counters.data() + 1;
    cuda_check(cudaMemsetAsync(zeros, 0, sizeof(unsigned), run.stream()), "counting the zeros");
    multiply_tiles<Cores><<<blocks_for((list.tiles + 1) / 2 * 32), kThreads, 0, run.stream()>>>(
        list, a_.view(), b_.view(), c.view(), finish, Kept{kept.data(), zeros});
    check_launch();
    if (choices_.drops_zeros) {
      run.stage("compaction");
      if (read_back(zeros, run.stream()) != 0) c = compacted(c, kept, workspace.scratch, run);
    }
    if (c.count() > 0) c_.push_back(std::move(c));
  }

  DeviceTilesOfC compacted(const DeviceTilesOfC& c, const RunArray<std::uint64_t>& kept,
                           Scratch& scratch, ProductRun& run) const {
    const std::int64_t tiles = c.count();
    const RunArray<std::int64_t> first_value(run, tiles + 1), place(run, tiles + 1);
    count_kept<<<blocks_for(tiles + 1), kThreads, 0, run.stream()>>>(
        tiles, kept.data(), first_value.data(), place.data());
    check_launch();
    scratch.running_sum(first_value);
    scratch.running_sum(place);
    DeviceTilesOfC result(run, read_back(place.data() + tiles, run.stream()));
    result.values = RunArray<float>(run, read_back(first_value.data() + tiles, run.stream()));
    compact<<<blocks_for(32 * tiles), kThreads, 0, run.stream()>>>(
        tiles, c.view(), kept.data(), first_value.data(), place.data(), result.view());
    check_launch();
    return result;
  }

  std::int32_t rows_, cols_, tile_rows_;
  int col_bits_;
  Choices choices_;
  double factor_;
  std::vector<std::uint32_t> row_begin_;  // of A's tiles [tile rows + 1]
  DeviceTiles<typename Cores::Value> a_, b_;
  std::vector<DeviceTilesOfC> c_;  // [slices]
};

class GpuTsparse final : public GpuSpgemm {
 public:
  explicit GpuTsparse(const Choices& choices) : choices_(choices) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    const TileOperand tiles_a = make_operand(a, Side::kA, choices_);
    const TileOperand tiles_b = make_operand(b, Side::kB, choices_);
    if (choices_.on_tensor_cores)
      return std::make_unique<TsparseProduct<OnTensorCores>>(tiles_a, tiles_b, a.rows, b.cols,
                                                             choices_);
    return std::make_unique<TsparseProduct<OnScalarCores>>(tiles_a, tiles_b, a.rows, b.cols,
                                                           choices_);
  }

 private:
  Choices choices_;
};

const Register<GpuSpgemm> entry{{
    .name = "tsparse",
    .summary = "device half of tsparse",
    .make = [](const Params& params) { return std::make_unique<GpuTsparse>(Choices(params)); },
}};

}  // namespace
}  // namespace tessera
