// Every reordering with a device half finds the host's order on the GPU, row by row, and A is
// packed in it there, byte by byte as on the host.
#include <doctest/doctest.h>

#include <span>

#include "experiments/backends/backend.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "tests/reorder_support.hpp"

namespace tessera {
namespace {

CsrMatrix generated(const std::string& name, const Params::Given& given) {
  return Registry<Generator>::instance().make(name, given)->generate();
}

std::string fault_of(const CsrMatrix& matrix, const std::string& name, const char* backend,
                     const Params::Given& given = {}) {
  const Params params = Registry<Reordering>::instance().resolve(name, given);
  const auto host = Registry<Reordering>::instance().make(name, params);
  Point point{.backend = backend, .reorder = {name, params}, .task = Ordering{}};
  point.measure.warmup = 0;
  point.measure.min_samples = point.measure.max_samples = 1;
  Watch watch;
  return find_backend(backend).backend->reorder({point, *host, matrix, watch}).fault;
}

/// A subcase for each way to an order: tests/sanitize_gpu runs them one by one.
void check(std::span<const CsrMatrix> matrices) {
  struct Way {
    const char* name;
    const char* backend;
    Params::Given given;
  };
  const Way ways[] = {
      {"an order", "reorder_gpu", {}},
      {"an order and A in it", "prepare_gpu", {}},
      {"an order of short reach",
       "reorder_gpu",
       {{"keep_natural", false}, {"reach", std::int64_t{8}}}},
  };
  for (const Way& way : ways) {
    SUBCASE(way.name) {
      if (const std::string missing = gpu_unavailable(); !missing.empty()) {
        MESSAGE("skipped: ", missing);
        return;
      }
      for (const CsrMatrix& matrix : matrices) {
        CAPTURE(matrix.rows);
        CHECK(fault_of(matrix, "matched", way.backend, way.given) == "");
      }
    }
  }
}

TEST_CASE("the GPU finds the order that the host finds, and packs the host's bytes in it") {
  const CsrMatrix matrices[] = {
      random_sparse(1003, 5000, 0.02, 7),
      random_sparse(3001, 3001, 0.3, 8),  // tables with more candidates than slots
      shuffled_communities(),
      generated("rmat", {{"scale", std::int64_t{14}}}),
      generated("rmat", {{"scale", std::int64_t{15}}}),  // small tables overflow, and large ones
      random_sparse(300'001, 40, 0.02, 9),  // columns in two parts of a bitmap of positions
  };
  check(matrices);
}

TEST_CASE("the GPU finds the host's order of small and of empty matrices") {
  const CsrMatrix matrices[] = {
      CsrMatrix{},
      random_sparse(64, 64, 0, 1),
      random_sparse(1, 90, 0.3, 2),
      random_sparse(90, 1, 0.3, 3),
      random_sparse(200, 200, 0.004, 5),
      random_sparse(300, 40, 0.05, 6),
  };
  check(matrices);
}

}  // namespace
}  // namespace tessera
