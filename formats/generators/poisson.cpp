// poisson2d and poisson3d: the finite-difference Laplacian on a regular grid with Dirichlet
// boundaries, points in lexicographic order (x fastest).
//
// stencil 5 (2D) or 7 (3D): -1 to each axis neighbour, their number on the diagonal (4 or 6).
// stencil 9 (2D) or 27 (3D): -1 to every neighbour of the surrounding square or cube, 8 or 26 on
// the diagonal. No value is random.

#include <cstdlib>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

struct Grid {
  std::int64_t nx, ny, nz;
  bool planar;  // the grid has two dimensions
  bool full;    // diagonal neighbours count as well
};

CsrMatrix poisson(const Grid& grid) {
  const std::int32_t n = matrix_extent({grid.nx, grid.ny, grid.nz});
  const int depth = grid.planar ? 0 : 1;
  const int axis_neighbours = grid.planar ? 4 : 6, all_neighbours = grid.planar ? 8 : 26;
  const auto centre = static_cast<float>(grid.full ? all_neighbours : axis_neighbours);
  return assemble_rows(n, n, [=](std::int64_t row, std::vector<Nonzero>& out) {
    const std::int64_t x = row % grid.nx, y = row / grid.nx % grid.ny, z = row / grid.nx / grid.ny;
    for (int dz = -depth; dz <= depth; ++dz) {
      for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
          const int distance = std::abs(dx) + std::abs(dy) + std::abs(dz);
          if (!grid.full && distance > 1) continue;
          if (x + dx < 0 || x + dx >= grid.nx || y + dy < 0 || y + dy >= grid.ny || z + dz < 0 ||
              z + dz >= grid.nz)
            continue;
          const std::int64_t col = row + dx + grid.nx * (dy + grid.ny * dz);
          out.push_back({static_cast<std::int32_t>(col), distance == 0 ? centre : -1.0f});
        }
      }
    }
  });
}

ParamSpec side(const char* name, std::int64_t fallback, const char* help) {
  return {name, fallback, help, {}, fallback == 0 ? 0.0 : 1.0, 0x1p31};
}

std::int64_t or_nx(const Params& p, const char* name) {
  return p.integer(name) > 0 ? p.integer(name) : p.integer("nx");
}

const Register<Generator> planar{{
    .name = "poisson2d",
    .summary = "Laplacian on an nx x ny grid, 5 or 9 points",
    .params = {side("nx", 64, "grid points along x"),
               side("ny", 0, "grid points along y; 0: nx"),
               {"stencil", std::string("5"), "points of the stencil", {"5", "9"}}},
    .make =
        [](const Params& p) {
          const Grid grid{p.integer("nx"), or_nx(p, "ny"), 1, true, p.text("stencil") == "9"};
          return make_generator([grid] { return poisson(grid); });
        },
}};

const Register<Generator> spatial{{
    .name = "poisson3d",
    .summary = "Laplacian on an nx x ny x nz grid, 7 or 27 points",
    .params = {side("nx", 16, "grid points along x"),
               side("ny", 0, "grid points along y; 0: nx"),
               side("nz", 0, "grid points along z; 0: nx"),
               {"stencil", std::string("7"), "points of the stencil", {"7", "27"}}},
    .make =
        [](const Params& p) {
          const Grid grid{p.integer("nx"), or_nx(p, "ny"), or_nx(p, "nz"), false,
                          p.text("stencil") == "27"};
          return make_generator([grid] { return poisson(grid); });
        },
}};

/// A published matrix whose sizes and tile counts are those of a grid with seven points.
Entry<Generator> published(const char* name, const Grid& grid) {
  return {
      .name = name,
      .summary = fmt::format(
          "SuiteSparse {}: seven points on {} x {} x {} (pattern exact, values -1 and 6)", name,
          grid.nx, grid.ny, grid.nz),
      .params = {},
      .make = [grid](const Params&) { return make_generator([grid] { return poisson(grid); }); }};
}

const Register<Generator> apache1{published("apache1", {101, 8, 100, false, false})};
const Register<Generator> baumann{published("Baumann", {11, 101, 101, false, false})};

}  // namespace
}  // namespace tessera
