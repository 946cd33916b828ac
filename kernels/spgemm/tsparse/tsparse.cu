// Device half of tsparse: the pipeline that launches the kernels of
// kernels/spgemm/tsparse/kernels.cuh and pairs.cuh. See kernels/spgemm/tsparse/tsparse.cpp.

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
#include "formats/gpu/running_sum.cuh"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spgemm/tsparse/kernels.cuh"
#include "kernels/spgemm/tsparse/pairs.cuh"
#include "kernels/storage.hpp"

namespace tessera {
namespace {

using namespace tsparse;

unsigned blocks(std::int64_t count) { return static_cast<unsigned>(count); }
unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(thread_blocks_for(threads));
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
      values = DeviceArray<Value>(to_16_bits(ElementType::kFp16, operand.values));
  }

  std::int64_t count() const { return static_cast<std::int64_t>(tiles.size()); }
  TilesView<Value> view() const { return {tiles.data(), row_begin.data(), values.data()}; }

  DeviceArray<Tile> tiles;
  DeviceArray<std::int32_t> row_of_tile;  // [tiles]
  DeviceArray<std::uint32_t> row_begin;   // [tile rows + 1]
  DeviceArray<Value> values;              // [nnz]
};

/// Tiles of C in a run's memory, in one block. Their values are added later where their number is
/// not known yet.
struct DeviceTilesOfC {
  DeviceTilesOfC(ProductRun& run, std::int64_t tiles, std::int64_t num_values = 0) {
    const Places places(block, tiles);
    const std::int64_t at_values = block.place<float>(num_values);
    block.take(run);
    hand_out(places, tiles);
    values = block.array<float>(at_values, num_values);
  }
  /// Makes tiles without values in bytes_of(tiles) bytes of existing memory.
  DeviceTilesOfC(ProductRun& run, std::int64_t tiles, RunArray<std::byte>& room) {
    const Places places(block, tiles);
    block.take(run, room);
    hand_out(places, tiles);
  }

  static std::int64_t bytes_of(std::int64_t tiles) {
    RunBlock block;
    const Places places(block, tiles);
    return block.next();
  }

  std::int64_t count() const { return bitmap.size(); }
  ViewOfC view() const {
    return {tile_row.data(), tile_col.data(), bitmap.data(), first_value.data(), values.data()};
  }
  TilesOfC download() const {
    return {bring(tile_row), bring(tile_col), bring(bitmap), bring(first_value), bring(values)};
  }

  RunBlock block;
  RunArray<std::int32_t> tile_row, tile_col;  // [tiles]
  RunArray<std::uint64_t> bitmap;             // [tiles]
  RunArray<std::int64_t> first_value;         // [tiles + 1]
  RunArray<float> values;

 private:
  struct Places {
    Places(RunBlock& block, std::int64_t tiles)
        : rows(block.place<std::int32_t>(tiles)),
          cols(block.place<std::int32_t>(tiles)),
          bitmaps(block.place<std::uint64_t>(tiles)),
          firsts(block.place<std::int64_t>(tiles + 1)) {}
    std::int64_t rows, cols, bitmaps, firsts;
  };

  void hand_out(const Places& places, std::int64_t tiles) {
    tile_row = block.array<std::int32_t>(places.rows, tiles);
    tile_col = block.array<std::int32_t>(places.cols, tiles);
    bitmap = block.array<std::uint64_t>(places.bitmaps, tiles);
    first_value = block.array<std::int64_t>(places.firsts, tiles + 1);
  }

  template <class T>
  static std::vector<T> bring(const RunArray<T>& array) {
    std::vector<T> host(static_cast<std::size_t>(array.size()));
    cuda_check(
        cudaMemcpy(host.data(), array.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost),
        "bringing C back");
    return host;
  }
};

/// Returns the scratch memory that an algorithm of CUB, call(memory, bytes), needs.
template <class Call>
std::int64_t scratch_bytes(Call call) {
  std::size_t bytes = 0;
  cuda_check(call(static_cast<void*>(nullptr), bytes), "querying the scratch memory");
  return static_cast<std::int64_t>(bytes);
}
template <class Call>
void with_scratch(const RunArray<std::byte>& scratch, const char* doing, Call call) {
  auto bytes = static_cast<std::size_t>(scratch.size());
  cuda_check(call(static_cast<void*>(scratch.data()), bytes), doing);
}

