// elasticity3d: the stiffness matrix of linear elasticity on a box of nx x ny x nz trilinear
// hexahedra (any finite-element text, such as T. Hughes, "The Finite Element Method", chapter 2),
// with Young's modulus 1. The box is clamped at x = 0 and free elsewhere, so the matrix is
// symmetric positive definite.
//
// Three rows per node (displacements x, y, z), so every pair of neighbouring nodes gives a dense
// 3 x 3 block, up to 81 nonzeros a row. Nodes are moved off the grid at random by up to `jitter` of
// an edge, so that no stiffness vanishes by symmetry. Integration uses 2 x 2 x 2 Gauss points; a
// row integrates its own node's share of the eight elements around it, so rows are independent.

#include <array>
#include <cmath>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

using Vec3 = std::array<double, 3>;

struct Box {
  std::int64_t nx, ny, nz;  // elements
  double poisson_ratio, jitter;
  std::uint64_t stream;  // of the nodes' displacements

  /// The number of node (i, j, k), x slowest; those of the clamped nodes i = 0 are negative.
  std::int64_t node(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return ((i - 1) * (ny + 1) + j) * (nz + 1) + k;
  }
  Vec3 position(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const auto draw = static_cast<std::uint64_t>(node(i, j, k) + (ny + 1) * (nz + 1)) * 3;
    const auto moved = [&](std::int64_t at, int axis) {
      return static_cast<double>(at) + jitter * (2 * random_unit(stream, draw + axis) - 1);
    };
    return {moved(i, 0), moved(j, 1), moved(k, 2)};
  }
};

/// The offset (0 or 1) of corner `c` of an element along `axis`.
constexpr int corner(int c, int axis) { return c >> axis & 1; }

/// The derivatives of the eight shape functions at Gauss point `g`, by reference coordinates.
std::array<Vec3, 8> reference_gradients(int g) {
  const double at = 1 / std::sqrt(3.0);
  std::array<Vec3, 8> gradients;
  for (int c = 0; c < 8; ++c) {
    Vec3 sign, factor;
    for (int d = 0; d < 3; ++d) {
      sign[d] = 2 * corner(c, d) - 1;
      factor[d] = (1 + sign[d] * (corner(g, d) == 1 ? at : -at)) / 2;
    }
    gradients[c] = {sign[0] / 2 * factor[1] * factor[2], sign[1] / 2 * factor[0] * factor[2],
                    sign[2] / 2 * factor[0] * factor[1]};
  }
  return gradients;
}

Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Vec3& a, const Vec3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// Converts reference gradients to spatial ones and returns the determinant of the Jacobian.
double to_space(const std::array<Vec3, 8>& corners, std::array<Vec3, 8>& gradients) {
  std::array<Vec3, 3> tangent{};  // of the position, along each reference coordinate
  for (int c = 0; c < 8; ++c)
    for (int d = 0; d < 3; ++d)
      for (int e = 0; e < 3; ++e) tangent[d][e] += gradients[c][d] * corners[c][e];
  const std::array<Vec3, 3> normal{cross(tangent[1], tangent[2]), cross(tangent[2], tangent[0]),
                                   cross(tangent[0], tangent[1])};
  const double determinant = dot(tangent[0], normal[0]);
  for (Vec3& gradient : gradients) {
    Vec3 spatial{};
    for (int d = 0; d < 3; ++d)
      for (int e = 0; e < 3; ++e) spatial[e] += gradient[d] * normal[d][e] / determinant;
    gradient = spatial;
  }
  return determinant;
}

/// Row `axis` of the blocks between corner `own` and every corner of one element.
std::array<Vec3, 8> element_row(const Box& box, const std::array<Vec3, 8>& corners, int own,
                                int axis) {
  static const auto kReference = [] {
    std::array<std::array<Vec3, 8>, 8> all;
    for (int g = 0; g < 8; ++g) all[g] = reference_gradients(g);
    return all;
  }();
  const double nu = box.poisson_ratio;
  const double lambda = nu / ((1 + nu) * (1 - 2 * nu)), mu = 1 / (2 * (1 + nu));  // Lame
  std::array<Vec3, 8> blocks{};
  for (int g = 0; g < 8; ++g) {
    std::array<Vec3, 8> gradients = kReference[g];
    const double weight = to_space(corners, gradients);
    const Vec3& a = gradients[own];
    for (int c = 0; c < 8; ++c) {
      const Vec3& b = gradients[c];
      for (int e = 0; e < 3; ++e)
        blocks[c][e] += weight * (lambda * a[axis] * b[e] + mu * a[e] * b[axis]);
      blocks[c][axis] += weight * mu * dot(a, b);
    }
  }
  return blocks;
}

