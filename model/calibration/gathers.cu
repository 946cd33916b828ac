// Gathers of rows of B as in SpMM: whole rows from random places, by row size and footprint, on all
// SMs.
//
// A warp fetches 512 bytes at a time, 16 per lane: several short rows or a part of a long one.
// Places are drawn in the kernel, so that it reads no indices; loads bypass L1.

#include <algorithm>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256, kThreadBlocksPerSm = 8;
constexpr int kUnroll = 4;                                   // rows in flight per lane
constexpr std::int64_t kMovedBytes = std::int64_t{1} << 31;  // per launch

/// The row of a draw, uniform in [0, rows).
constexpr std::uint32_t row_of_draw(std::uint32_t draw, std::uint32_t rows) {
  return static_cast<std::uint32_t>(std::uint64_t{mix_word(draw)} * rows >> 32);
}

/// The distribution of rows of kBytes over lanes.
template <int kBytes>
struct RowShape {
  static constexpr int kLanes = kBytes < 512 ? kBytes / 16 : 32;  // of a row
  static constexpr int kLoads = kBytes / 16 / kLanes;             // of a lane, for its row
  static constexpr int kWords = kBytes / 4;
};

template <int kBytes>
__global__ void __launch_bounds__(kThreads)
    gather(const std::uint32_t* words, std::uint32_t rows, int iterations, std::uint32_t* sums) {
  using Shape = RowShape<kBytes>;
  const std::uint32_t thread = blockIdx.x * kThreads + threadIdx.x;
  const std::uint32_t lane = thread % Shape::kLanes;
  std::uint32_t draw = thread / Shape::kLanes * static_cast<std::uint32_t>(iterations * kUnroll);
  std::uint32_t sum = 0;
  for (int i = 0; i < iterations; ++i)
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const std::uint32_t* row =
          words + std::size_t{row_of_draw(draw++, rows)} * Shape::kWords + 4 * lane;
#pragma unroll
      for (int load = 0; load < Shape::kLoads; ++load)
        sum += sum_of(load_l2_wide(row + 128 * load));
    }
  sums[thread] = sum;
}

/// The expected sum of lane 0 of the first row.
template <int kBytes>
std::uint32_t first_sum(std::uint32_t rows, int iterations) {
  using Shape = RowShape<kBytes>;
  std::uint32_t sum = 0;
  for (std::uint32_t draw = 0; draw < static_cast<std::uint32_t>(iterations * kUnroll); ++draw)
    for (std::uint32_t load = 0; load < Shape::kLoads; ++load)
      for (std::uint32_t word = 0; word < 4; ++word)
        sum += word_at(row_of_draw(draw, rows) * Shape::kWords + 128 * load + word);
  return sum;
}

/// The rate of each run in GB/s.
template <int kBytes>
std::vector<double> gather_rates(const DeviceArray<std::uint32_t>& words, std::int64_t footprint,
                                 int repeats) {
  const auto grid = static_cast<unsigned>(kThreadBlocksPerSm * current_gpu().multiProcessorCount);
  const auto rows = static_cast<std::uint32_t>(footprint / kBytes);
  const std::int64_t bytes_at_once =
      std::int64_t{grid} * kThreads * 16 * RowShape<kBytes>::kLoads * kUnroll;
  const int iterations = static_cast<int>(kMovedBytes / bytes_at_once);
  DeviceArray<std::uint32_t> sums(std::size_t{grid} * kThreads);
  std::vector<double> rates = run_times_us(repeats, [&] {
    gather<kBytes><<<grid, kThreads>>>(words.data(), rows, iterations, sums.data());
  });
  const std::uint32_t expected = first_sum<kBytes>(rows, iterations);
  require(sums.download()[0] == expected, "rows of {} bytes were not gathered right", kBytes);
  for (double& rate : rates) rate = 1e-3 * static_cast<double>(bytes_at_once) * iterations / rate;
  return rates;
}

template <int... kBytes>
void add_rows(const DeviceArray<std::uint32_t>& words, std::int64_t footprint, int repeats,
              Curve& curve) {
  (curve.rows.push_back({static_cast<double>(footprint), double{kBytes},
                         typical(gather_rates<kBytes>(words, footprint, repeats)).median}),
   ...);
}

Findings measure(const Effort& effort) {
  const std::int64_t most = effort.quick ? std::int64_t{1} << 27 : std::int64_t{1} << 31;
  const DeviceArray<std::uint32_t> words = random_words(static_cast<std::size_t>(most / 4));
  const std::int64_t in_l2 = 2 * std::int64_t{current_gpu().l2CacheSize} / 5;

  Findings findings;
  findings.numbers.push_back(
      finding("l2_bandwidth", typical(gather_rates<512>(words, in_l2, effort.repeats)),
              fmt::format("gather of 512-byte rows from {} MB", in_l2 / 1'000'000)));
  Curve curve{"gathers", {"footprint_bytes", "row_bytes", "gbps"}, {}};
  for (double size = 1 << 20; size <= static_cast<double>(most); size *= effort.quick ? 8 : 1.41422)
    add_rows<32, 64, 128, 256, 512, 1024>(words, static_cast<std::int64_t>(size) / 1024 * 1024,
                                          std::min(effort.repeats, 5), curve);
  findings.curves.push_back(std::move(curve));
  return findings;
}

const Register<Microbenchmark> entry{
    microbenchmark("gathers", "random rows from L2 and DRAM, by footprint and row size", measure)};

}  // namespace
}  // namespace tessera