/// A prefix sum in place.
auto prefix_sum_of(std::int64_t* counts, std::int64_t size, cudaStream_t stream) {
  return [=](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, counts, counts, size, stream);
  };
}

template <class Key>
auto sort_of(cub::DoubleBuffer<Key>& keys, cub::DoubleBuffer<TileTask>& tasks, std::int64_t count,
             int bits, cudaStream_t stream) {
  return [=, &keys, &tasks](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, tasks, count, 0, bits, stream);
  };
}

template <class Key>
auto selection_of_heads(const Key* keys, std::uint32_t* heads, std::int64_t tasks, unsigned* count,
                        cudaStream_t stream) {
  return [=](void* memory, std::size_t& bytes) {
    return cub::DeviceSelect::If(memory, bytes, thrust::make_counting_iterator(0u), heads, count,
                                 tasks, IsHead<Key>{keys}, stream);
  };
}

/// Prefix sums over A's tiles of the numbers of their products.
struct FirstTasks {
  FirstTasks(ProductRun& run, std::int64_t tiles) {
    const std::int64_t bytes = scratch_bytes(prefix_sum_of(nullptr, tiles + 1, run.stream()));
    const std::int64_t at_tasks = block.place<std::int64_t>(tiles + 1);
    const std::int64_t at_scratch = block.place<std::byte>(bytes);
    block.take(run);
    tasks = block.array<std::int64_t>(at_tasks, tiles + 1);
    scratch = block.array<std::byte>(at_scratch, bytes);
  }

  RunBlock block;
  RunArray<std::int64_t> tasks;  // [tiles + 1]
  RunArray<std::byte> scratch;
};

/// Tile rows of A whose products are listed together.
struct Slice {
  SliceOfA of_a;
  std::int32_t rows;
  std::int64_t tasks;
};

int row_bits(std::int32_t rows) { return std::bit_width(static_cast<unsigned>(rows - 1)); }

/// The bits by which a slice's keys differ.
int sort_bits(const Slice& slice) {
  return std::max(row_bits(slice.rows) + slice.of_a.col_bits, 1);
}

/// The memory that all slices use in turn: two lists of tasks, since sorting moves tasks from one
/// to the other, counters, and CUB's scratch memory.
template <class Key>
struct Workspace {
  Workspace(ProductRun& run, const std::vector<Slice>& slices) {
    std::int64_t most_tasks = 0, bytes = 0;
    for (const Slice& slice : slices) {
      most_tasks = std::max(most_tasks, slice.tasks);
      bytes = std::max(bytes, most_scratch(slice));
    }
    half = (most_tasks + kAligned) / kAligned * kAligned;
    const std::int64_t key_places = block.place<Key>(2 * half);
    const std::int64_t task_places = block.place<TileTask>(2 * half);
    const std::int64_t counter_places = block.place<unsigned>(2);
    const std::int64_t scratch_place = block.place<std::byte>(bytes);
    block.take(run);
    keys = block.array<Key>(key_places, 2 * half);
    tasks = block.array<TileTask>(task_places, 2 * half);
    counters = block.array<unsigned>(counter_places, 2);
    scratch = block.array<std::byte>(scratch_place, bytes);
  }

  static constexpr std::int64_t kAligned = 64;  // tasks; the second half begins like an allocation

  std::int64_t half;  // exceeds the tasks of a slice: prefix sums over tiles fit, too
  RunBlock block;
  RunArray<Key> keys;           // [2 * half]
  RunArray<TileTask> tasks;     // [2 * half]
  RunArray<unsigned> counters;  // tiles of C; 1 if a cell is zero
  RunArray<std::byte> scratch;

 private:
  static std::int64_t most_scratch(const Slice& slice) {
    cub::DoubleBuffer<Key> no_keys;
    cub::DoubleBuffer<TileTask> no_tasks;
    return std::max(
        {scratch_bytes(sort_of(no_keys, no_tasks, slice.tasks, sort_bits(slice), nullptr)),
         scratch_bytes(selection_of_heads<Key>(nullptr, nullptr, slice.tasks, nullptr, nullptr)),
         scratch_bytes(prefix_sum_of(nullptr, slice.tasks + 1, nullptr))});
  }
};

