#include "experiments/backends/measure_sparse_product.hpp"

#include <chrono>

#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

const cudaStream_t kStream = nullptr;

/// Gives C back before its run ends, also when the product fails half way.
class Release {
 public:
  explicit Release(GpuSparseProduct& product) : product_(product) {}
  ~Release() { product_.release(); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  GpuSparseProduct& product_;
};

/// The device's pool keeps what is given back to it as long as this lives, and nothing afterwards.
class KeptPool {
 public:
  KeptPool() { keep_pooled_memory(UINT64_MAX); }
  ~KeptPool() {
    try {
      keep_pooled_memory(0);
      int device = 0;
      cudaMemPool_t pool = nullptr;
      cuda_check(cudaGetDevice(&device), "asking for the device");
      cuda_check(cudaDeviceGetDefaultMemPool(&pool, device), "asking for the memory pool");
      cuda_check(cudaStreamSynchronize(kStream), "waiting for a product");
      cuda_check(cudaMemPoolTrimTo(pool, 0), "emptying the memory pool");
    } catch (const std::exception&) {
      // Whatever it is, the next call meets it too.
    }
  }
  KeptPool(const KeptPool&) = delete;
  KeptPool& operator=(const KeptPool&) = delete;
};

void multiply_checked(GpuSparseProduct& product, SparseProductResult& result) {
  ProductRun run(MemorySource::kMalloc, kStream);
  const Release release(product);
  run.poison();
  const bool repeats = product.keeps_structure();
  {
    const WatchedLaunch watched;
    // The checked product repeats the structure if it can: values left by another alpha are wrong.
    product.multiply(repeats ? 2 : 1, run);
    if (repeats) product.multiply_again(1, run);
    cuda_check(cudaStreamSynchronize(kStream), "running a product");
  }
  result.c = product.download();
  result.findings.peak_bytes = run.peak_bytes();
}

/// A product after the timed ones, with another alpha, in memory without a C of before.
CsrMatrix multiply_negated(GpuSparseProduct& product) {
  ProductRun run(MemorySource::kMalloc, kStream);
  const Release release(product);
  run.poison();
  {
    const WatchedLaunch watched;
    product.multiply(-1, run);
    cuda_check(cudaStreamSynchronize(kStream), "running a product");
  }
  return product.download();
}

LaunchTimes time_products(GpuSparseProduct& product, MemorySource source, const MeasureRule& rule) {
  return time_launches(
      [&](cudaStream_t stream) {
        {
          ProductRun run(source, stream);
          const Release release(product);
          product.multiply(1, run);
        }
        cuda_check(cudaStreamSynchronize(stream), "running a product");
      },
      rule, kStream);
}

/// Only the values, once C's structure is there.
LaunchTimes time_values(GpuSparseProduct& product, const MeasureRule& rule) {
  ProductRun run(MemorySource::kMalloc, kStream);
  const Release release(product);
  product.multiply(1, run);
  return time_launches(
      [&](cudaStream_t stream) {
        product.multiply_again(1, run);
        cuda_check(cudaStreamSynchronize(stream), "running a product");
      },
      rule, kStream);
}

/// In the order in which they begin.
std::vector<StagePart> stages_of(GpuSparseProduct& product) {
  ProductRun run(MemorySource::kPool, kStream);
  const Release release(product);
  run.watch_stages();
  product.multiply(1, run);
  std::vector<StagePart> stages;
  for (const ProductRun::StageTime& stage : run.stage_times())
    stages.push_back({stage.name, stage.us});
  return stages;
}

void measure(GpuSparseProduct& product, const MeasureRule& rule, bool checked,
             SparseProductResult& result) {
  multiply_checked(product, result);
  const GpuClocks before = gpu_clocks();
  const LaunchTimes times = time_products(product, MemorySource::kMalloc, rule);
  if (product.keeps_structure())
    result.findings.time_again = time_part(time_values(product, rule), rule);
  const KeptPool kept;
  const LaunchTimes pool = time_products(product, MemorySource::kPool, rule);
  result.time_us = times.summary.median;
  result.pool_us = pool.summary.median;
  result.findings.time = time_part(times, rule);
  result.findings.time_pool = time_part(pool, rule);
  result.findings.clocks = {before, gpu_clocks()};
  if (checked) result.c_of_negated = multiply_negated(product);
  if (auto stages = stages_of(product); !stages.empty()) result.findings.stages = std::move(stages);
}

}  // namespace

SparseProductResult measure_sparse_product(const SparseMultiplication& m) {
  const auto& registry = Registry<GpuSpgemm>::instance();
  const auto& [name, params] = sparse_product(m.point).kernel;
  require<Unsupported>(registry.contains(name), "kernel {} has no device half", name);
  SparseProductResult result;
  result.generation = gpu_generation();
  const auto began = std::chrono::steady_clock::now();
  const auto kernel = registry.make(name, params);
  const auto product = m.mask ? kernel->upload_masked(m.a, m.b, *m.mask) : kernel->upload(m.a, m.b);
  cuda_check(cudaDeviceSynchronize(), "uploading A and B");
  result.pack_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  measure(*product, m.point.measure, m.point.check.enabled, result);
  return result;
}

}  // namespace tessera
