// A chain of products on several GPUs, with threads and memory of the host in their place.
#include "kernels/spmm/distributed/chain_spmm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <set>

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

/// X after some products, on a thread for each part.
DenseMatrix multiplied_by_threads(const CsrMatrix& a, const DenseMatrix& x, const ChainSpmm& chain,
                                  int products) {
  const int parts = chain.options().parts;
  const auto rows = members_of(distribute(a, x.cols, chain.options()).partition.of_row, parts);
  const auto comms = connect_threads(parts);
  DenseMatrix found(a.rows, x.cols, std::bit_cast<float>(kPoison));
  run_ranks(
      parts,
      [&](int rank) {
        const auto& of_part = rows[static_cast<std::size_t>(rank)];
        DenseMatrix own(std::ssize(of_part), x.cols);
        for (std::int64_t i = 0; i < own.rows; ++i)
          std::ranges::copy(x.row(of_part[static_cast<std::size_t>(i)]), own.row(i).begin());
        const DenseMatrix c = chain.run_on_host(a, own, products, 0.5f, hopper(),
                                                *comms[static_cast<std::size_t>(rank)]);
        for (std::int64_t i = 0; i < c.rows; ++i)
          std::ranges::copy(c.row(i), found.row(of_part[static_cast<std::size_t>(i)]).begin());
      },
      [&](int rank) { comms[static_cast<std::size_t>(rank)]->give_up(); });
  return found;
}

/// The same by the emulation of the whole, one product after the other.
DenseMatrix emulated(const CsrMatrix& a, DenseMatrix x, const ChainSpmm& chain, int products) {
  const CsrPacked packed(a);
  const ElementType type = chain.arithmetic().storage.c;
  const DenseMatrix not_read(a.rows, x.cols);
  for (int i = 0; i < products; ++i)
    x = emulate_scaling({0.5f, 0}, chain.emulate(packed, x, hopper()), not_read, type);
  return x;
}

TEST_CASE("parts of a chain compute what the emulation does, and each product is in its bound") {
  for (const char* matrix : {"poisson3d(nx=7)", "rmat(scale=8, edge_factor=6)"})
    for (const char* name : {"csr_spmm", "rows_spmm", "tessera_spmm"})
      for (const int parts : {1, 2, 5})
        for (const int pieces : {1, 3}) {
          CAPTURE(matrix);
          CAPTURE(name);
          CAPTURE(parts);
          CAPTURE(pieces);
          const CsrMatrix a = load_matrix(matrix).matrix;
          const DenseMatrix x = random_dense(a.cols, 17, 4);
          const ChainSpmm chain({.parts = parts, .kernel = name}, 17, pieces);

          CHECK(compare_bits(multiplied_by_threads(a, x, chain, 3), emulated(a, x, chain, 3))
                    .different == 0);

          const CsrPacked packed(a);
          const Permutation rows = Permutation::identity(a.rows);
          const DenseMatrix c = chain.emulate(packed, x, hopper());
          CHECK(check_result(a, x, c, {chain, packed, rows, "hopper"}).reason == "");
        }
}

TEST_CASE("a chain in 16 bits rounds each element once a product") {
  struct Case {
    const char *kernel, *storage;
    float size;  // of X; FP16 rounds once more what is scaled below its normal numbers
  };
  const CsrMatrix a = load_matrix("poisson3d(nx=6)").matrix;
  for (const auto& [kernel, storage, size] : {Case{"rows_spmm", "bf16", 1},
                                              {"tessera_spmm", "fp16", 1},
                                              {"tessera_spmm", "fp16", 3e-5f}}) {
    CAPTURE(kernel);
    CAPTURE(size);
    const ChainSpmm chain(
        {.parts = 3, .kernel = kernel, .params = {{"storage", std::string(storage)}}}, 12);
    DenseMatrix x = random_dense(a.cols, 12, 4);
    for (float& value : x.values) value *= size;
    x = stored_as(chain.arithmetic().storage.b, std::move(x));
    CHECK(chain.arithmetic().roundings_of_c == 1);
    CHECK(compare_bits(multiplied_by_threads(a, x, chain, 2), emulated(a, x, chain, 2)).different ==
          0);
  }
  CHECK_THROWS_AS(
      ChainSpmm({.kernel = "rows_spmm",
                 .params = {{"storage", std::string("bf16")}, {"storage_c", std::string("fp32")}}},
                12),
      Unsupported);
}

TEST_CASE("pieces of a boundary have each row once, and both ends of an exchange agree") {
  const CsrMatrix a = load_matrix("rmat(scale=8, edge_factor=3)").matrix;
  std::vector<std::int32_t> of_row(static_cast<std::size_t>(a.rows));
  for (std::size_t i = 0; i < of_row.size(); ++i)
    of_row[i] = static_cast<std::int32_t>(random_bits(3, i) % 3);
  const DistributedOptions options{
      .parts = 3, .kernel = "csr_spmm", .of_row = of_row, .exchange = Exchange::kNeeded};
  const Distribution distribution = distribute(a, 8, options);
  std::vector<ChainPart> parts;
  for (int part = 0; part < 3; ++part) parts.push_back(chain_part(a, distribution, part, 4));
  for (const ChainPart& part : parts) {
    CAPTURE(part.part);
    std::set<std::int32_t> rows;
    std::int64_t sent = 0, received = 0, nonzeros = 0;
    for (std::size_t number = 0; number < part.pieces.size(); ++number) {
      const ChainPiece& piece = part.pieces[number];
      for (const std::int32_t row : piece.rows) CHECK(rows.insert(row).second);
      const std::set<std::int32_t> here(piece.rows.begin(), piece.rows.end());
      for (const PeerRows& block : piece.sends) {
        for (std::int64_t i = 0; i < block.count; ++i)
          CHECK(here.contains(part.sent_rows[static_cast<std::size_t>(block.first + i)]));
        const auto& other = parts[static_cast<std::size_t>(block.peer)].pieces[number].receives;
        const auto match = std::ranges::find(other, part.part, &PeerRows::peer);
        REQUIRE(match != other.end());
        CHECK(match->count == block.count);
        sent += block.count;
      }
      for (const PeerRows& block : piece.receives) received += block.count;
      nonzeros += piece.a.nnz();
    }
    CHECK(rows.size() == part.rows.size());
    CHECK(sent == std::ssize(part.sent_rows));
    CHECK(received == part.received);
    CHECK(part.pieces.back().sends.empty());
    std::int64_t of_part = 0;
    for (const std::int32_t row : part.rows) of_part += a.row_length(row);
    CHECK(nonzeros == of_part);
  }
}

TEST_CASE("a chain refuses an A that is not square, no pieces, and all of B gathered") {
  const CsrMatrix a = random_sparse(6, 6, 0.5, 1), wide = random_sparse(6, 9, 0.5, 1);
  const auto distributed = [](const CsrMatrix& matrix, Exchange exchange) {
    return distribute(matrix, 8, {.kernel = "csr_spmm", .exchange = exchange});
  };
  CHECK_THROWS_WITH_AS(chain_part(wide, distributed(wide, Exchange::kNeeded), 0, 1),
                       "a chain needs a square A, not one of 6 x 9", Error);
  CHECK_THROWS_AS(chain_part(a, distributed(a, Exchange::kNeeded), 0, 0), Error);
  CHECK_THROWS_AS(chain_part(a, distributed(a, Exchange::kGathered), 0, 1), Error);
}

}  // namespace
}  // namespace tessera
