// Every reordering with a device half finds the host's order on the GPU, row by row, and A is
// packed in it there, byte by byte as on the host.
#include <doctest/doctest.h>

#include <set>
#include <span>
#include <string>

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

struct Way {
  const char* name;
  const char* order;
  const char* backend;
  Params::Given given;
};
const Way kWays[] = {
    {"an order", "matched", "reorder_gpu", {}},
    {"an order and A in it", "matched", "prepare_gpu", {}},
    {"an order of short reach",
     "matched",
     "reorder_gpu",
     {{"keep_natural", false}, {"reach", std::int64_t{8}}}},
    {"chains by common columns", "affinity_chains", "reorder_gpu", {}},
    {"chains by MinHash", "lsh_chains", "reorder_gpu", {}},
    {"short chains by MinHash",
     "lsh_chains",
     "reorder_gpu",
     {{"cluster_rows", std::int64_t{20}}, {"hashes", std::int64_t{21}}}},
    {"communities", "label_propagation", "reorder_gpu", {}},
};

/// A subcase for each way to an order: tests/sanitize_gpu runs them one by one.
void check(std::span<const CsrMatrix> matrices) {
  for (const Way& way : kWays) {
    SUBCASE(way.name) {
      if (const std::string missing = gpu_unavailable(); !missing.empty()) {
        MESSAGE("skipped: ", missing);
        return;
      }
      for (const CsrMatrix& matrix : matrices) {
        CAPTURE(matrix.rows);
        CHECK(fault_of(matrix, way.order, way.backend, way.given) == "");
      }
    }
  }
}

TEST_CASE("every reordering with a device half is found on the GPU by a test") {
  const auto& orders = Registry<GpuReordering>::instance();
  std::set<std::string> checked;
  for (const Way& way : kWays) checked.insert(way.order);
  for (const std::string& name : orders.names()) {
    CAPTURE(name);
    CHECK(checked.contains(name));
    CHECK(Registry<Reordering>::instance().contains(name));
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
