// A GPU without memory for one allocation: whichever it is, the product ends in OutOfMemory, frees
// what it has, and the next product is right.
#include "tests/failing_allocations.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <functional>
#include <string>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_sddmm.hpp"
#include "kernels/gpu_spgemm.hpp"
#include "tests/gpu_child.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/sddmm_choices.hpp"
#include "tests/spgemm_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr int kMostAllocations = 1000;

/// Lets each allocation of `product` fail in turn. `product` returns what is wrong with its result.
/// Gives the number of allocations, for a sum over all kernels.
int fail_each(const std::function<std::string()>& product) {
  try {
    REQUIRE(product() == "");  // loads what stays loaded: kernels, libraries, the pool
  } catch (const Unsupported&) {
    return 0;
  }
  const std::int64_t before = live_allocations();
  int failed = 0;
  for (int k = 1; k <= kMostAllocations; ++k) {
    CAPTURE(k);
    std::string end;
    fail_allocation(k);
    try {
      end = product();
    } catch (const OutOfMemory&) {
      end = "out of memory";
    } catch (const std::exception& error) {
      end = error.what();
    }
    const bool all_succeeded = failure_is_due();
    fail_allocation(0);
    CHECK(live_allocations() == before);
    CHECK(end == (all_succeeded ? "" : "out of memory"));
    if (all_succeeded) break;
    ++failed;
  }
  CHECK(product() == "");
  CHECK(live_allocations() == before);
  return failed;
}

Point point_of(Task task) {
  Point point;
  point.backend = "gpu";
  point.task = std::move(task);
  point.measure.warmup = 0;
  point.measure.min_samples = point.measure.max_samples = 1;
  return point;
}

TEST_CASE("a product with a dense B survives the failure of each of its allocations") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(60, 50, 0.1, 1);
  const Permutation rows = Permutation::identity(a.rows);
  int failed = 0;
  for (const Choice& choice : kernel_choices()) {
    CAPTURE(choice.kernel);
    const std::string chosen = text_of(choice.params) + text_of(choice.format);
    CAPTURE(chosen);
    const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
    const auto packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
    const DenseMatrix b = random_dense(a.cols, std::min<std::int64_t>(32, choice.most_cols), 2);
    const Params params = Registry<SpmmKernel>::instance().resolve(choice.kernel, choice.params);
    const Point point = point_of(DenseProduct{{}, b.cols, {}, {choice.kernel, params}});
    const auto backend = find_backend("gpu").backend;
    failed += fail_each([&] {
      BackendResult result = backend->run({point, *kernel, *packed, b, rows});
      result.finish();
      return check_result(a, b, *result.c, {*kernel, *packed, rows, result.generation}).reason;
    });
  }
  MESSAGE(failed << " failed allocations");
  CHECK(failed > 500);
}

TEST_CASE("a product of sparse matrices survives the failure of each of its allocations") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(80, 80, 0.1, 3);
  int failed = 0;
  for (const SpgemmChoice& choice : spgemm_choices()) {
    if (!Registry<GpuSpgemm>::instance().contains(choice.kernel)) continue;
    CAPTURE(choice.kernel);
    const auto kernel = Registry<SpgemmKernel>::instance().make(choice.kernel, choice.params);
    const Params params = Registry<SpgemmKernel>::instance().resolve(choice.kernel, choice.params);
    const Point point = point_of(SparseProduct{{}, "self", {choice.kernel, params}});
    const auto backend = find_backend("gpu").backend;
    failed += fail_each([&] {
      const SparseProductResult result =
          backend->multiply(SparseMultiplication{point, *kernel, a, a});
      return check_result({*kernel, a, a, result.generation}, *result.c).reason;
    });
  }
  MESSAGE(failed << " failed allocations");
  CHECK(failed > 100);
}

TEST_CASE("a product at A's nonzeros survives the failure of each of its allocations") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(60, 50, 0.1, 4);
  const DenseMatrix x = random_dense(a.rows, 32, 5), y = random_dense(a.cols, 32, 6);
  int failed = 0;
  for (const SddmmChoice& choice : sddmm_choices()) {
    CAPTURE(choice.text());
    const auto kernel = choice.make();
    const auto packed = pack_for(*kernel, a);
    const Params params = Registry<SddmmKernel>::instance().resolve(choice.kernel, choice.params);
    const Point point = point_of(SampledProduct{{}, x.cols, {}, {choice.kernel, params}});
    const auto backend = find_backend("gpu").backend;
    failed += fail_each([&] {
      const SampledProductResult result =
          backend->multiply(SampledMultiplication{point, *kernel, a, *packed, x, y});
      return check_result({*kernel, a, x, y, result.generation}, *result.s).reason;
    });
  }
  MESSAGE(failed << " failed allocations");
  CHECK(failed > 50);
}

}  // namespace
}  // namespace tessera
