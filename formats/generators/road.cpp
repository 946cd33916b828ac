// road: a road-like planar network: junctions on a side x side grid, joined by long chains of
// vertices of degree two, so that the mean degree is a little above two as in the OpenStreetMap
// matrices of the SuiteSparse collection (luxembourg_osm: 2.1).
//
// Every junction but the first has a street to its left or upper neighbour, a random one of the two
// where it has both, so the network is connected; the other street exists with probability `extra`.
// A street holds 0 to 2 * chain intermediate vertices. A junction is numbered just before the
// vertices of its streets, junctions row by row, so neighbours have near numbers, as in maps stored
// by road.

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

struct Streets {
  std::int64_t left = -1;  // intermediate vertices towards the left neighbour; -1: no street
  std::int64_t up = -1;

  std::int64_t vertices() const {
    return std::max<std::int64_t>(left, 0) + std::max<std::int64_t>(up, 0);
  }
};

Streets draw_streets(std::int64_t junction, std::int64_t side, double extra, std::int64_t chain,
                     std::uint64_t stream) {
  RandomSequence random(random_bits(stream, junction));
  const bool has_left = junction % side > 0, has_up = junction >= side;
  const bool prefers_left = random.unit() < 0.5, both = random.unit() < extra;
  const auto left = static_cast<std::int64_t>(random.below(2 * chain + 1));
  const auto up = static_cast<std::int64_t>(random.below(2 * chain + 1));
  Streets streets;
  if (has_left && (both || prefers_left || !has_up)) streets.left = left;
  if (has_up && (both || !prefers_left || !has_left)) streets.up = up;
  return streets;
}

CsrMatrix road(std::int64_t side, double extra, std::int64_t chain, std::int64_t seed) {
  const std::int32_t junctions = matrix_extent({side, side});
  matrix_extent({side, side, 1 + 4 * chain});  // the largest possible number of vertices
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  std::vector<Streets> streets(junctions);
  std::vector<std::int32_t> number(junctions + 1, 0);  // vertex number of a junction
  for (std::int64_t j = 0; j < junctions; ++j) {
    streets[j] = draw_streets(j, side, extra, chain, pattern);
    number[j + 1] = static_cast<std::int32_t>(number[j] + 1 + streets[j].vertices());
  }

  std::vector<Triplet> entries;
  entries.reserve(2 * (static_cast<std::size_t>(number.back()) + junctions));
  const auto join = [&](std::int32_t u, std::int32_t v) {
    const float value = cell_value(values, std::min(u, v), std::max(u, v));
    entries.push_back({u, v, value});
    entries.push_back({v, u, value});
  };
  for (std::int64_t j = 0; j < junctions; ++j) {
    std::int32_t next = number[j] + 1;
    const auto build = [&](std::int64_t length, std::int64_t other) {
      std::int32_t end = number[j];
      for (std::int64_t i = 0; i < length; ++i) {
        join(end, next);
        end = next++;
      }
      join(end, number[other]);
    };
    if (streets[j].left >= 0) build(streets[j].left, j - 1);
    if (streets[j].up >= 0) build(streets[j].up, j - side);
  }
  return assemble_entries(number.back(), number.back(), entries);
}

const Register<Generator> entry{{
    .name = "road",
    .summary = "road-like planar network: long chains between junctions, degree 2 to 3",
    .params = {{"side", std::int64_t{32}, "junctions along each side", {}, 1, 0x1p31},
               {"chain", std::int64_t{8}, "mean vertices between two junctions", {}, 0, 1e6},
               {"extra", 0.3, "probability of a street beyond the spanning tree", {}, 0, 1},
               {"seed", std::int64_t{1}, "seed of streets and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return road(p.integer("side"), p.real("extra"), p.integer("chain"), p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
