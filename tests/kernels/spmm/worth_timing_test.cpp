// Candidates that the formulas rule out before a plan packs A for them.
#include "kernels/spmm/plan/worth_timing.hpp"

#include <doctest/doctest.h>

#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/product_counts.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

CountedKernel counted(const char* kernel, const WorkCounts& counts, Params::Given given = {}) {
  given["storage"] = std::string("fp16");
  return {kernel, Registry<SpmmKernel>::instance().resolve(kernel, given), counts};
}

std::string ruled_out(const char* matrix, std::int64_t n, double most) {
  const WorkCounts counts = product_counts(load_matrix(matrix).matrix, n);
  return too_slow(
      {counted("tessera_spmm", counts), counted("rows_spmm", counts), counted("tall_spmm", counts)},
      2, most);
}

}  // namespace

TEST_CASE("tall_spmm is worth timing for blocks of nonzeros and not for scattered ones") {
  CHECK(ruled_out("elasticity3d(nx=20)", 128, 1.5).empty());
  const char* scattered = "uniform(rows=50000, cols=50000, per_row=8)";
  const std::string reason = ruled_out(scattered, 32, 1.5);
  CHECK(reason.find("expected to take") != std::string::npos);
  CHECK(ruled_out(scattered, 32, 1e6).empty());
}

TEST_CASE("what has no formula is not ruled out, and rules nothing out") {
  const WorkCounts counts = product_counts(load_matrix("rmat(scale=12)").matrix, 64);
  const CountedKernel tall = counted("tall_spmm", counts);
  const CountedKernel other = counted("tall_spmm", counts, {{"max_tiles", std::int64_t{1}}});
  CHECK(too_slow({other, tall}, 1, 1e-6).empty());
  CHECK(too_slow({tall, other}, 1, 1e-6).empty());
  CHECK(too_slow({tall}, 0, 1e-6).empty());
  CHECK_FALSE(too_slow({counted("rows_spmm", counts), tall}, 1, 1e-6).empty());
}

}  // namespace tessera