/// A product whose operands have values of this type: std::uint16_t (FP16) for batches of tasks on
/// tensor cores, otherwise float.
template <class Value>
class TsparseProduct final : public GpuSparseProduct {
 public:
  TsparseProduct(const TileOperand& a, const TileOperand& b, std::int32_t rows, std::int32_t cols,
                 const TsparseOptions& options)
      : rows_(rows),
        cols_(cols),
        tile_rows_(a.tile_rows),
        col_bits_(std::bit_width(static_cast<unsigned>(std::max(b.tile_cols, 1) - 1))),
        options_(options),
        factor_(std::ldexp(1.0, -a.exponent - b.exponent)),
        row_begin_(a.row_begin),
        a_(a),
        b_(b) {
    load_now(count_tasks, pick_rows, list_tasks<std::uint32_t>, list_tasks<std::uint64_t>);
    if (!options_.counts_by_products)
      load_now(count_cells<std::uint32_t>, count_cells<std::uint64_t>);
    else
      with_cores([](auto pair) { load_now(count_pairs<typename decltype(pair)::Counter>); });
    if (!options_.multiplies_in_pairs)
      load_now(multiply_tiles<InBatches>);
    else if constexpr (kIsFloat)
      with_cores([](auto pair) { load_now(multiply_pairs<decltype(pair)>); });
    load_now(count_kept, compact);
  }

  void multiply(float alpha, ProductRun& run) override {
    release();
    if (a_.count() == 0 || b_.count() == 0) return;
    run.stage("task list");
    const FirstTasks first_tasks = count_all_tasks(run);
    const RunArray<std::int64_t>& first_task = first_tasks.tasks;
    const std::vector<Slice> slices = plan(first_task, run);
    if (slices.empty()) return;
    std::int32_t most_rows = 1;
    for (const Slice& slice : slices) most_rows = std::max(most_rows, slice.rows);
    const Finish finish{factor_, alpha};
    if (row_bits(most_rows) + col_bits_ <= 32)
      multiply_slices<std::uint32_t>(slices, first_task, finish, run);
    else
      multiply_slices<std::uint64_t>(slices, first_task, finish, run);
  }

  void release() override { c_.clear(); }

  CsrMatrix download() const override {
    cuda_check(cudaDeviceSynchronize(), "waiting for a product");
    std::vector<TilesOfC> slices;
    for (const DeviceTilesOfC& slice : c_) slices.push_back(slice.download());
    return to_csr(rows_, cols_, slices);
  }

 private:
  static constexpr bool kIsFloat = std::is_same_v<Value, float>;
  using InBatches = std::conditional_t<kIsFloat, OnScalarCores, OnTensorCores>;

  /// Calls call(cores) with the cores that make a pair of tiles of C.
  template <class Call>
  void with_cores(Call call) const {
    if (options_.on_tensor_cores)
      call(PairOnTensorCores());
    else
      call(PairOnScalarCores());
  }

  FirstTasks count_all_tasks(ProductRun& run) const {
    const cudaStream_t stream = run.stream();
    FirstTasks first(run, a_.count());
    count_tasks<<<blocks(ListTasks::thread_blocks(a_.count() + 1)), kThreads, 0, stream>>>(
        a_.count(), a_.tiles.data(), b_.tiles.data(), b_.row_begin.data(), first.tasks.data());
    check_launch();
    with_scratch(first.scratch, "summing up",
                 prefix_sum_of(first.tasks.data(), first.tasks.size(), stream));
    return first;
  }

