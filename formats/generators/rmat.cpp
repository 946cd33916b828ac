// rmat: recursive matrix graphs (D. Chakrabarti, Y. Zhan and C. Faloutsos, "R-MAT: A recursive
// model for graph mining", SDM 2004), with the Graph500 probabilities by default.
//
// 2^scale vertices and edge_factor 2^scale directed edges; an edge chooses one of four quadrants
// with probabilities a, b, c, 1 - a - b - c, `scale` times over. Each edge carries a random value;
// edges that fall on the same cell are summed, so nnz is below the number of edges. Departure from
// Graph500: vertices are not relabelled (shuffle does that) and the quadrants carry no noise.

#include <array>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kEdgeGrain = 1 << 15;

struct Quadrants {
  double a, b, c;
};

/// The row and the column of edge number `edge`.
std::array<std::int32_t, 2> place(std::uint64_t stream, std::uint64_t edge, std::int64_t scale,
                                  const Quadrants& p) {
  std::int32_t row = 0, col = 0;
  for (std::int64_t level = 0; level < scale; ++level) {
    const double u = random_unit(stream, edge * static_cast<std::uint64_t>(scale) + level);
    const bool down = u >= p.a + p.b;
    const bool right = down ? u >= p.a + p.b + p.c : u >= p.a;
    row = 2 * row + (down ? 1 : 0);
    col = 2 * col + (right ? 1 : 0);
  }
  return {row, col};
}

CsrMatrix rmat(std::int64_t scale, std::int64_t edge_factor, const Quadrants& p,
               std::int64_t seed) {
  require(p.a + p.b + p.c <= 1, "rmat: a + b + c = {} + {} + {} is more than 1", p.a, p.b, p.c);
  const std::int32_t n = matrix_extent({std::int64_t{1} << scale});
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  std::vector<Triplet> edges(n * edge_factor);
  parallel_for(n * edge_factor, kEdgeGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t edge = begin; edge < end; ++edge) {
      const auto [row, col] = place(pattern, edge, scale, p);
      edges[edge] = {row, col, random_signed(values, edge)};
    }
  });
  return assemble_entries(n, n, edges);
}

const Register<Generator> entry{{
    .name = "rmat",
    .summary = "R-MAT power-law graph, 2^scale vertices, duplicate edges summed",
    .params = {{"scale", std::int64_t{14}, "2^scale rows and columns", {}, 0, 60},
               {"edge_factor", std::int64_t{16}, "edges per vertex", {}, 0, 4096},
               {"a", 0.57, "probability of the top left quadrant", {}, 0, 1},
               {"b", 0.19, "probability of the top right quadrant", {}, 0, 1},
               {"c", 0.19, "probability of the bottom left quadrant", {}, 0, 1},
               {"seed", std::int64_t{1}, "seed of edges and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return rmat(p.integer("scale"), p.integer("edge_factor"),
                        {p.real("a"), p.real("b"), p.real("c")}, p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
