// Every generator: valid, reproducible, refusing what it cannot make, and true to its name.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <bit>

#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/statistics/statistics.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix generate(const std::string& name, const Params::Given& given = {}) {
  return Registry<Generator>::instance().make(name, given)->generate();
}

ParamValue whole(std::int64_t value) { return value; }

const auto& all_generators() { return Registry<Generator>::instance().entries(); }

TEST_CASE("every generator gives a valid matrix, the same again and at any number of threads") {
  CHECK(all_generators().size() >= 15);
  for (const auto& [name, entry] : all_generators()) {
    CAPTURE(name);
    const CsrMatrix first = generate(name);
    const CsrMatrix again = [&] {
      const ThreadCount threads(3);
      return generate(name);
    }();
    const CsrMatrix alone = [&] {
      const ThreadCount threads(1);
      return generate(name);
    }();

    CHECK_NOTHROW(validate(first));
    CHECK(first.nnz() > 0);
    CHECK(first == again);
    CHECK(first == alone);
  }
}

TEST_CASE("another seed gives another matrix of the same kind") {
  int seeded = 0;
  for (const auto& [name, entry] : all_generators()) {
    if (std::ranges::find(entry.params, "seed", &ParamSpec::name) == entry.params.end()) continue;
    CAPTURE(name);
    ++seeded;
    CHECK_FALSE(generate(name, {{"seed", whole(1)}}) == generate(name, {{"seed", whole(2)}}));
  }
  CHECK(seeded >= 10);
}

TEST_CASE("every generator refuses parameters beyond their limits and survives the smallest") {
  int limits = 0;
  for (const auto& [name, entry] : all_generators()) {
    for (const ParamSpec& spec : entry.params) {
      CAPTURE(name);
      CAPTURE(spec.name);
      if (!std::holds_alternative<std::int64_t>(spec.fallback) || !std::isfinite(spec.min))
        continue;
      ++limits;
      const auto least = static_cast<std::int64_t>(spec.min);
      const auto most = static_cast<std::int64_t>(spec.max);

      CHECK_THROWS_AS(generate(name, {{spec.name, whole(least - 1)}}), Error);
      CHECK_THROWS_AS(generate(name, {{spec.name, whole(most + 1)}}), Error);
      try {
        validate(generate(name, {{spec.name, whole(least)}}));
      } catch (const Error& error) {  // a size the other parameters do not fit: said so by name
        CHECK(std::string(error.what()).find(name) != std::string::npos);
      }
    }
  }
  CHECK(limits > 20);
}

TEST_CASE("a matrix of more than 2^31 - 1 rows is refused before anything is allocated") {
  const std::int64_t beyond = std::int64_t{1} << 31;
  const std::vector<std::pair<std::string, Params::Given>> cases{
      {"band", {{"n", whole(beyond)}}},
      {"uniform", {{"rows", whole(beyond)}}},
      {"uniform", {{"cols", whole(beyond)}}},
      {"dlmc", {{"rows", whole(beyond)}}},
      {"block_random", {{"rows", whole(beyond)}}},
      {"Trefethen", {{"n", whole(beyond)}}},
      {"rmat", {{"scale", whole(31)}}},
      {"sbm", {{"n", whole(beyond)}}},
      {"geometric", {{"n", whole(beyond)}}},
      {"road", {{"side", whole(46341)}}},
      {"road", {{"side", whole(20000)}, {"chain", whole(10)}}},
      {"poisson2d", {{"nx", whole(46341)}}},
      {"poisson3d", {{"nx", whole(1291)}}},
      {"elasticity3d", {{"nx", whole(900)}}},
      {"cantilever", {{"nx", whole(900)}, {"ny", whole(0)}, {"nz", whole(0)}}},
      {"communities", {{"n", whole(beyond)}}},
      {"molecules", {{"n", whole(beyond)}}},
      {"tiled", {{"n", whole(beyond)}}},
      {"qcd", {{"nx", whole(116)}}},
  };

  for (const auto& [name, given] : cases) {
    CAPTURE(name);
    CHECK_THROWS_AS(generate(name, given), Unsupported);
  }
  CHECK_THROWS_AS(generate("mycielskian", {{"k", whole(33)}}), Error);
}

