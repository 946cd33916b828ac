// geometric: a random geometric graph of n points in the unit square, joined when nearer than the
// radius that gives the requested mean degree (away from the border: degree / (n pi) = radius^2).
//
// Points have 31-bit integer coordinates, so whether two are joined is exact. They are
// numbered by the cells of a grid as wide as the radius, row by row, so neighbours have near
// numbers (shuffle undoes that).

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kSide = std::int64_t{1} << 31;  // of the unit square, in steps

struct Point {
  std::int64_t x, y;
};

/// Points numbered by cell, with the numbers of each cell.
struct Cloud {
  std::int64_t cells;                    // along each side
  std::vector<Point> points;             // [n]
  std::vector<std::int32_t> cell_first;  // [cells * cells + 1]

  std::int64_t along(std::int64_t coordinate) const { return coordinate * cells / kSide; }
};

Cloud draw_points(std::int32_t n, std::int64_t cells, std::uint64_t stream) {
  Cloud cloud{cells, std::vector<Point>(n), std::vector<std::int32_t>(cells * cells + 1, 0)};
  const auto point = [&](std::uint64_t i) {
    const std::uint64_t bits = random_bits(stream, i);
    return Point{static_cast<std::int64_t>(bits >> 33),
                 static_cast<std::int64_t>(bits & (kSide - 1))};
  };
  const auto cell = [&](const Point& p) { return cloud.along(p.y) * cells + cloud.along(p.x); };
  for (std::int32_t i = 0; i < n; ++i) ++cloud.cell_first[cell(point(i)) + 1];
  std::partial_sum(cloud.cell_first.begin(), cloud.cell_first.end(), cloud.cell_first.begin());
  std::vector<std::int32_t> next(cloud.cell_first.begin(), cloud.cell_first.end() - 1);
  for (std::int32_t i = 0; i < n; ++i) {
    const Point p = point(i);
    cloud.points[next[cell(p)]++] = p;
  }
  return cloud;
}

CsrMatrix geometric(std::int64_t size, double degree, std::int64_t seed) {
  const std::int32_t n = matrix_extent({size});
  const double radius_squared = std::min(degree / (std::numbers::pi * n), 2.0);
  const auto reach_squared = static_cast<std::uint64_t>(
      radius_squared * static_cast<double>(kSide) * static_cast<double>(kSide));
  // Cells no narrower than the radius, and not many more than points.
  const double cells = std::min(1 / std::sqrt(std::max(radius_squared, 1e-300)), std::sqrt(n));
  const Cloud cloud = draw_points(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(cells)),
                                  stream_seed(seed, 0));
  const std::uint64_t values = stream_seed(seed, 1);
  return assemble_rows(n, n, [&](std::int64_t u, std::vector<Nonzero>& out) {
    const Point p = cloud.points[u];
    const std::int64_t cx = cloud.along(p.x), cy = cloud.along(p.y);
    for (std::int64_t y = std::max<std::int64_t>(0, cy - 1); y <= std::min(cloud.cells - 1, cy + 1);
         ++y) {
      const std::int64_t x_begin = std::max<std::int64_t>(0, cx - 1);
      const std::int64_t x_end = std::min(cloud.cells, cx + 2);
      const std::int32_t last = cloud.cell_first[y * cloud.cells + x_end];
      for (std::int32_t v = cloud.cell_first[y * cloud.cells + x_begin]; v < last; ++v) {
        const std::int64_t dx = cloud.points[v].x - p.x, dy = cloud.points[v].y - p.y;
        if (v != u && static_cast<std::uint64_t>(dx * dx + dy * dy) < reach_squared)
          out.push_back(
              {v, cell_value(values, std::min<std::int64_t>(u, v), std::max<std::int64_t>(u, v))});
      }
    }
  });
}

const Register<Generator> entry{{
    .name = "geometric",
    .summary = "random geometric graph: points of the unit square joined within a radius",
    .params = {{"n", std::int64_t{4096}, "points", {}, 1, kMaxSizeParameter},
               {"degree", 12.0, "mean neighbours of a point away from the border", {}, 0, 1e6},
               {"seed", std::int64_t{1}, "seed of points and values"}},
    .make =
        [](const Params& p) {
          return make_generator(
              [p] { return geometric(p.integer("n"), p.real("degree"), p.integer("seed")); });
        },
}};

}  // namespace
}  // namespace tessera
