// Device half of tall_spmm: A as its kernels read it, and the launches. The kernels are kernel.cuh
// and wide.cuh.

#include "formats/base/registry.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/overlapped_launch.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/packed_on_gpu.hpp"
#include "kernels/spmm/tall/kernel.cuh"
#include "kernels/spmm/tall/tall_spmm.hpp"
#include "kernels/spmm/tall/wide.cuh"

namespace tessera {
namespace {

using namespace tall_spmm;

constexpr int kFillThreads = 256;
constexpr std::int64_t kMaxGridX = 0x7fffffff;  // CUDA's limit of a grid
constexpr int kRecordWords = sizeof(TileRecord) / 4;

/// Fills records of tiles, a thread for each word. The last one stays empty.
__global__ void make_records(const std::uint32_t* tile_offset, const std::int32_t* tile_cols,
                             std::int64_t tiles, std::uint32_t* records) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x;
       i < tiles * kRecordWords; i += std::int64_t{gridDim.x} * kFillThreads) {
    const std::int64_t tile = i / kRecordWords;
    const int word = static_cast<int>(i % kRecordWords);
    const std::int32_t* const cols = tile_cols + tile * kTileCols;
    std::uint32_t value = 0;
    if (word < kTileCols) {
      value = cols[word] == kNoColumn ? 0 : static_cast<std::uint32_t>(cols[word]);
    } else if (word == kTileCols) {
      value = tile_offset[tile];
    } else if (word == kTileCols + 1) {
      value = tile_offset[tile + 1] - tile_offset[tile];
    } else if (word == kTileCols + 2) {
      while (value < kTileCols && cols[value] != kNoColumn) ++value;
    }
    records[i] = value;
  }
}

/// Rounds nonzeros to 16 bits and puts their bytes of an expanded tile above them.
template <class Packed>
__global__ void make_nonzeros(const std::uint16_t* places, const float* values, std::int64_t count,
                              std::uint32_t* nonzeros) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kFillThreads)
    nonzeros[i] = (Packed::pair(values[i], 0.0f) & 0xffffu) |
                  expanded_byte(TallTiles::row_of(places[i]), TallTiles::col_of(places[i])) << 16;
}

/// A launch of `kernel` that fills `count` elements.
template <class Kernel, class... Parameters>
void fill_elements(Kernel kernel, std::int64_t count, Parameters... parameters) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((count + kFillThreads - 1) / kFillThreads, std::int64_t{1} << 16));
  kernel<<<blocks, kFillThreads>>>(parameters...);
  cuda_check(cudaGetLastError(), "filling tall tiles");
}

/// TallTiles on the device.
struct TilesOnDevice {
  DeviceArray<std::uint32_t> window_offset, tile_offset;
  DeviceArray<std::int32_t> tile_cols;
  DeviceArray<std::uint16_t> places;
  DeviceArray<float> values;
  std::int32_t rows, cols;

  explicit TilesOnDevice(const TallTiles& a)
      : window_offset(a.window_offset),
        tile_offset(a.tile_offset),
        tile_cols(a.tile_cols),
        places(a.places),
        values(a.values),
        rows(a.rows()),
        cols(a.cols()) {}
  explicit TilesOnDevice(const PackedOnGpu& a)
      : window_offset(a.copy<std::uint32_t>("window_offset")),
        tile_offset(a.copy<std::uint32_t>("tile_offset")),
        tile_cols(a.copy<std::int32_t>("tile_cols")),
        places(a.copy<std::uint16_t>("places")),
        values(a.copy<float>("values")),
        rows(a.rows),
        cols(a.cols) {}

  std::int64_t tiles() const { return static_cast<std::int64_t>(tile_cols.size()) / kTileCols; }
};

DenseArguments dense_arguments(const TilesOnDevice& a, std::int64_t n, Storage storage) {
  return {.rows = static_cast<std::uint32_t>(a.rows),
          .n = static_cast<std::uint32_t>(n),
          .b = nullptr,
          .c = nullptr,
          .c_in_16_bits = storage.c != ElementType::kFp32,
          .scaling = {},
          .places = nullptr,
          .narrowing = {}};
}

void set_operands(const Operands& operands, DenseArguments& dense) {
  dense.b = operands.b, dense.c = operands.c, dense.scaling = operands.scaling;
}