TEST_CASE("formula matrices have the entries of their formulas") {
  const CsrMatrix groetzsch = generate("mycielskian", {{"k", whole(4)}});
  CHECK(groetzsch.rows == 11);
  CHECK(groetzsch.nnz() == 2 * 20);
  CHECK(is_pattern(groetzsch));
  CHECK(has_symmetric_pattern(groetzsch));

  const DenseMatrix t = to_dense(generate("Trefethen", {{"n", whole(6)}, {"first", whole(2)}}));
  const float diagonal[6] = {3, 5, 7, 11, 13, 17};
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      CHECK(t.at(i, j) == (i == j ? diagonal[i] : std::has_single_bit(unsigned(std::abs(i - j)))));

  const CsrMatrix hops = generate("qcd", {{"nx", whole(4)}, {"nt", whole(3)}});
  CHECK(hops.rows == 12 * 4 * 4 * 4 * 3);
  CHECK(statistics(hops).row_length.min == 39);
  CHECK(statistics(hops).row_length.max == 39);
  // On two sites along x both hops reach the same neighbour: 6 of the 12 cells along x remain.
  CHECK(
      statistics(
          generate("qcd", {{"nx", whole(2)}, {"ny", whole(4)}, {"nz", whole(4)}, {"nt", whole(4)}}))
          .row_length.max == 33);
}

TEST_CASE("the Laplacians have the stencil of their name and row sums of zero inside") {
  struct Case {
    const char* name;
    const char* stencil;
    int points;
    std::int64_t inside;  // points of a 5-wide grid that are not on the boundary
  };
  for (const Case& c : {Case{"poisson2d", "5", 5, 9}, Case{"poisson2d", "9", 9, 9},
                        Case{"poisson3d", "7", 7, 27}, Case{"poisson3d", "27", 27, 27}}) {
    CAPTURE(c.points);
    const CsrMatrix a = generate(c.name, {{"nx", whole(5)}, {"stencil", std::string(c.stencil)}});
    std::int64_t inside = 0;
    for (std::int32_t row = 0; row < a.rows; ++row) {
      float sum = 0;
      for (const float value : a.row_values(row)) sum += value;
      CHECK((sum == 0) == (a.row_length(row) == c.points));
      inside += sum == 0 ? 1 : 0;
    }

    CHECK(inside == c.inside);
    CHECK(transpose(a) == a);
  }
}

TEST_CASE("elasticity is symmetric, positive definite and gives no force for a translation") {
  const CsrMatrix a =
      generate("elasticity3d", {{"nx", whole(4)}, {"ny", whole(2)}, {"nz", whole(3)}});
  const DenseMatrix dense = to_dense(a);
  Eigen::MatrixXd k(a.rows, a.cols);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) k(i, j) = dense.at(i, j);
  const Eigen::VectorXd eigenvalues =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(k).eigenvalues();

  CHECK(a.rows == 3 * 4 * 3 * 4);
  CHECK(count_tiles(a, 3, 3).tiles * 9 == a.nnz());  // every block is dense
  CHECK((k - k.transpose()).norm() < 1e-6 * k.norm());
  CHECK(eigenvalues.minCoeff() > 1e-4);
  for (int axis = 0; axis < 3; ++axis) {
    Eigen::VectorXd shift = Eigen::VectorXd::Zero(a.rows);
    for (int row = axis; row < a.rows; row += 3) shift(row) = 1;
    const Eigen::VectorXd force = k * shift;
    CHECK(force.head(36).norm() > 0.1);  // nodes beside the clamped face feel it
    CHECK(force.tail(a.rows - 36).norm() < 1e-5);
  }
}