  /// Returns one slice if the list of all tasks is short enough, otherwise several; none without
  /// tasks.
  std::vector<Slice> plan(const RunArray<std::int64_t>& first_task, ProductRun& run) {
    const std::int64_t all = read_back(sums_[0], first_task.data() + a_.count(), run);
    if (all == 0) return {};
    if (all <= options_.tasks_of_slice)
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
    const std::vector<std::int32_t> begins = cut_slices(sums, options_.tasks_of_slice);
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

  template <class T>
  static T read_back(ReadBack<T>& value, const T* device, ProductRun& run) {
    value.request(device, run.stream());
    return value.wait(run.stream());
  }

  template <class Key>
  void multiply_slices(const std::vector<Slice>& slices, const RunArray<std::int64_t>& first_task,
                       const Finish& finish, ProductRun& run) {
    Workspace<Key> workspace(run, slices);
    for (const Slice& slice : slices) multiply_slice(slice, first_task, workspace, finish, run);
  }

  template <class Key>
  void multiply_slice(const Slice& slice, const RunArray<std::int64_t>& first_task,
                      Workspace<Key>& workspace, const Finish& finish, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    run.stage("task list");
    cub::DoubleBuffer<Key> keys(workspace.keys.data(), workspace.keys.data() + workspace.half);
    cub::DoubleBuffer<TileTask> tasks(workspace.tasks.data(),
                                      workspace.tasks.data() + workspace.half);
    list_tasks<<<blocks(ListTasks::thread_blocks(slice.of_a.end - slice.of_a.begin)), kThreads, 0,
                 stream>>>(slice.of_a, a_.tiles.data(), a_.row_of_tile.data(), b_.tiles.data(),
                           b_.row_begin.data(), first_task.data(), keys.Current(), tasks.Current());
    check_launch();
    run.stage("sorting");
    with_scratch(workspace.scratch, "sorting the tasks",
                 sort_of(keys, tasks, slice.tasks, sort_bits(slice), stream));
    run.stage("counting");
    // The other halves are free.
    auto* heads = reinterpret_cast<std::uint32_t*>(keys.Alternate());
    unsigned* counters = workspace.counters.data();
    with_scratch(workspace.scratch, "finding the tiles of C",
                 selection_of_heads(keys.Current(), heads, slice.tasks, counters, stream));
    const TaskList list{tasks.Current(), heads, read_back(count_, counters, run),
                        static_cast<std::uint32_t>(slice.tasks)};
    auto spare = RunArray<std::byte>::part(
        tasks.Alternate(), workspace.half * static_cast<std::int64_t>(sizeof(TileTask)));
    DeviceTilesOfC c = make_tiles(list, slice.of_a, keys.Current(), spare, workspace.scratch, run);
    run.stage("multiplication");
    static_assert(sizeof(TileTask) == sizeof(std::uint64_t));
    auto* kept = reinterpret_cast<std::uint64_t*>(tasks.Alternate());
    fill_tiles(list, c, {options_.drops_zeros ? kept : nullptr, counters + 1}, finish, run);
    if (options_.drops_zeros) {
      run.stage("compaction");
      // Keys and tasks are no longer in use.
      if (read_back(count_, counters + 1, run) != 0)
        c = compacted(c, kept, reinterpret_cast<std::int64_t*>(workspace.keys.data()),
                      reinterpret_cast<std::int64_t*>(tasks.Current()), workspace.scratch, run);
    }
    if (c.count() > 0) c_.push_back(std::move(c));
  }

  /// Makes the tiles of C, with room for their cells. Tiles and cells lie in one block if the tiles
  /// fit into the spare memory until the number of cells is known.
  template <class Key>
  DeviceTilesOfC make_tiles(const TaskList& list, const SliceOfA& slice, const Key* keys,
                            RunArray<std::byte>& spare, const RunArray<std::byte>& scratch,
                            ProductRun& run) {
    const std::int64_t bytes = DeviceTilesOfC::bytes_of(list.tiles);
    const bool fits = bytes <= spare.size();
    DeviceTilesOfC c =
        fits ? DeviceTilesOfC(run, list.tiles, spare) : DeviceTilesOfC(run, list.tiles);
    count(list, slice, keys, c, run);
    with_scratch(scratch, "summing up",
                 prefix_sum_of(c.first_value.data(), c.first_value.size(), run.stream()));
    const std::int64_t cells = read_back(sums_[0], c.first_value.data() + list.tiles, run);
    if (!fits) {
      c.values = RunArray<float>(run, cells);
      return c;
    }
    DeviceTilesOfC complete(run, list.tiles, cells);
    cuda_check(
        cudaMemcpyAsync(complete.block.data<std::byte>(0), c.block.data<std::byte>(0),
                        static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, run.stream()),
        "moving the tiles of C");
    return complete;
  }

  template <class Key>
  void count(const TaskList& list, const SliceOfA& slice, const Key* keys, const DeviceTilesOfC& c,
             ProductRun& run) const {
    if (options_.counts_by_products)
      with_cores([&](auto pair) {
        count_pairs<typename decltype(pair)::Counter>
            <<<blocks(Pairs::thread_blocks(list.tiles + 1)),
               Pairs::threads(options_.on_tensor_cores), 0, run.stream()>>>(
                list, a_.tiles.data(), a_.row_of_tile.data(), b_.tiles.data(), c.view());
      });
    else
      count_cells<<<blocks(CountCells::thread_blocks(list.tiles + 1)), kThreads, 0, run.stream()>>>(
          list, slice, keys, a_.tiles.data(), b_.tiles.data(), c.view());
    check_launch();
  }

  void fill_tiles(const TaskList& list, const DeviceTilesOfC& c, const Kept& kept,
                  const Finish& finish, ProductRun& run) const {
    if (kept.bitmap != nullptr)
      cuda_check(cudaMemsetAsync(kept.zeros, 0, sizeof(unsigned), run.stream()),
                 "counting the zeros");
    if (!options_.multiplies_in_pairs)
      multiply_tiles<InBatches>
          <<<blocks(MultiplyTiles::thread_blocks(list.tiles)), kThreads, 0, run.stream()>>>(
              list, a_.view(), b_.view(), c.view(), finish, kept);
    else if constexpr (kIsFloat)
      with_cores([&](auto pair) {
        multiply_pairs<decltype(pair)>
            <<<blocks(Pairs::thread_blocks(list.tiles)), Pairs::threads(options_.on_tensor_cores),
               0, run.stream()>>>(list, a_.view(), b_.view(), c.view(), finish, kept);
      });
    check_launch();
  }

  /// first_value and place [tiles + 1] receive prefix sums.
  DeviceTilesOfC compacted(const DeviceTilesOfC& c, const std::uint64_t* kept,
                           std::int64_t* first_value, std::int64_t* place,
                           const RunArray<std::byte>& scratch, ProductRun& run) {
    const cudaStream_t stream = run.stream();
    const std::int64_t tiles = c.count();
    count_kept<<<blocks_for(tiles + 1), kThreads, 0, stream>>>(tiles, kept, first_value, place);
    check_launch();
    for (std::int64_t* counts : {first_value, place})
      with_scratch(scratch, "summing up", prefix_sum_of(counts, tiles + 1, stream));
    sums_[0].request(first_value + tiles, stream);
    const std::int64_t tiles_kept = read_back(sums_[1], place + tiles, run);
    DeviceTilesOfC result(run, tiles_kept, *sums_[0]);
    compact<<<blocks(CountCells::thread_blocks(tiles)), kThreads, 0, stream>>>(
        tiles, c.view(), kept, first_value, place, result.view());
    check_launch();
    return result;
  }

  std::int32_t rows_, cols_, tile_rows_;
  int col_bits_;
  TsparseOptions options_;
  double factor_;
  std::vector<std::uint32_t> row_begin_;  // of A's tiles [tile rows + 1]
  DeviceTiles<Value> a_, b_;
  ReadBack<unsigned> count_;
  ReadBack<std::int64_t> sums_[2];
  std::vector<DeviceTilesOfC> c_;  // [slices]
};

class GpuTsparse final : public GpuSpgemm {
 public:
  explicit GpuTsparse(const TsparseOptions& options) : options_(options) {}

  std::unique_ptr<GpuSparseProduct> upload(const CsrMatrix& a, const CsrMatrix& b) const override {
    require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
    const TileOperand tiles_a = make_operand(a, Side::kA, options_);
    const TileOperand tiles_b = make_operand(b, Side::kB, options_);
    if (options_.on_tensor_cores && !options_.multiplies_in_pairs)
      return std::make_unique<TsparseProduct<std::uint16_t>>(tiles_a, tiles_b, a.rows, b.cols,
                                                             options_);
    return std::make_unique<TsparseProduct<float>>(tiles_a, tiles_b, a.rows, b.cols, options_);
  }

 private:
  TsparseOptions options_;
};

const Register<GpuSpgemm> entry{{
    .name = "tsparse",
    .summary = "device half of tsparse",
    .make =
        [](const Params& params) { return std::make_unique<GpuTsparse>(TsparseOptions(params)); },
}};

}  // namespace
}  // namespace tessera
