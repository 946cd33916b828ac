// A product on several GPUs, with threads and memory of the host in their place: what parts
// multiply, exchange and add is the emulation of the whole, and inside the bound of its sums.
#include "kernels/spmm/distributed/distributed_spmm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/csr.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/distributed/thread_communicator.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const Generation& hopper() { return find_generation("hopper"); }

/// alpha A B + beta C on a thread for each part, each with its rows alone.
DenseMatrix multiplied_by_threads(const CsrMatrix& a, const DenseMatrix& b,
                                  const DistributedSpmm& kernel, const Scaling& scaling,
                                  const DenseMatrix& old_c) {
  const int parts = kernel.options().parts;
  const auto comms = connect_threads(parts);
  DenseMatrix c(a.rows, b.cols, std::bit_cast<float>(kPoison));
  run_ranks(
      parts,
      [&](int rank) {
        const Distribution distribution = distribute(a, b.cols, kernel.options());
        const PartOfProduct part = part_of(a, distribution, rank);
        const DenseMatrix own = own_rows(b, part);
        const DenseMatrix arrived =
            exchange_on_host(distribution, part, own, *comms[static_cast<std::size_t>(rank)]);
        const bool is_gathered = distribution.exchange == Exchange::kGathered;
        DenseMatrix old(std::ssize(part.rows), b.cols);
        for (std::int64_t i = 0; i < old.rows; ++i)
          std::ranges::copy(old_c.row(part.rows[static_cast<std::size_t>(i)]), old.row(i).begin());
        const DenseMatrix of_part =
            kernel.emulate_part(part, is_gathered ? arrived : own, arrived, hopper(), scaling, old);
        for (std::int64_t i = 0; i < of_part.rows; ++i)
          std::ranges::copy(of_part.row(i), c.row(part.rows[static_cast<std::size_t>(i)]).begin());
      },
      [&](int rank) { comms[static_cast<std::size_t>(rank)]->give_up(); });
  return c;
}

struct Case {
  const char* matrix;
  std::int64_t n;
};

constexpr Case kCases[] = {{"poisson3d(nx=7)", 40},
                           {"rmat(scale=8, edge_factor=6)", 17},
                           {"uniform(rows=90, cols=210, per_row=5)", 8},
                           {"uniform(rows=5, cols=300, per_row=40)", 33}};

}  // namespace

TEST_CASE("parts that exchange rows of B compute the emulated product, inside its bound") {
  for (const Case& one : kCases)
    for (const char* name : {"csr_spmm", "rows_spmm", "tessera_spmm"})
      for (const int parts : {2, 3, 7})
        for (const Exchange exchange :
             {Exchange::kNeeded, Exchange::kReplicated, Exchange::kGathered}) {
          CAPTURE(one.matrix);
          CAPTURE(name);
          CAPTURE(parts);
          CAPTURE(name_of(exchange));
          const CsrMatrix a = load_matrix(one.matrix).matrix;
          const DenseMatrix b = random_dense(a.cols, one.n, 4);
          const DistributedSpmm kernel({.parts = parts, .kernel = name, .exchange = exchange},
                                       one.n);
          const CsrPacked packed(a);
          const DenseMatrix c = kernel.emulate(packed, b, hopper());
          const DenseMatrix poisoned(a.rows, one.n, std::bit_cast<float>(kPoison));
          CHECK(compare_bits(multiplied_by_threads(a, b, kernel, {}, poisoned), c).different == 0);
          const Permutation rows = Permutation::identity(a.rows);
          const CheckedResult checked = check_result(a, b, c, {kernel, packed, rows, "hopper"});
          CHECK(checked.reason == "");
        }
}

