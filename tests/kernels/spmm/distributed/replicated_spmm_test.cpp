// The 1.5D product, with threads and memory of the host in the place of GPUs: what ranks gather,
// multiply and add is the emulation of the whole, and inside the bound of its sums.
#include "kernels/spmm/distributed/replicated_spmm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/csr.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/distributed/thread_communicator.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const Generation& hopper() { return find_generation("hopper"); }

/// A B on a thread for each rank. Every copy of a group's rows has to be the same.
DenseMatrix multiplied_by_threads(const CsrMatrix& a, const DenseMatrix& b,
                                  const ReplicatedSpmm& kernel) {
  const int parts = kernel.options().parts, copies = kernel.options().copies;
  const ReplicatedLayout layout(a, kernel.options());
  const auto comms = connect_threads(parts);
  std::vector<DenseMatrix> of_copy(static_cast<std::size_t>(copies),
                                   DenseMatrix(a.rows, b.cols, std::bit_cast<float>(kPoison)));
  run_ranks(
      parts,
      [&](int rank) {
        const RowRange& of_b = layout.b_rows(rank);
        DenseMatrix own(of_b.count, b.cols);
        std::copy_n(b.values.begin() + of_b.first * b.cols, of_b.count * b.cols,
                    own.values.begin());
        const DenseMatrix c =
            kernel.multiply_on_host(a, own, hopper(), *comms[static_cast<std::size_t>(rank)]);
        std::ranges::copy(c.values,
                          of_copy[static_cast<std::size_t>(layout.copy_of(rank))].values.begin() +
                              layout.rows(rank).first * b.cols);
      },
      [&](int rank) { comms[static_cast<std::size_t>(rank)]->give_up(); });
  for (const DenseMatrix& copy : of_copy) CHECK(compare_bits(copy, of_copy.front()).different == 0);
  return of_copy.front();
}

TEST_CASE("ranks of the 1.5D product compute the emulated product, inside its bound") {
  struct Grid {
    int parts, copies;
  };
  for (const char* matrix :
       {"poisson3d(nx=7)", "rmat(scale=8, edge_factor=6)", "uniform(rows=90, cols=210, per_row=5)"})
    for (const char* name : {"csr_spmm", "rows_spmm", "tessera_spmm"})
      for (const Grid& grid : {Grid{1, 1}, {2, 1}, {2, 2}, {4, 2}, {6, 3}, {8, 4}}) {
        CAPTURE(matrix);
        CAPTURE(name);
        CAPTURE(grid.parts);
        CAPTURE(grid.copies);
        const CsrMatrix a = load_matrix(matrix).matrix;
        const DenseMatrix b = random_dense(a.cols, 17, 4);
        const ReplicatedSpmm kernel({.parts = grid.parts, .copies = grid.copies, .kernel = name});
        const CsrPacked packed(a);

        const DenseMatrix c = kernel.emulate(packed, b, hopper());

        CHECK(compare_bits(multiplied_by_threads(a, b, kernel), c).different == 0);
        const Permutation rows = Permutation::identity(a.rows);
        CHECK(check_result(a, b, c, {kernel, packed, rows, "hopper"}).reason == "");
      }
}

TEST_CASE("one copy and one part keep the bits of a kernel by rows, several copies add sums") {
  const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 24, 4);
  const CsrPacked packed(a);
  const DenseMatrix whole =
      Registry<SpmmKernel>::instance().make("csr_spmm")->emulate(packed, b, hopper());
  const auto emulated = [&](int parts, int copies) {
    return ReplicatedSpmm({.parts = parts, .copies = copies}).emulate(packed, b, hopper());
  };
  CHECK(compare_bits(emulated(4, 1), whole).different == 0);
  CHECK(compare_bits(emulated(4, 2), whole).different > 0);
}

TEST_CASE("copies of B save rows of B that travel, and cost sums of C") {
  const CsrMatrix a = load_matrix("uniform(rows=960, per_row=4)").matrix;
  const auto exchanged = [&](int parts, int copies) {
    return ReplicatedLayout(a, {.parts = parts, .copies = copies}).rows_exchanged();
  };
  // All ranks gather all other rows of B without copies. With c of them a rank gathers those of its
  // share, sends the sums of all slices but its own, and its slice to the others of its group. The
  // groups are alike in nonzeros, thus in rows.
  CHECK(exchanged(16, 1) == 16 * (960 - 60));
  CHECK(exchanged(16, 4) == 16 * (240 - 60) + 16 * (240 - 60) + 16 * 3 * 60);
  CHECK(exchanged(2, 2) == 2 * 480 + 2 * 480);
}

TEST_CASE("the 1.5D product refuses copies that do not divide the parts, and 16 bits") {
  const CsrMatrix a = random_sparse(6, 6, 0.5, 1);
  CHECK_THROWS_WITH_AS(ReplicatedLayout(a, {.parts = 4, .copies = 3}),
                       "3 copies of B do not divide 4 parts", Error);
  CHECK_THROWS_AS(
      ReplicatedSpmm({.kernel = "rows_spmm", .params = {{"storage", std::string("fp16")}}}),
      Unsupported);
}

}  // namespace
}  // namespace tessera
