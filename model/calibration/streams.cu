// Device memory and L2 read, written and copied in order by all SMs, by footprint.
//
// Every launch moves at least as many bytes as make its start and end not matter, by several passes
// where the footprint is small. Loads pass L1 by, so that small footprints show the L2.

#include <algorithm>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256, kThreadBlocksPerSm = 8;
constexpr std::int64_t kUnroll = 4;                          // independent accesses of a thread
constexpr std::int64_t kLeastWords = 16;                     // of which sizes are multiples
constexpr std::int64_t kMovedBytes = std::int64_t{1} << 32;  // of a launch, at least

/// Calls body(first word of 4) for all words of an array, neighbouring threads side by side.
template <class Body>
__device__ void for_each_quad(std::int64_t words, int passes, Body body) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t first = 4 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t at = first; at < words; at += kUnroll * 4 * threads)
#pragma unroll
      for (std::int64_t k = 0; k < kUnroll; ++k)
        if (at + k * 4 * threads < words) body(at + k * 4 * threads);
}

__global__ void __launch_bounds__(kThreads)
    read(const std::uint32_t* from, std::int64_t words, int passes, std::uint32_t* sum) {
  std::uint32_t own = 0;
  for_each_quad(words, passes, [&](std::int64_t at) { own += sum_of(load_l2_wide(from + at)); });
  atomicAdd(sum, own);
}

__global__ void __launch_bounds__(kThreads)
    write(std::uint32_t* to, std::int64_t words, int passes, std::uint32_t value) {
  for_each_quad(words, passes, [&](std::int64_t at) {
    store_wide(to + at, make_uint4(value, value + 1, value + 2, value + 3));
  });
}

/// All loads of a round before its first store, which waits for what it stores.
__global__ void __launch_bounds__(kThreads)
    copy(const std::uint32_t* from, std::uint32_t* to, std::int64_t words, int passes) {
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t first = 4 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t at = first; at < words; at += kUnroll * 4 * threads) {
      uint4 quads[kUnroll];
#pragma unroll
      for (std::int64_t k = 0; k < kUnroll; ++k)
        if (at + k * 4 * threads < words) quads[k] = load_l2_wide(from + at + k * 4 * threads);
#pragma unroll
      for (std::int64_t k = 0; k < kUnroll; ++k)
        if (at + k * 4 * threads < words) store_wide(to + at + k * 4 * threads, quads[k]);
    }
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

  /// GB/s of each run.
  std::vector<double> read_rates(std::int64_t bytes) {
    const std::int64_t words = bytes / 4;
    const int passes = passes_over(bytes);
    DeviceArray<std::uint32_t> sum(std::vector<std::uint32_t>{0});
    const std::vector<double> times = run_times_us(
        repeats_, [&] { read<<<grid(), kThreads>>>(words_.data(), words, passes, sum.data()); });
    if (words <= 1 << 20) {
      std::uint32_t expected = 0;
      for (std::int64_t i = 0; i < words; ++i) expected += word_at(static_cast<std::uint32_t>(i));
      expected *= static_cast<std::uint32_t>(passes) * static_cast<std::uint32_t>(repeats_ + 1);
      require(sum.download()[0] == expected, "a stream of {} bytes was not read right", bytes);
    }
    return rates(times, bytes, passes);
  }

  /// The array is no longer what it was.
  std::vector<double> write_rates(std::int64_t bytes) {
    const std::int64_t words = bytes / 4;
    const std::uint32_t value = word_at(static_cast<std::uint32_t>(words));
    const int passes = passes_over(bytes);
    const std::vector<double> times = run_times_us(
        repeats_, [&] { write<<<grid(), kThreads>>>(words_.data(), words, passes, value); });
    require(word_on_device(words_.data() + words - 1) == value + 3 &&
                word_on_device(words_.data()) == value,
            "a stream of {} bytes was not written right", bytes);
    return rates(times, bytes, passes);
  }

  /// Of half the bytes onto the other half.
  std::vector<double> copy_rates(std::int64_t bytes) {
    const std::int64_t words = bytes / 8;
    const int passes = passes_over(bytes);
    const std::vector<double> times = run_times_us(repeats_, [&] {
      copy<<<grid(), kThreads>>>(words_.data(), words_.data() + words, words, passes);
    });
    for (const std::int64_t at : {std::int64_t{0}, words / 2, words - 1})
      require(word_on_device(words_.data() + words + at) == word_on_device(words_.data() + at),
              "a stream of {} bytes was not copied right", bytes);
    return rates(times, bytes, passes);
  }

 private:
  static unsigned grid() {
    return static_cast<unsigned>(kThreadBlocksPerSm * current_gpu().multiProcessorCount);
  }
  static int passes_over(std::int64_t bytes) {
    return static_cast<int>(std::max<std::int64_t>(1, kMovedBytes / bytes));
  }
  static std::vector<double> rates(std::vector<double> times_us, std::int64_t bytes, int passes) {
    for (double& time : times_us) time = 1e-3 * static_cast<double>(bytes) * passes / time;
    return times_us;
  }

  DeviceArray<std::uint32_t> words_;
  int repeats_;
};

Findings measure(const Effort& effort) {
  const std::int64_t l2 = current_gpu().l2CacheSize;
  const std::int64_t most = effort.quick ? 8 * l2 : 64 * l2;
  Streams streams(most, effort.repeats);

  Curve curve{"streams", {"footprint_bytes", "read_gbps", "write_gbps", "copy_gbps"}, {}};
  const Typical dram_read = typical(streams.read_rates(most));
  for (double size = 1 << 20; size < static_cast<double>(most); size *= effort.quick ? 4 : 1.4142) {
    const auto bytes = static_cast<std::int64_t>(size) / (4 * kLeastWords) * (4 * kLeastWords);
    curve.rows.push_back({static_cast<double>(bytes), typical(streams.read_rates(bytes)).median});
  }
  // What reads check is overwritten from here on.
  for (std::vector<double>& row : curve.rows) {
    const auto bytes = static_cast<std::int64_t>(row[0]);
    row.push_back(typical(streams.copy_rates(bytes)).median);
    row.insert(row.begin() + 2, typical(streams.write_rates(bytes)).median);
  }
  const std::string size = fmt::format("{} MB", most / 1'000'000);
  return {{finding("dram_bandwidth", dram_read, "reading " + size),
           finding("dram_copy_bandwidth", typical(streams.copy_rates(most)),
                   "half of " + size + " onto the other half"),
           finding("dram_write_bandwidth", typical(streams.write_rates(most)), "writing " + size)},
          {std::move(curve)}};
}

const Register<Microbenchmark> entry{
    microbenchmark("streams", "L2 and DRAM read, written and copied in order", measure)};

}  // namespace
}  // namespace tessera
