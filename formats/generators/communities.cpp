// communities: a stochastic block model with degrees of its own (B. Karrer and M. Newman, 2011):
// an undirected graph whose vertices have weights with a Pareto tail and whose communities are
// consecutive vertices.
//
// An edge's first end is drawn by weight; the second one by weight too, in the same community with
// probability `within` and else among all vertices. Edges are distinct, so `nnz` is met exactly, up
// to one of an odd number. The largest weight is capped where the mean degree of its vertex would
// pass `max_degree`.

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"
#include "formats/generators/distinct_draws.hpp"

namespace tessera {
namespace {

struct Shape {
  std::int64_t n, nnz, communities;
  double within, tail;
  std::int64_t max_degree;
  bool loops;
};

/// Caps the weights so that none is more than max_degree / nnz of their sum.
void cap(std::vector<double>& weights, const Shape& shape) {
  if (shape.max_degree == 0) return;
  const double share = static_cast<double>(shape.max_degree) / static_cast<double>(shape.nnz);
  constexpr int kSteps = 32;  // the sum shrinks with the cap; the steps converge from above
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (double& weight : weights) weight = std::min(weight, share * sum);
  }
}

CsrMatrix communities(const Shape& shape, std::int64_t seed) {
  const std::int32_t n = matrix_extent({shape.n});
  const std::int64_t edges = (shape.nnz - (shape.loops ? n : 0)) / 2;
  require(2 * shape.communities <= n,
          "communities: {} communities of {} vertices leave one of a single vertex",
          shape.communities, n);
  require(edges >= 0 && edges <= static_cast<std::int64_t>(n) * (n - 1) / 2,
          "communities: {} nonzeros do not fit {} vertices", shape.nnz, n);
  std::vector<double> weights = pareto_weights(n, shape.tail, stream_seed(seed, 2));
  cap(weights, shape);
  const WeightedChoice choice(weights);
  const auto first = [&](std::int64_t block) { return n * block / shape.communities; };
  const auto draw_edge = [&](RandomSequence& random) {
    for (;;) {
      const auto u = static_cast<std::uint64_t>(choice.draw(random));
      const auto block = static_cast<std::int64_t>((u + 1) * shape.communities - 1) / n;
      const auto v = static_cast<std::uint64_t>(
          random.unit() < shape.within ? choice.draw(random, first(block), first(block + 1))
                                       : choice.draw(random));
      if (u != v) return std::min(u, v) << 32 | std::max(u, v);
    }
  };
  const std::uint64_t values = stream_seed(seed, 1);
  std::vector<Triplet> entries;
  entries.reserve(2 * edges + (shape.loops ? n : 0));
  for (const std::uint64_t key :
       distinct_draws("communities", edges, stream_seed(seed, 0), draw_edge)) {
    const auto u = static_cast<std::int32_t>(key >> 32), v = static_cast<std::int32_t>(key);
    const float value = cell_value(values, u, v);
    entries.push_back({u, v, value});
    entries.push_back({v, u, value});
  }
  for (std::int32_t i = 0; shape.loops && i < n; ++i)
    entries.push_back({i, i, cell_value(values, i, i)});
  return assemble_entries(n, n, entries);
}

const Register<Generator> entry{{
    .name = "communities",
    .summary = "block model with heavy-tailed degrees and an exact number of nonzeros, undirected",
    .params =
        {{"n", std::int64_t{4096}, "vertices", {}, 2, kMaxSizeParameter},
         {"nnz", std::int64_t{65536}, "nonzeros, loops included", {}, 0, 0x1p33},
         {"communities", std::int64_t{16}, "communities of equal size", {}, 1, 0x1p31},
         {"within", 0.8, "probability that an edge stays in its community", {}, 0, 1},
         {"tail", 0.5, "Pareto tail of the degrees: exponent 1 + 1 / tail; 0: none", {}, 0, 1},
         {"max_degree", std::int64_t{0}, "largest mean degree; 0: no limit", {}, 0, 0x1p31},
         {"loops", false, "every vertex has a loop (the diagonal is full)"},
         {"seed", std::int64_t{1}, "seed of edges and values"}},
    .make =
        [](const Params& p) {
          const Shape shape{p.integer("n"),   p.integer("nnz"), p.integer("communities"),
                            p.real("within"), p.real("tail"),   p.integer("max_degree"),
                            p.flag("loops")};
          return make_generator(
              [shape, seed = p.integer("seed")] { return communities(shape, seed); });
        },
}};

}  // namespace
}  // namespace tessera
