// The trace that each kernel publishes against the counters of the hardware: executed instructions,
// MMAs, and sectors that the L1 and the L2 are asked for. A trace that leaves the kernel's
// schedule, or a number of instructions that the compiler has changed, shows here.
//
// Every choice of every kernel with a trace is compared on a matrix with rows of about one length
// and on one with a few long rows. A tolerance is the largest difference that was measured of a
// kernel on an H200 with CUDA 13.0, rounded up: it is the error that a prediction starts with.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "experiments/counters/counter_source.hpp"
#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "model/simulator/counters.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr const char* kInstructions = "sm__inst_executed.sum";
constexpr const char* kMma = "sm__inst_executed_pipe_tensor.sum";
constexpr const char* kL1Sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
constexpr const char* kL2Reads = "lts__t_sectors_srcunit_tex_op_read.sum";

/// Largest relative differences between a trace and the counters.
struct Tolerance {
  double instructions, l1_sectors, l2_reads;
};

Tolerance tolerance_of(const std::string& kernel) {
  static const std::map<std::string, Tolerance> of_kernel{};
  const auto found = of_kernel.find(kernel);
  return found == of_kernel.end() ? Tolerance{0.10, 0.01, 0.05} : found->second;
}

double relative(double predicted, double counted) {
  return counted == 0 ? (predicted == 0 ? 0 : INFINITY) : predicted / counted - 1;
}

bool has_traces(const WorkDescription& work) {
  return !work.launches.empty() &&
         std::ranges::all_of(work.launches, [](const Launch& one) { return one.trace != nullptr; });
}

bool cannot_compare() {
  std::string why = find_counter_source("cupti").missing;
  if (why.empty() && gpu_generation() != "hopper")
    why = "instructions are those of the code for Hopper";
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

CounterValues count(const Choice& choice, const PackedMatrix& packed, std::int64_t n,
                    std::int32_t cols) {
  const auto gpu =
      Registry<GpuSpmm>::instance().make(choice.kernel, choice.params)->upload(packed, n);
  const DenseMatrix b = random_dense(cols, n, 11);
  const DeviceArray<float> device_b(b.values);
  DeviceArray<float> c(static_cast<std::size_t>(packed.rows() * n));
  Point point;
  point.kernel.name = choice.kernel;
  return find_counter_source("cupti").source->collect(
      {kInstructions, kMma, kL1Sectors, kL2Reads},
      {point, "", 1, {}, [&] {
         gpu->launch(0, {device_b.data(), c.data()}, nullptr);
         cuda_check(cudaDeviceSynchronize(), "running a product that is counted");
       }});
}

/// Prints a row of the table of differences where TESSERA_TRACE_TABLE names a file.
void tell(const std::string& matrix, const Choice& choice, std::int64_t n,
          const std::map<std::string, double>& predicted, const CounterValues& counted) {
  const char* path = std::getenv("TESSERA_TRACE_TABLE");
  if (path == nullptr) return;
  std::FILE* file = std::fopen(path, "a");
  REQUIRE(file != nullptr);
  std::fprintf(file, "%s,%s,\"%s%s\",%lld", matrix.c_str(), choice.kernel.c_str(),
               text_of(choice.params).c_str(), text_of(choice.format).c_str(),
               static_cast<long long>(n));
  for (const char* metric : {kInstructions, kMma, kL1Sectors, kL2Reads})
    std::fprintf(file, ",%.0f,%.0f,%.4f", predicted.at(metric), counted.at(metric),
                 relative(predicted.at(metric), counted.at(metric)));
  std::fprintf(file, "\n");
  std::fclose(file);
}

int compare_all(const std::string& name, const CsrMatrix& a, std::int64_t n) {
  int compared = 0;
  for (const Choice& choice : kernel_choices()) {
    if (n > choice.most_cols) continue;
    CAPTURE(name);
    CAPTURE(choice.kernel);
    const std::string chosen = text_of(choice.params) + text_of(choice.format);
    CAPTURE(chosen);
    CAPTURE(n);
    const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
    const auto packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
    const WorkDescription work = kernel->work(*packed, n);
    if (!has_traces(work)) continue;
    const auto predicted = simulator::counters(simulator::simulate(work, find_device("h200")));
    CounterValues counted;
    try {
      counted = count(choice, *packed, n, a.cols);
    } catch (const Unsupported&) {
      continue;  // the device half refuses what the host half describes
    }
    tell(name, choice, n, predicted, counted);
    const Tolerance tolerance = tolerance_of(choice.kernel);
    const auto differs = [&](const char* metric) {
      return std::abs(relative(predicted.at(metric), counted.at(metric)));
    };

    CHECK(counted.at(kInstructions) > 0);
    CHECK(predicted.at(kMma) == counted.at(kMma));
    CHECK(differs(kInstructions) <= tolerance.instructions);
    CHECK(differs(kL1Sectors) <= tolerance.l1_sectors);
    CHECK(differs(kL2Reads) <= tolerance.l2_reads);
    ++compared;
  }
  return compared;
}

TEST_CASE("every trace agrees with the counters on rows of about one length") {
  if (cannot_compare()) return;
  const CsrMatrix a = random_sparse(6000, 6000, 0.005, 21);
  CHECK(compare_all("even", a, 32) > 50);
  CHECK(compare_all("even", a, 128) > 50);
}

TEST_CASE("every trace agrees with the counters on a matrix with a few long rows") {
  if (cannot_compare()) return;
  const CsrMatrix a = load_matrix("rmat(scale=13, edge_factor=16)").matrix;
  CHECK(compare_all("skewed", a, 128) > 50);
}

TEST_CASE("a number of instructions that is off by a fifth is found") {
  CHECK(std::abs(relative(120, 100)) > tolerance_of("acc_spmm").instructions);
  CHECK(std::abs(relative(100, 100)) <= tolerance_of("acc_spmm").instructions);
}

}  // namespace
}  // namespace tessera
