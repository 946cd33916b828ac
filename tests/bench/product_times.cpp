// Times C = A A of SpGEMM kernels on the GPU and nothing else: C stays on the device and is not
// compared with anything, so that it may be larger than this machine's memory. A published time
// comes from `tessera run`, which checks C; this is for products that are too large to check.
//
//     tessera_product_times SAMPLES MATRIX -- KERNEL [mask=self] [NAME=VALUE]... [-- KERNEL ...]...
//
// With mask=self, C has the nonzeros of A. Where the kernel keeps C's structure, repeated products
// are timed, too.

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
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
  fmt::print("{}: median {:.4f} ms, least {:.4f} ms, peak {:.1f} MB\n", name, ms[ms.size() / 2],
             ms.front(), 1e-6 * static_cast<double>(peak));
}

/// Products that repeat the structure of one before.
void print_again(GpuSparseProduct& product, int samples) {
  ProductRun run(MemorySource::kPool, nullptr);
  product.multiply(1, run);
  std::vector<double> ms;
  for (int i = -1; i < samples; ++i) {
    cuda_check(cudaStreamSynchronize(nullptr), "running a product");
    const auto began = std::chrono::steady_clock::now();
    product.multiply_again(1, run);
    cuda_check(cudaStreamSynchronize(nullptr), "running a product");
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - began;
    if (i >= 0) ms.push_back(time.count());
  }
  const std::int64_t peak = run.peak_bytes();
  product.release();
  std::ranges::sort(ms);
  fmt::print("again: median {:.4f} ms, least {:.4f} ms, peak {:.1f} MB\n", ms[ms.size() / 2],
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

/// A kernel with its parameters, and whether C has the nonzeros of A alone.
struct Case {
  std::string text, kernel;
  Params::Given given;
  bool is_masked = false;
};

/// Reads "KERNEL [mask=self] [NAME=VALUE]...".
Case case_of(std::span<const std::string> words) {
  require(!words.empty(), "a kernel was expected after --");
  Case one{words.front(), words.front(), {}};
  for (const std::string& word : words.subspan(1)) {
    one.text += " " + word;
    const auto equals = word.find('=');
    require(equals != std::string::npos, "'{}' is not NAME=VALUE", word);
    const std::string value = word.substr(equals + 1);
    if (word == "mask=self") {
      one.is_masked = true;
      continue;
    }
    const bool is_flag = value == "true" || value == "false";
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
    one.given.insert_or_assign(word.substr(0, equals),
                               is_flag     ? ParamValue{value == "true"}
                               : is_number ? ParamValue{std::int64_t{std::stoll(value)}}
                                           : ParamValue{value});
  }
  return one;
}

void time_case(const Case& one, const CsrMatrix& a, int samples) {
  const Params params = Registry<SpgemmKernel>::instance().resolve(one.kernel, one.given);
  const auto kernel = Registry<GpuSpgemm>::instance().make(one.kernel, params);
  const auto product = one.is_masked ? kernel->upload_masked(a, a, a) : kernel->upload(a, a);
  keep_pooled_memory(UINT64_MAX);
  print_times(*product, MemorySource::kPool, "pool", samples);
  if (product->keeps_structure()) print_again(*product, samples);
  print_stages(*product);
  cuda_check(cudaStreamSynchronize(nullptr), "running a product");
  keep_pooled_memory(0);
  cudaMemPool_t pool = nullptr;
  cuda_check(cudaDeviceGetDefaultMemPool(&pool, 0), "asking for the memory pool");
  cuda_check(cudaMemPoolTrimTo(pool, 0), "emptying the memory pool");
  print_times(*product, MemorySource::kMalloc, "plain", samples);
}

int time_products(const std::vector<std::string>& arguments) {
  require(arguments.size() >= 4 && arguments[2] == "--",
          "usage: tessera_product_times SAMPLES MATRIX -- KERNEL [mask=self] [NAME=VALUE]... "
          "[-- KERNEL ...]...");
  const int samples = std::stoi(arguments[0]);
  const CsrMatrix a = load_matrix(arguments[1], false).matrix;
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += a.row_length(k);
  fmt::print("{}: {} rows, {} nonzeros, {} products\n", arguments[1], a.rows, a.nnz(), products);
  int failed = 0;
  for (auto from = arguments.begin() + 2; from != arguments.end();) {
    const auto to = std::find(from + 1, arguments.end(), "--");
    const Case one = case_of({from + 1, to});
    fmt::print("{}\n", one.text);
    try {
      time_case(one, a, samples);
    } catch (const Error& error) {  // the next case may be possible
      fmt::print("failed: {}\n", error.what());
      ++failed;
    }
    std::fflush(stdout);
    from = to;
  }
  return failed == 0 ? 0 : 1;
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