TEST_CASE("rows of B travel in 16 bits, and C of 16 bits lies inside the bound of its roundings") {
  struct Types {
    const char *kernel, *b, *c;
  };
  for (const Types& types :
       {Types{"tessera_spmm", "fp16", "as_b"}, Types{"tessera_spmm", "bf16", "as_b"},
        Types{"rows_spmm", "bf16", "fp32"}, Types{"rows_spmm", "fp16", "as_b"}})
    for (const Exchange exchange :
         {Exchange::kNeeded, Exchange::kReplicated, Exchange::kGathered}) {
      CAPTURE(types.kernel);
      CAPTURE(types.b);
      CAPTURE(types.c);
      CAPTURE(name_of(exchange));
      const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=6)").matrix;
      const DenseMatrix b = random_dense(a.cols, 17, 4);
      const DistributedOptions plain{.parts = 3,
                                     .kernel = types.kernel,
                                     .balance = Balance::kNonzeros,  // alike for all types
                                     .exchange = exchange};
      DistributedOptions options = plain;
      options.params = {{"storage", std::string(types.b)}, {"storage_c", std::string(types.c)}};
      const DistributedSpmm kernel(options, 17);
      const CsrPacked packed(a);

      const DenseMatrix c = kernel.emulate(packed, b, hopper());

      const DenseMatrix poisoned(a.rows, 17, std::bit_cast<float>(kPoison));
      CHECK(compare_bits(multiplied_by_threads(a, b, kernel, {}, poisoned), c).different == 0);
      CHECK(compare_bits(stored_as(kernel.arithmetic().storage.c, c), c).different == 0);
      const Permutation rows = Permutation::identity(a.rows);
      CHECK(check_result(a, b, c, {kernel, packed, rows, "hopper"}).reason == "");
      const bool two_sums = exchange != Exchange::kGathered;
      CHECK(kernel.arithmetic().roundings_of_c == (two_sums ? 2 : 1));
      CHECK(2 * distribute(a, 17, options).bytes_exchanged() ==
            distribute(a, 17, plain).bytes_exchanged());
      // beta C is rounded between both sums as well.
      const DenseMatrix old_c =
          stored_as(kernel.arithmetic().storage.c, random_dense(a.rows, 17, 5));
      const DenseMatrix added = multiplied_by_threads(a, b, kernel, {1, -1}, old_c);
      CHECK(compare_bits(stored_as(kernel.arithmetic().storage.c, added), added).different == 0);
    }
}

TEST_CASE("alpha and beta apply once, whatever the number of sums of an element") {
  const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 16, 4), old_c = random_dense(a.rows, 16, 5);
  const DistributedSpmm kernel({.parts = 3, .kernel = "csr_spmm"}, 16);
  const DenseMatrix product = kernel.emulate(CsrPacked(a), b, hopper());
  // Powers of two scale without rounding, so that only the addition of old C rounds otherwise.
  const DenseMatrix doubled = multiplied_by_threads(a, b, kernel, {2, 0}, old_c);
  for (std::size_t i = 0; i < doubled.values.size(); ++i)
    REQUIRE(doubled.values[i] == 2 * product.values[i]);
  const DenseMatrix added = multiplied_by_threads(a, b, kernel, {1, -1}, old_c);
  for (std::size_t i = 0; i < added.values.size(); ++i)
    REQUIRE(added.values[i] ==
            doctest::Approx(product.values[i] - old_c.values[i]).epsilon(1e-5).scale(10));
}

TEST_CASE("the emulation of the whole applies alpha and beta where its parts do") {
  const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 17, 4);
  const CsrPacked packed(a);
  const Scaling scaling{0.3f, -0.7f};
  for (const char* storage : {"fp32", "fp16"})
    for (const Exchange exchange : {Exchange::kNeeded, Exchange::kGathered}) {
      CAPTURE(storage);
      CAPTURE(name_of(exchange));
      const DistributedSpmm kernel({.parts = 3,
                                    .kernel = "tessera_spmm",
                                    .params = {{"storage", std::string(storage)}},
                                    .exchange = exchange},
                                   17);
      const ElementType type = kernel.arithmetic().storage.c;
      const DenseMatrix old_c = stored_as(type, random_dense(a.rows, 17, 5));
      const auto results = kernel.emulate_scaled(packed, b, hopper(), scaling, old_c);
      REQUIRE(results.size() == 1);
      const DenseMatrix of_parts = multiplied_by_threads(a, b, kernel, scaling, old_c);
      CHECK(compare_bits(results.front(), of_parts).different == 0);
      // Scaled behind the sum of both products it has other bits, if there are two or few digits.
      const DenseMatrix behind =
          emulate_scaling(scaling, kernel.emulate(packed, b, hopper()), old_c, type);
      const bool rounds_before = exchange == Exchange::kNeeded || type == ElementType::kFp16;
      CHECK((compare_bits(behind, of_parts).different > 0) == rounds_before);
      CHECK_THROWS_AS(kernel.emulate_scaled(packed, b, hopper(), scaling, DenseMatrix(a.rows, 16)),
                      Error);
    }
}