class TallMultiplication final : public GpuMultiplication {
 public:
  TallMultiplication(const TilesOnDevice& a, const std::vector<std::uint32_t>& window_offset,
                     std::int64_t n, const TallSpmmOptions& options)
      : storage_(options.storage()),
        chunks_(chunks_of(n)),
        aligned_(kernel<true>()),
        any_(kernel<false>()),
        records_(static_cast<std::size_t>((a.tiles() + 1) * kRecordWords)),
        nonzeros_(a.values.size()) {
    const Plan plan = options.plan(window_offset, n);
    thread_blocks_ = plan.workers() * chunks_;
    require<Unsupported>(thread_blocks_ <= kMaxGridX, "tall_spmm takes at most {} columns, not {}",
                         kMaxGridX / kWorkers * kCols, n);
    std::vector<Turn> turns = plan.turns;
    turns.resize(turns.size() + 2 * kTurns, Turn{});
    first_turn_ = DeviceArray<std::uint32_t>(plan.first_turn);
    turns_ = DeviceArray<Turn>(turns);
    make_slots(plan.tasks);
    fill(a);
    arguments_ = {.first_turn = first_turn_.data(),
                  .turns = turns_.data(),
                  .records = reinterpret_cast<const TileRecord*>(records_.data()),
                  .nonzeros = nonzeros_.data(),
                  .chunks = static_cast<std::uint32_t>(chunks_),
                  .split_windows = {.splits = splits_.data(),
                                    .num_splits = static_cast<std::uint32_t>(splits_.size()),
                                    .num_slots = kWarps * plan.tasks.slots,
                                    .slots = slots_.data(),
                                    .arrivals = arrivals_.data()},
                  .dense = dense_arguments(a, n, storage_)};
    allow_shared_memory(shared_bytes_, aligned_, any_);
    load_now(aligned_, any_);
  }

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }
  bool place_rows(const std::int32_t* places) override {
    arguments_.dense.places = places;
    return true;
  }

  bool narrow(const Narrowing& narrowing) override {
    if (storage_ != Storage{ElementType::kFp16, ElementType::kFp32}) return false;
    aligned_ = multiply<ScaledFp16Numbers, true>, any_ = multiply<ScaledFp16Numbers, false>;
    shared_bytes_ = kScaledSharedBytes;
    allow_shared_memory(shared_bytes_, aligned_, any_);
    load_now(aligned_, any_);
    arguments_.dense.narrowing = narrowing;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    Arguments arguments = arguments_;
    set_operands(operands, arguments.dense);
    cuda_check(
        tessera::launch(
            aligned_to_16_bytes(arguments.dense.n, operands, kElementBytes) ? aligned_ : any_,
            dim3(static_cast<unsigned>(thread_blocks_)), kThreads, shared_bytes_, stream,
            arguments.dense.narrowing.word == nullptr || arguments.dense.narrowing.overlaps,
            arguments),
        "launching tall_spmm");
  }

 private:
  using Kernel = void (*)(Arguments);

  template <bool kAligned>
  Kernel kernel() const {
    if (storage_.b == ElementType::kFp16) return multiply<HalfNumbers<PackedFp16>, kAligned>;
    return multiply<HalfNumbers<PackedBf16>, kAligned>;
  }

  /// The slots of split windows, four of each, one for a warp's rows.
  void make_slots(const window_tasks::Tasks& tasks) {
    const window_tasks::Tasks parts = parts_of_warps(tasks);
    splits_ = DeviceArray<window_tasks::Split>(parts.splits);
    slots_ = DeviceArray<float4>(
        static_cast<std::size_t>(chunks_ * parts.slots * window_tasks::slot_vectors(kVectors)));
    arrivals_ = DeviceArray<std::uint32_t>(
        std::vector<std::uint32_t>(static_cast<std::size_t>(chunks_) * parts.splits.size()));
  }

  void fill(const TilesOnDevice& a) {
    const std::int64_t tiles = a.tiles();
    cuda_check(cudaMemsetAsync(records_.data() + tiles * kRecordWords, 0, sizeof(TileRecord)),
               "filling tall tiles");
    fill_elements(make_records, tiles * kRecordWords, a.tile_offset.data(), a.tile_cols.data(),
                  tiles, records_.data());
    const auto count = static_cast<std::int64_t>(a.values.size());
    if (storage_.b == ElementType::kFp16)
      fill_elements(make_nonzeros<PackedFp16>, count, a.places.data(), a.values.data(), count,
                    nonzeros_.data());
    else
      fill_elements(make_nonzeros<PackedBf16>, count, a.places.data(), a.values.data(), count,
                    nonzeros_.data());
    cuda_check(cudaDeviceSynchronize(), "filling tall tiles");
  }

  Storage storage_;
  std::int64_t chunks_, thread_blocks_;
  Kernel aligned_, any_;
  int shared_bytes_ = kSharedBytes;
  DeviceArray<std::uint32_t> records_, nonzeros_, first_turn_;
  DeviceArray<Turn> turns_;
  DeviceArray<window_tasks::Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  Arguments arguments_ = {};
};

