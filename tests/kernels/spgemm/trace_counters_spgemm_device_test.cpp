// The traces of whole SpGEMM products against the counters of the hardware, all launches of a
// product together. The traces of tsparse leave out its task list, sorts and compactions, so that
// it is not compared here.
//
// The tolerances are the largest differences on an H200 (CUDA 13.0), rounded up.

#include <map>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "tests/counted_products.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/support.hpp"
#include "tests/trace_counters.hpp"

namespace tessera {
namespace {

TraceCounts count(const std::string& kernel, const Params::Given& given, const CsrMatrix& a) {
  const Params params = Registry<SpgemmKernel>::instance().resolve(kernel, given);
  const auto product = Registry<GpuSpgemm>::instance().make(kernel, params)->upload(a, a);
  return hardware_counts([&] {
    ProductRun run(MemorySource::kPool, nullptr);
    product->multiply(1, run);
    cuda_check(cudaDeviceSynchronize(), "running a product that is counted");
    product->release();
  });
}

void compare(const std::string& kernel, const Params::Given& given, const std::string& matrix,
             const TraceTolerance& tolerance) {
  const std::string product = "\"" + matrix + "\"," + kernel + ",\"" + text_of(given) + "\",";
  CAPTURE(product);
  const CsrMatrix a = load_matrix(matrix).matrix;
  const WorkDescription work = Registry<SpgemmKernel>::instance().make(kernel, given)->work(a, a);
  REQUIRE(has_traces(work));
  const TraceCounts predicted = predicted_counts(work), counted = count(kernel, given, a);
  append_to_table(product, predicted, counted);
  CHECK(counts_beyond(predicted, counted, tolerance) == "");
}

TEST_CASE("the traces of row_spgemm agree with the counters") {
  if (cannot_compare_traces()) return;
  for (const char* matrix :
       {"elasticity3d(nx=12, ny=12, nz=12)", "rmat(scale=12)",
        "uniform(rows=8000, cols=8000, density=0.002)", "band(n=6000, bandwidth=40, density=0.5)"})
    compare("row_spgemm", {}, matrix, {0.06, 0.15, 0.28});
}

TEST_CASE("the traces of tile_spgemm agree with the counters") {
  if (cannot_compare_traces()) return;
  for (const char* precision : {"tf32", "tf32x3"})
    for (const char* matrix :
         {"elasticity3d(nx=12, ny=12, nz=12)", "poisson3d(nx=20, ny=20, nz=20)",
          "band(n=6000, bandwidth=40, density=0.5)"})
      compare("tile_spgemm", {{"precision", std::string(precision)}}, matrix, {0.08, 0.02, 0.17});
}

}  // namespace
}  // namespace tessera