/// Adds the share of element (i, j, k), in which the row's node is corner `own`.
void add_element(const Box& box, std::int64_t i, std::int64_t j, std::int64_t k, int own, int axis,
                 std::array<Vec3, 27>& sums) {
  std::array<Vec3, 8> corners;
  for (int c = 0; c < 8; ++c)
    corners[c] = box.position(i + corner(c, 0), j + corner(c, 1), k + corner(c, 2));
  const auto blocks = element_row(box, corners, own, axis);
  for (int c = 0; c < 8; ++c) {
    int place = 0;  // of the corner in the 3 x 3 x 3 nodes around the row's
    for (int d = 0; d < 3; ++d) place = 3 * place + corner(c, d) - corner(own, d) + 1;
    for (int e = 0; e < 3; ++e) sums[place][e] += blocks[c][e];
  }
}

void append_row(const Box& box, std::int64_t row, std::vector<Nonzero>& out) {
  const std::int64_t node = row / 3;
  const std::int64_t k = node % (box.nz + 1), j = node / (box.nz + 1) % (box.ny + 1);
  const std::int64_t i = node / (box.nz + 1) / (box.ny + 1) + 1;
  std::array<Vec3, 27> sums{};
  for (int own = 0; own < 8; ++own) {
    const std::int64_t ei = i - corner(own, 0), ej = j - corner(own, 1), ek = k - corner(own, 2);
    if (ei < box.nx && ej >= 0 && ej < box.ny && ek >= 0 && ek < box.nz)
      add_element(box, ei, ej, ek, own, static_cast<int>(row % 3), sums);
  }
  for (int place = 0; place < 27; ++place) {
    const std::int64_t ni = i + place / 9 - 1, nj = j + place / 3 % 3 - 1, nk = k + place % 3 - 1;
    if (ni < 1 || ni > box.nx || nj < 0 || nj > box.ny || nk < 0 || nk > box.nz) continue;
    for (int e = 0; e < 3; ++e)
      out.push_back({static_cast<std::int32_t>(3 * box.node(ni, nj, nk) + e),
                     static_cast<float>(sums[place][e])});
  }
}

/// The stiffness of the free nodes; with `keep_clamped`, followed by a unit diagonal for the rows
/// of the clamped ones.
CsrMatrix elasticity(const Box& box, bool keep_clamped) {
  const std::int32_t free = matrix_extent({3, box.nx, box.ny + 1, box.nz + 1});
  const std::int32_t n =
      keep_clamped ? matrix_extent({3, box.nx + 1, box.ny + 1, box.nz + 1}) : free;
  return assemble_rows(n, n, [&](std::int64_t row, std::vector<Nonzero>& out) {
    if (row < free)
      append_row(box, row, out);
    else
      out.push_back({static_cast<std::int32_t>(row), 1.0f});
  });
}

/// The parameters of a box; `nx`, `ny` and `nz` are the defaults of the sides.
std::vector<ParamSpec> box_params(std::int64_t nx, std::int64_t ny, std::int64_t nz) {
  return {{"nx", nx, "elements along x, away from the clamped face", {}, 1, 0x1p31},
          {"ny", ny, "elements along y; 0: nx", {}, 0, 0x1p31},
          {"nz", nz, "elements along z; 0: nx", {}, 0, 0x1p31},
          {"poisson_ratio", 0.3, "Poisson's ratio of the material", {}, 0, 0.49},
          {"jitter", 0.15, "largest displacement of a node, in edge lengths", {}, 0, 0.2},
          {"seed", std::int64_t{1}, "seed of the displacements"}};
}

std::unique_ptr<Generator> make_elasticity(const Params& p, bool keep_clamped) {
  const auto side = [&](const char* name) {
    return p.integer(name) > 0 ? p.integer(name) : p.integer("nx");
  };
  const Box box{side("nx"),       side("ny"),
                side("nz"),       p.real("poisson_ratio"),
                p.real("jitter"), stream_seed(p.integer("seed"), 0)};
  return make_generator([box, keep_clamped] { return elasticity(box, keep_clamped); });
}

const Register<Generator> entry{{
    .name = "elasticity3d",
    .summary = "3D linear elasticity, hexahedral elements, dense 3 x 3 blocks, up to 81 per row",
    .params = box_params(8, 0, 0),
    .make = [](const Params& p) { return make_elasticity(p, false); },
}};

const Register<Generator> cantilever{{
    .name = "cantilever",
    .summary = "elasticity3d with a unit diagonal at the end for the rows of the clamped face",
    .params = box_params(16, 4, 4),
    .make = [](const Params& p) { return make_elasticity(p, true); },
}};

}  // namespace
}  // namespace tessera
