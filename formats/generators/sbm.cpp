// sbm: a stochastic block model (P. Holland, K. Laskey and S. Leinhardt, 1983) of equal
// communities, undirected, with consecutive vertices in a community.
//
// It is the microcanonical form: the mean degrees fix the numbers of edges within and between
// communities, and each edge's ends are uniform among the pairs of its kind. Edges drawn more than
// once are summed; there are no loops.

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kEdgeGrain = 1 << 15;

/// Community b of [0, blocks) holds vertices [first(b), first(b + 1)).
struct Communities {
  std::int64_t n, blocks;
  std::int64_t first(std::int64_t block) const { return n * block / blocks; }
  std::int64_t of(std::int64_t vertex) const { return ((vertex + 1) * blocks - 1) / n; }
};

/// The other end of an edge at `vertex`: uniform among the other vertices of its community, or
/// among those outside it.
std::int64_t draw_partner(const Communities& communities, std::int64_t vertex, bool within,
                          RandomSequence& random) {
  const std::int64_t block = communities.of(vertex);
  const std::int64_t begin = communities.first(block), end = communities.first(block + 1);
  if (within) {
    const auto other = begin + static_cast<std::int64_t>(random.below(end - begin - 1));
    return other < vertex ? other : other + 1;
  }
  const auto other = static_cast<std::int64_t>(random.below(communities.n - (end - begin)));
  return other < begin ? other : other + (end - begin);
}

CsrMatrix sbm(std::int64_t size, std::int64_t blocks, double degree_in, double degree_out,
              std::int64_t seed) {
  const std::int32_t n = matrix_extent({size});
  require(
      degree_in == 0 || 2 * blocks <= n,
      "sbm: {} communities of {} vertices leave one of a single vertex; degree_in = {} needs two",
      blocks, n, degree_in);
  require(degree_out == 0 || blocks > 1, "sbm: degree_out = {} needs more than one community",
          degree_out);
  const Communities communities{n, blocks};
  const auto edges_in = static_cast<std::int64_t>(degree_in * n / 2);
  const auto edges_out = static_cast<std::int64_t>(degree_out * n / 2);
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  std::vector<Triplet> entries(2 * (edges_in + edges_out));
  parallel_for(edges_in + edges_out, kEdgeGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t edge = begin; edge < end; ++edge) {
      RandomSequence random(random_bits(pattern, edge));
      const auto u = static_cast<std::int32_t>(random.below(n));
      const auto v =
          static_cast<std::int32_t>(draw_partner(communities, u, edge < edges_in, random));
      const float value = cell_value(values, std::min(u, v), std::max(u, v));
      entries[2 * edge] = {u, v, value};
      entries[2 * edge + 1] = {v, u, value};
    }
  });
  return assemble_entries(n, n, entries);
}

const Register<Generator> entry{{
    .name = "sbm",
    .summary = "stochastic block model: undirected communities of equal size",
    .params = {{"n", std::int64_t{4096}, "vertices", {}, 1, kMaxSizeParameter},
               {"blocks", std::int64_t{16}, "communities", {}, 1, 0x1p31},
               {"degree_in", 12.0, "mean edges of a vertex within its community", {}, 0, 1e6},
               {"degree_out", 4.0, "mean edges to other communities", {}, 0, 1e6},
               {"seed", std::int64_t{1}, "seed of edges and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return sbm(p.integer("n"), p.integer("blocks"), p.real("degree_in"),
                       p.real("degree_out"), p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