TEST_CASE("elasticity on an undisturbed grid has the stiffness of its Poisson ratio") {
  // By hand for trilinear cubes of side 1: the integral of a squared derivative of a shape function
  // is 1 / 9, so an element adds (lambda + 4 mu) / 9 to the diagonal of its node.
  const auto stiffness = [](double nu) {
    const double lambda = nu / ((1 + nu) * (1 - 2 * nu)), mu = 1 / (2 * (1 + nu));
    return (lambda + 4 * mu) / 9;
  };
  const auto diagonal = [](double nu, double jitter) {
    const CsrMatrix a =
        generate("elasticity3d", {{"nx", whole(2)}, {"poisson_ratio", nu}, {"jitter", jitter}});
    const std::int32_t row = 3 * 4;  // x of the node in the middle of the box: eight elements
    const auto cols = a.row_cols(row);
    return a.row_values(row)[std::ranges::find(cols, row) - cols.begin()];
  };

  for (const double nu : {0.0, 0.3, 0.45})
    CHECK(diagonal(nu, 0) == doctest::Approx(8 * stiffness(nu)));
  CHECK(diagonal(0.3, 0.2) != doctest::Approx(8 * stiffness(0.3)));
}

TEST_CASE("random kinds have the sizes, densities and balance they promise") {
  const auto uniform = statistics(
      generate("uniform", {{"rows", whole(3000)}, {"cols", whole(400)}, {"per_row", 10.5}}));
  CHECK(uniform.nnz == 31500);
  // A row count is hypergeometric: variance 10.5 (1 - 10.5 / 400) up to 1 / rows.
  CHECK(uniform.row_length.stddev == doctest::Approx(std::sqrt(10.5 * 0.97375)).epsilon(0.05));
  CHECK(generate("uniform", {{"rows", whole(90)}, {"density", 0.9}}).nnz() == 7290);
  CHECK(generate("uniform", {{"rows", whole(9)}, {"density", 1.0}}).nnz() == 81);
  CHECK_THROWS_AS(generate("uniform", {{"rows", whole(9)}, {"per_row", 10.0}}), Error);

  const auto dlmc = statistics(generate("dlmc", {{"rows", whole(500)}, {"cols", whole(333)}}));
  CHECK(dlmc.row_length.min == 33);
  CHECK(dlmc.row_length.max == 34);
  CHECK(dlmc.row_length.mean == doctest::Approx(33.3).epsilon(0.005));

  const CsrMatrix blocks =
      generate("block_random", {{"rows", whole(500)}, {"per_block_row", whole(3)}});
  CHECK(count_tiles(blocks, 16, 16).tiles == 32 * 3);
  CHECK(count_tiles(blocks, 16, 16).per_block_row.max == 3);
  CHECK(statistics(generate("block_random", {{"fill", 0.25}})).row_length.mean ==
        doctest::Approx(16).epsilon(0.03));

  const auto band = statistics(
      generate("band", {{"n", whole(2000)}, {"bandwidth", whole(40)}, {"density", 0.2}}));
  CHECK(band.bandwidth == 40);
  CHECK(band.row_length.mean == doctest::Approx(0.2 * 80.2).epsilon(0.03));
}

TEST_CASE("rmat sends its edges to the quadrants in the given proportions") {
  const CsrMatrix a = generate(
      "rmat",
      {{"scale", whole(12)}, {"edge_factor", whole(2)}, {"a", 0.5}, {"b", 0.3}, {"c", 0.15}});
  double top_left = 0, top_right = 0, bottom_left = 0;
  for (std::int32_t row = 0; row < a.rows; ++row) {
    for (const std::int32_t col : a.row_cols(row)) {
      top_left += row < 2048 && col < 2048;
      top_right += row < 2048 && col >= 2048;
      bottom_left += row >= 2048 && col < 2048;
    }
  }
  const double edges = 8192;

  CHECK(static_cast<double>(a.nnz()) < edges);
  CHECK(static_cast<double>(a.nnz()) > 0.9 * edges);
  CHECK(top_left / edges == doctest::Approx(0.48).epsilon(0.05));  // some edges coincide
  CHECK(top_right / edges == doctest::Approx(0.3).epsilon(0.05));
  CHECK(bottom_left / edges == doctest::Approx(0.15).epsilon(0.07));
  CHECK_THROWS_WITH_AS(generate("rmat", {{"a", 0.9}, {"b", 0.19}}),
                       "rmat: a + b + c = 0.9 + 0.19 + 0.19 is more than 1", Error);
}

