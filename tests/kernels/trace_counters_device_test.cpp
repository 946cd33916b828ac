// The trace that each SpMM kernel publishes against the counters of the hardware: executed
// instructions, MMAs, and sectors requested from the L1 and the L2. A trace that leaves the
// kernel's schedule, or a number of instructions that the compiler has changed, shows here.
//
// Every choice of every kernel with a trace is compared on a matrix with rows of about one length
// and on one with a few long rows; $TESSERA_TRACE_KERNELS=smat,tca_spmm compares those kernels
// alone. The tolerances are the largest differences on an H200 (CUDA 13.0), rounded up: they are
// the errors that today's predictions begin with.

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "tests/counted_products.hpp"
#include "tests/kernel_choices.hpp"
#include "tests/support.hpp"
#include "tests/trace_counters.hpp"

namespace tessera {
namespace {

/// Those of rows_spmm are of its kernels for few columns of B; others are within 0.04.
TraceTolerance tolerance_of(const Choice& choice) {
  static const std::map<std::string, TraceTolerance> of_kernel{
      {"csr_spmm", {0.03, 0.01, 0.16}},   {"rode", {0.34, 0.07, 0.21}},
      {"sputnik", {0.08, 0.04, 0.19}},    {"gespmm", {0.18, 0.01, 0.22}},
      {"row_split", {0.11, 0.01, 0.16}},  {"hp_spmm", {0.08, 0.50, 0.19}},
      {"merge_spmm", {0.25, 0.37, 0.22}}, {"dgsparse", {0.31, 0.82, 0.30}},
      {"acc_spmm", {0.57, 0.11, 0.20}},   {"windows_spmm", {0.02, 0.01, 0.04}},
      {"warps_spmm", {0.03, 0.02, 0.09}}, {"shares_spmm", {0.11, 0.01, 0.01}},
      {"smat", {0.16, 0.01, 0.94}},       {"tca_spmm", {0.15, 0.04, 0.03}},
      {"cutespmm", {0.26, 0.02, 0.03}},   {"dtc_spmm", {0.26, 0.17, 0.10}},
      {"tcgnn", {0.62, 0.03, 0.03}},      {"flash_spmm", {0.45, 0.06, 0.18}},
      {"magicube", {0.58, 0.22, 0.08}},   {"dasp", {0.43, 0.46, 0.08}},
      {"hyb_spmm", {0.04, 0.01, 0.14}},   {"tessera_spmm", {0.06, 0.12, 0.09}},
      {"rows_spmm", {0.10, 0.05, 0.20}},  {"dense_spmm", {0.05, INFINITY, 0.15}},
      {"tall_spmm", {0.07, 0.03, 0.10}},
  };
  TraceTolerance tolerance = of_kernel.at(choice.kernel);
  // The compiler predicates the MMAs of bricks that a block of two brick rows lacks, and the
  // counter counts an instruction whose predicate is false.
  if (choice.kernel == "cutespmm" && choice.format.contains("tile_rows")) tolerance.mma = 0.12;
  // The same of rows and columns that a warp of tall_spmm lacks.
  if (choice.kernel == "tall_spmm") tolerance.mma = 0.25;
  // Up to 16 warps, of several thread blocks, read the same parts of A at about the same time. On
  // the hardware few of these reads reach the L2 more than once; the simulated memory joins fewer.
  if (choice.kernel == "smat" && text_of(choice.params).find("warp_cols = 8 ") != std::string::npos)
    tolerance.l2_reads = 2.16;
  return tolerance;
}

TraceCounts count(const Choice& choice, const PackedMatrix& packed, std::int64_t n,
                  std::int32_t cols) {
  const Params params = Registry<SpmmKernel>::instance().resolve(choice.kernel, choice.params);
  const auto gpu = Registry<GpuSpmm>::instance().make(choice.kernel, params)->upload(packed, n);
  const DenseMatrix b = random_dense(cols, n, 11);
  const DeviceArray<float> device_b(b.values);
  DeviceArray<float> c(static_cast<std::size_t>(packed.rows() * n));
  return hardware_counts([&] {
    gpu->launch(0, {device_b.data(), c.data()}, nullptr);
    cuda_check(cudaDeviceSynchronize(), "running a product that is counted");
  });
}

/// The number of choices that the whole comparison exceeds, and a selection need not.
int least(int whole) { return selects_kernels() ? -1 : whole; }

/// A product of the comparison: what the hardware counts, then what its trace has.
struct Compared {
  const Choice* choice;
  std::string product;
  TracedProduct traced;
  TraceCounts counted{}, predicted{};
};

/// Compares the choices that `takes` accepts, and returns their number. All are counted first:
/// simulating them takes most of the time, and all threads.
int compare_all(const std::string& name, const CsrMatrix& a, std::int64_t n,
                const std::function<bool(const Choice&)>& takes) {
  std::vector<Compared> all;
  for (const Choice& choice : kernel_choices()) {
    if (!takes(choice) || !is_selected(choice.kernel)) continue;
    TracedProduct traced(choice, a, n);
    if (!traced.work) continue;
    const std::string product =
        name + "," + choice.kernel + "," + text_of(choice) + "," + std::to_string(n);
    CAPTURE(product);
    const TraceCounts counted = count(choice, *traced.packed, n, a.cols);
    append_counted(product, counted);
    all.push_back({&choice, product, std::move(traced), counted});
  }
  parallel_for(std::ssize(all), 1, [&](std::int64_t begin, std::int64_t end) {
    for (Compared& one : std::span(all).subspan(begin, end - begin))
      one.predicted = predicted_counts(*one.traced.work);
  });
  for (const Compared& one : all) {
    CAPTURE(one.product);
    append_to_table(one.product, one.predicted, one.counted);
    CHECK(counts_beyond(one.predicted, one.counted, tolerance_of(*one.choice)) == "");
  }
  return static_cast<int>(all.size());
}

bool is_wide(const Choice& choice) { return choice.most_cols > 8; }
bool is_narrow(const Choice& choice) { return !is_wide(choice); }

TEST_CASE("every SpMM trace agrees with the counters on rows of about one length") {
  if (cannot_compare_traces()) return;
  const CsrMatrix a = counted_matrix("even");
  CHECK(compare_all("even", a, 32, is_wide) > least(100));
  CHECK(compare_all("even", a, 128, is_wide) > least(100));
}

TEST_CASE("the traces of kernels for few columns of B agree with the counters") {
  if (cannot_compare_traces()) return;
  const CsrMatrix a = counted_matrix("even");
  CHECK(compare_all("even", a, 8, is_narrow) > least(0));
}

TEST_CASE("every SpMM trace agrees with the counters on a matrix with a few long rows") {
  if (cannot_compare_traces()) return;
  const CsrMatrix a = counted_matrix("skewed");
  CHECK(compare_all("skewed", a, 128, is_wide) > least(100));
}

}  // namespace
}  // namespace tessera