TEST_CASE("one part, and parts that gather all of B, keep the bits of a kernel by rows") {
  const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 24, 4);
  const CsrPacked packed(a);
  const DenseMatrix whole =
      Registry<SpmmKernel>::instance().make("csr_spmm")->emulate(packed, b, hopper());
  const DistributedSpmm one({.parts = 1, .kernel = "csr_spmm"}, 24);
  CHECK(compare_bits(one.emulate(packed, b, hopper()), whole).different == 0);
  const DistributedSpmm gathered(
      {.parts = 3, .kernel = "csr_spmm", .exchange = Exchange::kGathered}, 24);
  CHECK(compare_bits(gathered.emulate(packed, b, hopper()), whole).different == 0);
  const DistributedSpmm two_sums({.parts = 3, .kernel = "csr_spmm"}, 24);
  CHECK(compare_bits(two_sums.emulate(packed, b, hopper()), whole).different > 0);
}

TEST_CASE("a row of B that arrives wrong is seen in C") {
  const CsrMatrix a = load_matrix("poisson3d(nx=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 8, 4);
  const DistributedSpmm kernel({.parts = 2, .kernel = "csr_spmm"}, 8);
  const Distribution distribution = distribute(a, 8, kernel.options());
  const PartOfProduct part = part_of(a, distribution, 0);
  const auto& rows = distribution.travelling.rows(0, 1);
  DenseMatrix received(std::ssize(rows), 8);
  for (std::int64_t i = 0; i < received.rows; ++i)
    std::ranges::copy(b.row(rows[static_cast<std::size_t>(i)]), received.row(i).begin());
  const DenseMatrix old(std::ssize(part.rows), 8);
  const auto c = [&] {
    return kernel.emulate_part(part, own_rows(b, part), received, hopper(), {}, old);
  };
  const DenseMatrix right = c();
  received.at(received.rows / 2, 3) += 1;
  CHECK(compare_bits(c(), right).different > 0);
}

TEST_CASE("METIS's or anybody's partition of the rows is taken as it is") {
  const CsrMatrix a = load_matrix("poisson3d(nx=6)").matrix;
  const DenseMatrix b = random_dense(a.cols, 8, 4);
  std::vector<std::int32_t> of_row(static_cast<std::size_t>(a.rows));
  for (std::size_t i = 0; i < of_row.size(); ++i)
    of_row[i] = static_cast<std::int32_t>(random_bits(3, i) % 4);
  const DistributedSpmm kernel({.parts = 4, .kernel = "rows_spmm", .of_row = of_row}, 8);
  CHECK(distribute(a, 8, kernel.options()).partition.of_row == of_row);
  const DenseMatrix poisoned(a.rows, 8, std::bit_cast<float>(kPoison));
  CHECK(compare_bits(multiplied_by_threads(a, b, kernel, {}, poisoned),
                     kernel.emulate(CsrPacked(a), b, hopper()))
            .different == 0);
}

TEST_CASE("products on several GPUs refuse a B of another shape") {
  const DistributedSpmm kernel({.kernel = "csr_spmm"}, 8);
  CHECK_THROWS_WITH_AS(
      kernel.emulate(CsrPacked(random_sparse(6, 6, 0.5, 1)), random_dense(6, 9, 1), hopper()),
      "B is 6 x 9, but has to be 6 x 8", Error);
}

TEST_CASE("ranks that wait for one that has failed do not wait for ever") {
  const auto comms = connect_threads(3);
  const auto run = [&](int failing) {
    run_ranks(
        3,
        [&](int rank) {
          if (rank == failing) throw std::invalid_argument("this rank fails");
          char byte = 0;
          const IncomingBlock block{failing, &byte, 1};
          comms[static_cast<std::size_t>(rank)]->exchange({}, {&block, 1}, nullptr);
        },
        [&](int rank) { comms[static_cast<std::size_t>(rank)]->give_up(); });
  };
  CHECK_THROWS_AS(run(1), std::invalid_argument);
}

TEST_CASE("an exchange refuses itself as a peer, ranks that are not there and other sizes") {
  const auto comms = connect_threads(2);
  char bytes[2] = {};
  const auto sends_to = [&](int to) {
    const OutgoingBlock block{to, bytes, 1};
    comms[0]->exchange({&block, 1}, {}, nullptr);
  };
  CHECK_THROWS_WITH_AS(sends_to(0),
                       "rank 0 of 2 cannot send to rank 0: it takes another one of [0, 2)", Error);
  CHECK_THROWS_AS(sends_to(2), Error);
  sends_to(1);
  const IncomingBlock larger{0, bytes, 2};
  CHECK_THROWS_WITH_AS(comms[1]->exchange({}, {&larger, 1}, nullptr),
                       "rank 0 sends 1 bytes, but rank 1 expects 2", Error);
  CHECK_THROWS_AS(connect_threads(0), Error);
}

}  // namespace tessera
