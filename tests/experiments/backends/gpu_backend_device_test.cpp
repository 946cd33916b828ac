// A product on the GPU comes back to be checked, and only then.

#include <doctest/doctest.h>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("C is brought back from the GPU to be checked, and stays there otherwise") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const auto kernel = Registry<SpmmKernel>::instance().make("csr_spmm");
  const auto packed =
      Registry<Format>::instance().make(kernel->format())->pack(random_sparse(300, 200, 0.05, 1));
  const DenseMatrix b = random_dense(200, 40, 2);
  const Permutation rows = Permutation::identity(300);
  Point point;
  point.backend = "gpu";
  point.task = DenseProduct{
      {}, b.cols, {}, {"csr_spmm", Registry<SpmmKernel>::instance().resolve("csr_spmm", {})}};
  point.measure.min_samples = point.measure.max_samples = 2;
  const auto run = [&](bool checked) {
    point.check.enabled = checked;
    BackendResult result =
        find_backend("gpu").backend->run(Multiplication{point, *kernel, *packed, b, rows});
    result.finish();
    return result;
  };

  const BackendResult checked = run(true), unchecked = run(false);

  REQUIRE(checked.c);
  CHECK(checked.unwritten == 0);
  const DenseMatrix expected = kernel->emulate(*packed, b, find_generation(checked.generation));
  CHECK(compare_bits(*checked.c, expected).different == 0);
  CHECK_FALSE(unchecked.c);
  CHECK(unchecked.generation.empty());
  CHECK(unchecked.time_us > 0);
}

}  // namespace
}  // namespace tessera
