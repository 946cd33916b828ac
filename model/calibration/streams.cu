// Device memory and L2 read, written and copied in order by all SMs, by footprint.
//
// A thread block takes the next stretch of 16 KiB, in the order in which thread blocks start. Every
// launch moves enough bytes that its start and end do not matter, with several passes over small
// footprints. Loads bypass L1, so that small footprints show the L2.

#include <algorithm>
#include <numeric>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;                                      // accesses of a thread
constexpr std::int64_t kStretchWords = 4 * kThreads * kUnroll;  // of a thread block
constexpr std::int64_t kStretchBytes = 4 * kStretchWords;
constexpr unsigned kSums = 4096;  // enough that the additions take negligible time
constexpr std::int64_t kMovedBytes = std::int64_t{1} << 32;  // per launch, at least

/// The first word of this thread in the stretch of its thread block; its accesses are kStep words
/// apart.
__device__ std::int64_t first_word(unsigned stretches) {
  return blockIdx.x % stretches * kStretchWords + 4 * threadIdx.x;
}
constexpr int kStep = 4 * kThreads;

__global__ void __launch_bounds__(kThreads)
    read(const std::uint32_t* from, unsigned stretches, std::uint32_t* sums) {
  const std::uint32_t* place = from + first_word(stretches);
  std::uint32_t own = 0;
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) own += sum_of(load_l2_wide(place + k * kStep));
  atomicAdd(sums + blockIdx.x % kSums, own);  // one addition of a warp for 2 KiB read
}

__global__ void __launch_bounds__(kThreads)
    write(std::uint32_t* to, unsigned stretches, std::uint32_t value) {
  std::uint32_t* place = to + first_word(stretches);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k)
    store_wide(place + k * kStep, make_uint4(value, value + 1, value + 2, value + 3));
}

__global__ void __launch_bounds__(kThreads)
    copy(const std::uint32_t* from, std::uint32_t* to, unsigned stretches) {
  const std::int64_t first = first_word(stretches);
  uint4 quads[kUnroll];
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) quads[k] = load_l2_wide(from + first + k * kStep);
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) store_wide(to + first + k * kStep, quads[k]);
}

std::uint32_t word_on_device(const std::uint32_t* word) {
  std::uint32_t value = 0;
  cuda_check(cudaMemcpy(&value, word, sizeof(value), cudaMemcpyDeviceToHost), "checking a stream");
  return value;
}

class Streams {
 public:
  Streams(std::int64_t most_bytes, int repeats)
      : words_(random_words(static_cast<std::size_t>(most_bytes / 4))), repeats_(repeats) {}

  /// The rate of each run in GB/s. `bytes` is a multiple of a stretch here and below.
  std::vector<double> read_rates(std::int64_t bytes) {
    const Launch launch(bytes);
    DeviceArray<std::uint32_t> sums(std::vector<std::uint32_t>(kSums, 0));
    const std::vector<double> times = run_times_us(repeats_, [&] {
      read<<<launch.grid, kThreads>>>(words_.data(), launch.stretches, sums.data());
    });
    if (bytes <= 1 << 22) {
      const std::vector<std::uint32_t> found = sums.download();
      std::uint32_t expected = 0;
      for (std::uint32_t i = 0; i < bytes / 4; ++i) expected += word_at(i);
      expected *= launch.passes() * static_cast<std::uint32_t>(repeats_ + 1);
      require(std::accumulate(found.begin(), found.end(), std::uint32_t{0}) == expected,
              "a stream of {} bytes was not read right", bytes);
    }
    return launch.rates(times);
  }

  /// Overwrites the array.
  std::vector<double> write_rates(std::int64_t bytes) {
    const Launch launch(bytes);
    const std::uint32_t value = word_at(static_cast<std::uint32_t>(bytes));
    const std::vector<double> times = run_times_us(repeats_, [&] {
      write<<<launch.grid, kThreads>>>(words_.data(), launch.stretches, value);
    });
    require(word_on_device(words_.data() + bytes / 4 - 1) == value + 3 &&
                word_on_device(words_.data()) == value,
            "a stream of {} bytes was not written right", bytes);
    return launch.rates(times);
  }

  /// Copies `bytes` bytes onto as many others; the rate counts both, in GB/s.
  std::vector<double> copy_rates(std::int64_t bytes) {
    const Launch launch(bytes);
    const std::int64_t words = bytes / 4;
    const std::vector<double> times = run_times_us(repeats_, [&] {
      copy<<<launch.grid, kThreads>>>(words_.data(), words_.data() + words, launch.stretches);
    });
    for (const std::int64_t at : {std::int64_t{0}, words / 2, words - 1})
      require(word_on_device(words_.data() + words + at) == word_on_device(words_.data() + at),
              "a stream of {} bytes was not copied right", bytes);
    std::vector<double> rates = launch.rates(times);
    for (double& rate : rates) rate *= 2;
    return rates;
  }

 private:
  struct Launch {
    explicit Launch(std::int64_t bytes)
        : stretches(static_cast<unsigned>(bytes / kStretchBytes)),
          grid(stretches * static_cast<unsigned>(std::max<std::int64_t>(1, kMovedBytes / bytes))) {}
    std::uint32_t passes() const { return grid / stretches; }
    std::vector<double> rates(std::vector<double> times_us) const {
      for (double& time : times_us) time = 1e-3 * static_cast<double>(kStretchBytes) * grid / time;
      return times_us;
    }
    unsigned stretches, grid;
  };

  DeviceArray<std::uint32_t> words_;
  int repeats_;
};

Findings measure(const Effort& effort) {
  const std::int64_t l2 = current_gpu().l2CacheSize;
  const std::int64_t most = (effort.quick ? 8 : 64) * l2 / (2 * kStretchBytes) * 2 * kStretchBytes;
  Streams streams(most, effort.repeats);

  Curve curve{"streams", {"footprint_bytes", "read_gbps", "write_gbps", "copy_gbps"}, {}};
  const Typical dram_read = typical(streams.read_rates(most));
  for (double size = 1 << 20; size < static_cast<double>(most); size *= effort.quick ? 4 : 1.4142) {
    const auto bytes = static_cast<std::int64_t>(size) / (2 * kStretchBytes) * 2 * kStretchBytes;
    curve.rows.push_back({static_cast<double>(bytes), typical(streams.read_rates(bytes)).median});
  }
  // From here on the data that reads check is overwritten.
  for (std::vector<double>& row : curve.rows) {
    const auto bytes = static_cast<std::int64_t>(row[0]);
    row.push_back(typical(streams.write_rates(bytes)).median);
    row.push_back(typical(streams.copy_rates(bytes / 2)).median);
  }
  const std::string size = fmt::format("{} MB", most / 1'000'000);
  return {{finding("dram_bandwidth", dram_read, "reading " + size),
           finding("dram_copy_bandwidth", typical(streams.copy_rates(most / 2)),
                   "half of " + size + " onto the other half"),
           finding("dram_write_bandwidth", typical(streams.write_rates(most)), "writing " + size)},
          {std::move(curve)}};
}

const Register<Microbenchmark> entry{
    microbenchmark("streams", "L2 and DRAM read, written and copied in order", measure)};

}  // namespace
}  // namespace tessera
