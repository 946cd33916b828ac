// The traces of SpMM kernels against what an H200 has counted: experiments/results/simulator/
// counted.csv, which names the commit of the kernels. A trace that leaves its kernel, or a kernel
// that leaves its counts, shows here without a GPU.
//
// Instructions, MMAs and sectors of the L1 are those of the warps, whatever their timing, and all
// products are compared. Reads of the L2 need a simulation: those of a few products are compared,
// and all are with $TESSERA_TRACE_TABLE, the file to which their differences are appended
// (notebooks/trace_counters.py). $TESSERA_TRACE_KERNELS=smat,tca_spmm takes those kernels alone.

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/counted_products.hpp"

namespace tessera {
namespace {

struct Counted {
  std::string matrix, kernel, params;
  std::int64_t n;
  TraceCounts counts;
};

std::vector<Counted> read_counted() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) +
                     "/experiments/results/simulator/counted.csv");
  REQUIRE(file.good());
  std::vector<Counted> products;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream row(line);
    std::vector<std::string> cells;
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    REQUIRE(cells.size() == 9);
    products.push_back({cells[0],
                        cells[1],
                        cells[2],
                        std::stoll(cells[3]),
                        {.instructions = std::stod(cells[4]),
                         .mma = std::stod(cells[5]),
                         .l1_sectors = std::stod(cells[6]),
                         .l2_reads = std::stod(cells[7])}});
  }
  return products;
}

const Choice& choice_of(const Counted& product) {
  for (const Choice& choice : kernel_choices())
    if (choice.kernel == product.kernel && text_of(choice) == product.params) return choice;
  FAIL("no choice of ", product.kernel, " is ", product.params);
  return kernel_choices().front();
}

/// Of one product. The hardware counts no sectors of the L1 for copies by the TMA (dense_spmm), and
/// instructions whose predicate is false: MMAs of bricks that a block of two brick rows lacks
/// (cutespmm), and of rows and columns that a warp of tall_spmm lacks.
TraceTolerance tolerance_of(const Counted& product) {
  TraceTolerance tolerance{.instructions = 0.06, .l1_sectors = 0.12, .l2_reads = 0.15};
  const auto has = [&](const char* text) { return product.params.find(text) != std::string::npos; };
  if (product.kernel == "dense_spmm") tolerance.l1_sectors = INFINITY;
  if (product.kernel == "tall_spmm") tolerance.mma = 0.25;
  if (has("tile_rows = 32")) tolerance.mma = 0.01;
  // What is left, rounded up: teams of parts of one TC block, and tiles of 128 columns, are not
  // counted piece by piece; the sectors of eight columns of dgsparse are off by 14 %.
  if (product.kernel == "tessera_spmm" && has("max_blocks = 1 ")) tolerance.instructions = 0.09;
  if (product.kernel == "tca_spmm" && has("tile_cols = 128")) tolerance.instructions = 0.065;
  if (product.kernel == "dgsparse" && has("columns = 8 ")) tolerance.l1_sectors = 0.15;
  return tolerance;
}

/// The mean difference of a kernel's instructions that is allowed.
constexpr double kMeanDifference = 0.03;

TEST_CASE("the traces have the instructions that an H200 counted, within three percent") {
  const std::vector<Counted> products = read_counted();
  REQUIRE(products.size() > 200);
  const CsrMatrix a = counted_matrix("even");
  std::map<std::string, std::vector<double>> differences;
  for (const Counted& product : products) {
    // Wider ones have the same instructions, and take longer.
    if (product.matrix != "even" || product.n > 32 || !is_selected(product.kernel)) continue;
    CAPTURE(product.kernel);
    CAPTURE(product.params);
    const TracedProduct traced(choice_of(product), a, product.n);
    REQUIRE(traced.work.has_value());
    TraceCounts counts = traced_counts(*traced.work);
    counts.l2_reads = product.counts.l2_reads;  // compared below
    const TraceTolerance tolerance = tolerance_of(product);
    CHECK(counts_beyond(counts, product.counts, tolerance) == "");
    TraceCounts more = product.counts;
    more.instructions *= 1.15;
    CHECK(counts_beyond(counts, more, tolerance) != "");
    differences[product.kernel].push_back(
        std::abs(difference(counts.instructions, product.counts.instructions)));
  }
  for (const auto& [kernel, of_kernel] : differences) {
    CAPTURE(kernel);
    double sum = 0;
    for (const double one : of_kernel) sum += one;
    CHECK(sum / static_cast<double>(of_kernel.size()) < kMeanDifference);
  }
}

TEST_CASE(
    "a simulation counts what the traces have, and the reads of the L2 that an H200 counted") {
  const CsrMatrix a = counted_matrix("even");
  const bool all = std::getenv("TESSERA_TRACE_TABLE") != nullptr;
  std::string last;
  for (const Counted& product : read_counted()) {
    const bool is_first = product.kernel != last;  // of a kernel: its default choice
    last = product.kernel;
    const bool is_quick = product.kernel == "sputnik" || product.kernel == "acc_spmm" ||
                          product.kernel == "tessera_spmm" || product.kernel == "rows_spmm";
    if (product.n > 32 || !is_selected(product.kernel) || !(all || (is_first && is_quick)))
      continue;
    CAPTURE(product.kernel);
    CAPTURE(product.params);
    const TracedProduct traced(choice_of(product), a, product.n);
    REQUIRE(traced.work.has_value());
    const TraceCounts counts = predicted_counts(*traced.work);
    const TraceCounts of_warps = traced_counts(*traced.work);
    CHECK(counts.instructions == of_warps.instructions);
    CHECK(counts.mma == of_warps.mma);
    CHECK(counts.l1_sectors == of_warps.l1_sectors);
    append_to_table(product.matrix + "," + product.kernel + "," + product.params + "," +
                        std::to_string(product.n),
                    counts, product.counts);
    if (is_quick)
      CHECK(std::abs(difference(counts.l2_reads, product.counts.l2_reads)) <
            tolerance_of(product).l2_reads);
  }
}

}  // namespace
}  // namespace tessera