/// On CUDA cores.
class WideMultiplication final : public GpuMultiplication {
 public:
  WideMultiplication(TilesOnDevice a, std::int64_t n) : a_(std::move(a)) {
    thread_blocks_ = wide_blocks(a_.rows, n);
    arguments_ = {.window_offset = a_.window_offset.data(),
                  .tile_offset = a_.tile_offset.data(),
                  .tile_cols = a_.tile_cols.data(),
                  .places = a_.places.data(),
                  .values = a_.values.data(),
                  .dense = dense_arguments(a_, n, {})};
    load_now(multiply_wide<true>, multiply_wide<false>);
  }

  float* values() override { return a_.values.data(); }
  bool place_rows(const std::int32_t* places) override {
    arguments_.dense.places = places;
    return true;
  }
  bool narrow(const Narrowing& narrowing) override {
    if (narrowing.col_scales != nullptr) return false;
    arguments_.dense.narrowing = narrowing;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    WideArguments arguments = arguments_;
    set_operands(operands, arguments.dense);
    cuda_check(
        tessera::launch(aligned_to_16_bytes(arguments.dense.n, operands) ? multiply_wide<true>
                                                                         : multiply_wide<false>,
                        dim3(static_cast<unsigned>(thread_blocks_)), kWideThreads, 0, stream,
                        arguments.dense.narrowing.overlaps, arguments),
        "launching tall_spmm on CUDA cores");
  }

 private:
  TilesOnDevice a_;
  std::int64_t thread_blocks_;
  WideArguments arguments_ = {};
};

class GpuTallSpmm final : public GpuSpmm {
 public:
  explicit GpuTallSpmm(const TallSpmmOptions& options) : options_(options) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const auto& a = packed_as<TallTiles>(packed);
    return made(TilesOnDevice(a), a.window_offset, n);
  }
  /// The windows' first tiles come to the host, which cuts them into tasks.
  std::unique_ptr<GpuMultiplication> adopt(const PackedOnGpu& a, std::int64_t n) const override {
    TilesOnDevice tiles(a);
    const std::vector<std::uint32_t> window_offset = tiles.window_offset.download();
    return made(std::move(tiles), window_offset, n);
  }

 private:
  std::unique_ptr<GpuMultiplication> made(TilesOnDevice a,
                                          const std::vector<std::uint32_t>& window_offset,
                                          std::int64_t n) const {
    // A row of B is addressed by 32 bits.
    require<Unsupported>(n < std::int64_t{1} << 30,
                         "tall_spmm takes less than 2^30 columns, not {}", n);
    if (options_.is_wide()) return std::make_unique<WideMultiplication>(std::move(a), n);
    require_wgmma("tall_spmm");
    return std::make_unique<TallMultiplication>(a, window_offset, n, options_);
  }

  TallSpmmOptions options_;
};

const Register<GpuSpmm> entry{{
    .name = "tall_spmm",
    .summary = "device half of tall_spmm",
    .make = [](const Params& params) -> std::unique_ptr<GpuSpmm> {
      if (is_narrowed(params)) return narrowed::make_gpu(narrowed_recipe(params));
      return std::make_unique<GpuTallSpmm>(TallSpmmOptions(params));
    },
}};

}  // namespace
}  // namespace tessera
