// Hardware counters against what is known of a product: the sectors that its loads touch and the
// MMAs it runs are those of the simulator to the last one, and the L2 is as cold as requested.

#include <doctest/doctest.h>

#include "experiments/backends/backend.hpp"
#include "experiments/counters/counter_source.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "model/simulator/counters.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr const char* kLoadSectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
constexpr const char* kMma = "sm__inst_executed_pipe_tensor.sum";
constexpr const char* kDramRead = "dram__bytes_read.sum";
constexpr const char* kDuration = "gpu__time_duration.sum";

bool cannot_count() {
  const std::string why = find_counter_source("cupti").missing;
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

struct Product {
  std::string kernel;
  std::unique_ptr<SpmmKernel> host;
  std::unique_ptr<PackedMatrix> a;
  DenseMatrix b;
};

Product product(const std::string& kernel, const CsrMatrix& a, std::int64_t n) {
  auto host = Registry<SpmmKernel>::instance().make(kernel);
  auto packed = Registry<Format>::instance().make(host->format())->pack(a);
  return {kernel, std::move(host), std::move(packed), random_dense(a.cols, n, 2)};
}

BackendResult run(const Product& p, const std::vector<std::string>& metrics,
                  const std::string& l2 = "warm") {
  Point point;
  point.backend = "gpu";
  point.task = DenseProduct{
      {}, p.b.cols, {}, {p.kernel, Registry<SpmmKernel>::instance().resolve(p.kernel, {})}};
  point.measure.l2 = l2;
  point.measure.warmup = 0;
  point.measure.min_samples = point.measure.max_samples = 2;
  point.counters = {"cupti", metrics};
  const Permutation rows = Permutation::identity(static_cast<std::int32_t>(p.a->rows()));
  BackendResult result =
      find_backend("gpu").backend->run(Multiplication{point, *p.host, *p.a, p.b, rows});
  result.finish();
  return result;
}

CounterValues counted(const Product& p, const std::vector<std::string>& metrics,
                      const std::string& l2 = "warm") {
  return run(p, metrics, l2).findings.counters.value();
}

TEST_CASE("the load sectors of a product are those of the simulator, exactly and every time") {
  if (cannot_count()) return;
  for (const std::int64_t n : {32, 64, 100}) {
    CAPTURE(n);
    const Product p = product("csr_spmm", random_sparse(3000, 2000, 0.01, 1), n);
    const auto expected =
        simulator::counters(simulator::simulate(p.host->work(*p.a, n), find_device("h200")));

    const CounterValues once = counted(p, {kLoadSectors}), again = counted(p, {kLoadSectors});

    CHECK(once.at(kLoadSectors) == expected.at(kLoadSectors));
    CHECK(again.at(kLoadSectors) == expected.at(kLoadSectors));
  }
}

TEST_CASE("the tensor cores run as many instructions as the work description says") {
  if (cannot_count() || gpu_generation() != "hopper") return;
  const Product p = product("acc_spmm", random_sparse(2000, 2000, 0.02, 3), 64);
  const auto expected =
      simulator::counters(simulator::simulate(p.host->work(*p.a, 64), find_device("h200")));

  const CounterValues found = counted(p, {kMma});

  CHECK(found.at(kMma) > 0);
  CHECK(found.at(kMma) == expected.at(kMma));
}

TEST_CASE("all the usual metrics are counted, over several passes, and tell a plausible story") {
  if (cannot_count()) return;
  const Product p = product("acc_spmm", random_sparse(4000, 4000, 0.01, 4), 128);

  const BackendResult result = run(p, default_metrics());
  const CounterValues found = result.findings.counters.value();

  CHECK(found.size() == default_metrics().size());
  CHECK(result.findings.counters_source == "cupti");
  CHECK(result.findings.counters_l2 == "warm");
  for (const auto& [metric, value] : found) {
    CAPTURE(metric);
    CHECK(value >= 0);
    if (metric.ends_with(".pct") || metric.find("pct_of_peak") != std::string::npos)
      CHECK(value <= 105);  // the sides of a rate come from different passes
  }
  CHECK(found.at(kDuration) > 0.5e3 * result.time_us);  // ns
  CHECK(found.at(kDuration) < 2e3 * result.time_us);
}

TEST_CASE(
    "a product that finds the L2 overwritten reads its operands from memory, a warm one less") {
  if (cannot_count()) return;
  const Product p = product("csr_spmm", random_sparse(8000, 8000, 0.005, 5), 64);
  const double b_bytes = 8000.0 * 64 * 4;

  const double cold = counted(p, {kDramRead}, "flush").at(kDramRead);
  const double warm = counted(p, {kDramRead}, "warm").at(kDramRead);

  CHECK(cold > b_bytes);
  CHECK(warm < 0.5 * cold);
}

TEST_CASE("a product of two launches is counted as one") {
  if (cannot_count()) return;
  const std::string hits = "l1tex__t_sector_hit_rate.pct";
  const Product p = product("csr_spmm", random_sparse(3000, 2000, 0.01, 7), 64);
  const auto gpu = Registry<GpuSpmm>::instance().make("csr_spmm")->upload(*p.a, p.b.cols);
  const DeviceArray<float> b(p.b.values);
  DeviceArray<float> c(static_cast<std::size_t>(p.a->rows() * p.b.cols));
  const Point point;
  const auto count = [&](int launches) {
    return find_counter_source("cupti").source->collect(
        {kLoadSectors, hits, kDuration}, {point, "", 1, {}, [&] {
                                            for (int i = 0; i < launches; ++i)
                                              gpu->launch(0, {b.data(), c.data()}, nullptr);
                                            cuda_check(cudaDeviceSynchronize(),
                                                       "running two launches");
                                          }});
  };

  const CounterValues one = count(1), two = count(2);

  CHECK(two.at(kLoadSectors) == 2 * one.at(kLoadSectors));
  CHECK(two.at(hits) == doctest::Approx(one.at(hits)).epsilon(0.02));
  CHECK(two.at(kDuration) == doctest::Approx(2 * one.at(kDuration)).epsilon(0.3));
}

TEST_CASE("a metric that the chip does not have is an error with the nearest names") {
  if (cannot_count()) return;
  const Product p = product("csr_spmm", random_sparse(50, 50, 0.1, 6), 32);

  CHECK_THROWS_WITH_AS(counted(p, {"lts__t_sectors_op_raed.sum"}),
                       doctest::Contains("no metric lts__t_sectors_op_raed.sum; nearest: "
                                         "lts__t_sectors_op_read.sum"),
                       Error);
  CHECK(counted(p, {kLoadSectors}).at(kLoadSectors) > 0);  // and the next one is counted
}

}  // namespace
}  // namespace tessera
