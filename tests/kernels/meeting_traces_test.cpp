// Traces fence where parts of a row or of a window meet, and launches say whether they overlap the
// one before.

#include <doctest/doctest.h>

#include "kernels/spmm_kernel.hpp"
#include "tests/counted_products.hpp"
#include "tests/support.hpp"
#include "tests/trace_support.hpp"

namespace tessera {
namespace {

std::string named(const char* name) { return name; }

struct Meetings {
  int fences = 0, exchanges = 0;
};

Meetings meetings_of(const std::string& kernel, Params::Given params) {
  const CsrMatrix a = random_sparse(64, 300, 0.3, 5);
  const TracedProduct traced({kernel, std::move(params)}, a, 32);
  REQUIRE(traced.work.has_value());
  Meetings found;
  for_warps(*traced.work, [&](std::int64_t, const WarpTrace& trace) {
    for (const WarpOp& op : trace.ops) {
      found.fences += op.kind == WarpOp::Kind::kFence;
      found.exchanges += op.kind == WarpOp::Kind::kExchange;
    }
  });
  return found;
}

TEST_CASE("parts that meet fence once, and the last one of each once more") {
  const std::vector<std::pair<std::string, Params::Given>> splitting{
      {"hp_spmm", {{"nonzeros", std::int64_t{20}}}},
      {"merge_spmm", {{"items", std::int64_t{20}}}},
      {"dgsparse",
       {{"reduce", named("parallel")}, {"balance", named("nnz")}, {"nonzeros", std::int64_t{20}}}},
      {"dtc_spmm", {{"max_blocks", std::int64_t{2}}}},
      {"flash_spmm", {{"max_vectors", std::int64_t{8}}}}};
  for (const auto& [kernel, params] : splitting) {
    CAPTURE(kernel);
    const Meetings ordered = meetings_of(kernel, params);
    CHECK(ordered.exchanges > 64);
    CHECK(ordered.fences > ordered.exchanges);
    CHECK(ordered.fences < 2 * ordered.exchanges);
    Params::Given atomic = params;
    atomic["combine"] = named("atomic");
    CHECK(meetings_of(kernel, atomic).fences == 0);
  }
  CHECK(meetings_of("csr_spmm", {}).fences == 0);
  CHECK(meetings_of("sputnik", {}).fences == 0);
}

TEST_CASE("launches overlap the one before where the kernel begins them early") {
  const CsrMatrix a = random_sparse(64, 300, 0.3, 5);
  const auto overlaps = [&](const std::string& kernel, Params::Given params) {
    const TracedProduct traced({kernel, std::move(params)}, a, 32);
    REQUIRE(traced.work.has_value());
    return traced.work->launches.front().overlaps;
  };
  for (const char* kernel : {"rows_spmm", "tessera_spmm"}) {
    CAPTURE(kernel);
    CHECK(overlaps(kernel, {}));
    CHECK(overlaps(kernel, {{"overlap", named("early")}}));
    CHECK_FALSE(overlaps(kernel, {{"overlap", named("none")}}));
  }
  CHECK(overlaps("dense_spmm", {}));
  CHECK_FALSE(overlaps("csr_spmm", {}));

  // B is narrowed by a launch that waits for the one before; the others follow it early.
  const TracedProduct narrowed({"tall_spmm", {}}, a, 32);
  REQUIRE(narrowed.work.has_value());
  REQUIRE(narrowed.work->launches.size() == 3);
  CHECK_FALSE(narrowed.work->launches[0].overlaps);
  CHECK(narrowed.work->launches[1].overlaps);
  CHECK(narrowed.work->launches[2].overlaps);
}

}  // namespace
}  // namespace tessera
