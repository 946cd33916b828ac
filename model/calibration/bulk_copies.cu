// cp.async.bulk (compute capability 9.0): one thread of a thread block copies chunks from L2 to a
// ring of stages in shared memory, by chunk size, stages and thread blocks per SM.
//
// Each stage has a barrier in shared memory that counts its bytes (PTX ISA, "mbarrier"); the thread
// reads a word of the chunk before it refills the stage.

#include <algorithm>

#include "model/calibration/accesses.cuh"
#include "model/calibration/gpu_timing.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/calibration/words.hpp"

namespace tessera {
namespace {

constexpr std::uint32_t kWords = 1 << 22;  // 16 MiB
constexpr int kMostStages = 8;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ void start_barrier(std::uint32_t barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ void copy_bulk(std::uint32_t to, const std::uint32_t* from, std::uint32_t bytes,
                          std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ bool has_arrived(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t arrived;
  asm volatile(
      "{\n.reg .pred arrived;\n"
      "mbarrier.try_wait.parity.shared.b64 arrived, [%1], %2;\n"
      "selp.u32 %0, 1, 0, arrived;\n}"
      : "=r"(arrived)
      : "r"(barrier), "r"(parity)
      : "memory");
  return arrived != 0;
}
#endif

/// The first word of the chunk of a draw; sizes are powers of two.
constexpr std::uint32_t first_word(std::uint32_t draw, std::uint32_t piece_words) {
  return draw / (0x80000000u / (kWords / 2)) & ~(piece_words - 1);
}

__global__ void copy_pieces(const std::uint32_t* words, std::uint32_t piece_bytes,
                            std::uint32_t stages, std::uint32_t copies, std::uint32_t* sums) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint32_t ring[];  // [stages][piece_bytes / 4]
  __shared__ __align__(8) std::uint64_t barriers[kMostStages];
  if (threadIdx.x != 0) return;
  for (std::uint32_t stage = 0; stage < stages; ++stage)
    start_barrier(shared_address(&barriers[stage]));
  // The asynchronous proxy, which performs the copies, has to see the barriers.
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  std::uint32_t draw = mix_word(blockIdx.x);
  const auto fetch = [&](std::uint32_t stage) {
    copy_bulk(shared_address(ring) + stage * piece_bytes, words + first_word(draw, piece_bytes / 4),
              piece_bytes, shared_address(&barriers[stage]));
    draw = next_draw(draw);
  };
  for (std::uint32_t stage = 0; stage < stages; ++stage) fetch(stage);
  std::uint32_t sum = 0, stage = 0, parity = 0;
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    while (!has_arrived(shared_address(&barriers[stage]), parity)) continue;
    sum += load_shared(shared_address(ring) + stage * piece_bytes);
    if (copy + stages < copies) fetch(stage);
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  sums[blockIdx.x] = sum;
#else
  __trap();  // the host does not launch it
#endif
}

/// The rate of all SMs in GB/s.
double rate(const DeviceArray<std::uint32_t>& words, std::uint32_t piece_bytes,
            std::uint32_t stages, int per_sm, const Effort& effort) {
  const int thread_blocks = per_sm * current_gpu().multiProcessorCount;
  const std::uint32_t copies = (effort.quick ? 1u << 16 : 1u << 22) / piece_bytes + stages;
  const std::size_t shared_bytes = std::size_t{stages} * piece_bytes;
  allow_shared_bytes(reinterpret_cast<const void*>(copy_pieces), shared_bytes);
  DeviceArray<std::uint32_t> sums(static_cast<std::size_t>(thread_blocks));
  const std::vector<double> times = run_times_us(std::min(effort.repeats, 5), [&] {
    copy_pieces<<<thread_blocks, 32, shared_bytes>>>(words.data(), piece_bytes, stages, copies,
                                                     sums.data());
  });
  const std::vector<std::uint32_t> found = sums.download();
  for (const std::uint32_t block : {0u, static_cast<std::uint32_t>(thread_blocks) - 1}) {
    std::uint32_t expected = 0, draw = mix_word(block);
    for (std::uint32_t copy = 0; copy < copies; ++copy, draw = next_draw(draw))
      expected += word_at(first_word(draw, piece_bytes / 4));
    require(found[block] == expected, "pieces of {} bytes were not copied right", piece_bytes);
  }
  return 1e-3 * copies * piece_bytes * thread_blocks / typical(times).median;
}

Findings measure(const Effort& effort) {
  require<Unsupported>(current_gpu().major >= 9, "{} has no cp.async.bulk", current_gpu().name);
  const DeviceArray<std::uint32_t> words = random_words(kWords);
  Curve curve{"bulk_copies", {"piece_bytes", "stages", "thread_blocks_per_sm", "gbps"}, {}};
  for (const int per_sm : {1, 2, 4, 8})
    for (std::uint32_t stages = 1; stages <= kMostStages; stages *= 2)
      for (std::uint32_t bytes = 128; bytes <= (16u << 10); bytes *= 2) {
        if (per_sm * stages * bytes > (128u << 10)) continue;
        curve.rows.push_back({double(bytes), double(stages), double(per_sm),
                              rate(words, bytes, stages, per_sm, effort)});
      }
  return {{}, {std::move(curve)}};
}

const Register<Microbenchmark> entry{microbenchmark(
    "bulk_copies", "cp.async.bulk from L2 by size, stages and thread blocks", measure)};

}  // namespace
}  // namespace tessera
