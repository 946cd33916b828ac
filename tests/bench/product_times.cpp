// Times C = A A of an SpGEMM kernel on the GPU and nothing else: C stays on the device and is not
// compared with anything, so that it may be larger than this machine's memory. A published time
// comes from `tessera run`, which checks C; this is for products that are too large to check.
//
//     tessera_product_times KERNEL SAMPLES MATRIX [NAME=VALUE]...

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

double ms_of(GpuSparseProduct& product, MemorySource source, std::int64_t& peak) {
  const auto began = std::chrono::steady_clock::now();
  {
    ProductRun run(source, nullptr);
    product.multiply(1, run);
    peak = run.peak_bytes();
    product.release();
  }
  cuda_check(cudaStreamSynchronize(nullptr), "running a product");
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

void print_times(GpuSparseProduct& product, MemorySource source, const char* name, int samples) {
  std::vector<double> ms;
  std::int64_t peak = 0;
  ms_of(product, source, peak);
  for (int i = 0; i < samples; ++i) ms.push_back(ms_of(product, source, peak));
  std::ranges::sort(ms);
  fmt::print("{}: median {:.3f} ms, least {:.3f} ms, peak {:.1f} MB\n", name, ms[ms.size() / 2],
             ms.front(), 1e-6 * static_cast<double>(peak));
}

void print_stages(GpuSparseProduct& product) {
  ProductRun run(MemorySource::kPool, nullptr);
  run.watch_stages();
  product.multiply(1, run);
  for (const ProductRun::StageTime& stage : run.stage_times())
    fmt::print("  {}: {:.3f} ms\n", stage.name, 1e-3 * stage.us);
  product.release();
}

int time_products(const std::vector<std::string>& arguments) {
  require(arguments.size() >= 3,
          "usage: tessera_product_times KERNEL SAMPLES MATRIX [NAME=VALUE]...");
  Params::Given given;
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const auto equals = arguments[i].find('=');
    require(equals != std::string::npos, "'{}' is not NAME=VALUE", arguments[i]);
    const std::string value = arguments[i].substr(equals + 1);
    const bool is_flag = value == "true" || value == "false";
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
    given.insert_or_assign(arguments[i].substr(0, equals),
                           is_flag     ? ParamValue{value == "true"}
                           : is_number ? ParamValue{std::int64_t{std::stoll(value)}}
                                       : ParamValue{value});
  }
  const CsrMatrix a = load_matrix(arguments[2], false).matrix;
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += a.row_length(k);
  fmt::print("{}: {} rows, {} nonzeros, {} products\n", arguments[2], a.rows, a.nnz(), products);
  const Params params = Registry<SpgemmKernel>::instance().resolve(arguments[0], given);
  const auto product = Registry<GpuSpgemm>::instance().make(arguments[0], params)->upload(a, a);
  keep_pooled_memory(UINT64_MAX);
  const int samples = std::stoi(arguments[1]);
  print_times(*product, MemorySource::kPool, "pool", samples);
  print_stages(*product);
  cuda_check(cudaStreamSynchronize(nullptr), "running a product");
  keep_pooled_memory(0);
  cudaMemPool_t pool = nullptr;
  cuda_check(cudaDeviceGetDefaultMemPool(&pool, 0), "asking for the memory pool");
  cuda_check(cudaMemPoolTrimTo(pool, 0), "emptying the memory pool");
  print_times(*product, MemorySource::kMalloc, "plain", samples);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::time_products({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_product_times: {}\n", error.what());
    return 1;
  }
}