TEST_CASE("hub has one long row and one long column of the same number") {
  const CsrMatrix matrix =
      generate("hub", {{"rows", whole(2000)}, {"row", whole(1500)}, {"col", whole(700)}});
  std::int64_t of_col = 0;
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const auto begin = matrix.col_indices.begin() + matrix.row_offsets[row],
               end = matrix.col_indices.begin() + matrix.row_offsets[row + 1];
    const bool meets = std::binary_search(begin, end, 1000);
    of_col += meets ? 1 : 0;
    if (row == 1000)
      CHECK((end - begin == 1500 || end - begin == 1501));
    else
      CHECK((end - begin == 8 || (meets && end - begin == 9)));
  }
  CHECK(of_col >= 700);
  CHECK(of_col <= 720);  // a few rows meet it by chance
  const CsrMatrix contiguous =
      generate("hub", {{"rows", whole(50)}, {"row", whole(30)}, {"contiguous", true}});
  CHECK(contiguous.row_length(25) == 30);
  CHECK(contiguous.row_cols(25).back() == 29);
  CHECK_THROWS_WITH_AS(generate("hub", {{"rows", whole(7)}, {"row", whole(7)}}),
                       "hub: 8 nonzeros do not fit a row or a column of 7", Error);
}

TEST_CASE("undirected kinds are symmetric, without loops, and shaped as named") {
  for (const char* name : {"sbm", "road", "geometric"}) {
    CAPTURE(name);
    const CsrMatrix a = generate(name);
    CHECK(transpose(a) == a);
    for (std::int32_t row = 0; row < a.rows; ++row)
      REQUIRE_FALSE(std::ranges::binary_search(a.row_cols(row), row));
  }

  const CsrMatrix sbm = generate("sbm", {{"n", whole(1000)}, {"blocks", whole(7)}});
  double within = 0;
  for (std::int32_t row = 0; row < sbm.rows; ++row)
    for (const std::int32_t col : sbm.row_cols(row))
      within += (row + 1) * 7 / 1001 == (col + 1) * 7 / 1001;
  CHECK(within / static_cast<double>(sbm.nnz()) == doctest::Approx(0.75).epsilon(0.05));

  // Half of the border's neighbours are missing; the border is about 4 radii of the square.
  const auto geometric = statistics(generate("geometric", {{"n", whole(20000)}, {"degree", 10.0}}));
  CHECK(geometric.row_length.mean == doctest::Approx(10).epsilon(0.04));
  CHECK(geometric.bandwidth < 20000 / 20);  // neighbours are near in the numbering
}

TEST_CASE("a road network is connected, of degree two to three, mostly chains") {
  const CsrMatrix a = generate("road", {{"side", whole(20)}});
  std::vector<bool> seen(a.rows, false);
  std::vector<std::int32_t> queue{0};
  seen[0] = true;
  std::int64_t chain_vertices = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    chain_vertices += a.row_length(queue[i]) == 2 ? 1 : 0;
    for (const std::int32_t col : a.row_cols(queue[i])) {
      if (!seen[col]) queue.push_back(col);
      seen[col] = true;
    }
  }
  const MatrixStatistics s = statistics(a);

  CHECK(static_cast<std::int32_t>(queue.size()) == a.rows);
  CHECK(s.row_length.mean > 2);
  CHECK(s.row_length.mean < 3);
  CHECK(s.row_length.max <= 4);
  CHECK(chain_vertices > a.rows * 3 / 4);
}

}  // namespace
}  // namespace tessera
