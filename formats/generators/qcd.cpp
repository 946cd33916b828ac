// qcd: the Wilson-Dirac hopping matrix of lattice quantum chromodynamics on a periodic 4D lattice,
// and conf5_4-8x8, conf5_0-4x4: the pattern of the SuiteSparse matrices of those names (group QCD,
// conf5_4-8x8-05 ... -20 and conf5_0-4x4-10 ... -26 all share it).
//
// Site = x + nx (y + ny (z + nz t)); row = 12 site + 3 spin + colour; a hop from a site to each of
// its eight neighbours carries a dense 3 x 3 colour block for every spin pair of its projector
// 1 -+ gamma: along x, y and z spin a couples with itself and with 3 - a (x, y) or [2,3,0,1][a]
// (z); along t spins 0, 1 backward and 2, 3 forward couple with themselves. 39 nonzeros a row, no
// diagonal; on a lattice side of 1 or 2 hops meet and are summed. Values are seeded random reals,
// not the complex links of the originals.

#include <array>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr int kSpins = 4, kColours = 3, kPerSite = kSpins * kColours;
using Lattice = std::array<std::int64_t, 4>;  // nx, ny, nz, nt

/// Writes the spins that spin `a` couples with in a hop along `axis`, forward or backward, to
/// `spins` and returns their number, at most two.
int coupled_spins(int a, int axis, bool forward, std::array<int, 2>& spins) {
  if (axis == 3) {
    spins[0] = a;
    return (a >= 2) == forward ? 1 : 0;
  }
  spins = {a, axis == 2 ? (a + 2) % kSpins : 3 - a};
  return 2;
}

void append_hops(const Lattice& lattice, std::uint64_t values, std::int64_t row,
                 std::vector<Nonzero>& out) {
  const std::int64_t site = row / kPerSite;
  const int spin = static_cast<int>(row % kPerSite) / kColours;
  std::int64_t stride = 1;
  std::uint64_t draw = static_cast<std::uint64_t>(row) * 64;  // a row draws fewer than 64 values
  for (int axis = 0; axis < 4; ++axis) {
    const std::int64_t side = lattice[axis];
    const std::int64_t place = site / stride % side;
    for (const bool forward : {false, true}) {
      const std::int64_t there = (place + (forward ? 1 : side - 1)) % side;
      const std::int64_t neighbour = site + (there - place) * stride;
      std::array<int, 2> spins{};
      const int pairs = coupled_spins(spin, axis, forward, spins);
      for (int i = 0; i < pairs; ++i) {
        for (int colour = 0; colour < kColours; ++colour) {
          const std::int64_t col = neighbour * kPerSite + spins[i] * kColours + colour;
          out.push_back({static_cast<std::int32_t>(col), random_signed(values, draw++)});
        }
      }
    }
    stride *= side;
  }
}

CsrMatrix wilson_dirac(const Lattice& lattice, std::int64_t seed) {
  const std::int32_t n = matrix_extent({kPerSite, lattice[0], lattice[1], lattice[2], lattice[3]});
  const std::uint64_t values = stream_seed(seed, 1);
  return assemble_rows(n, n, [&](std::int64_t row, std::vector<Nonzero>& out) {
    append_hops(lattice, values, row, out);
  });
}

ParamSpec side(const char* name, std::int64_t fallback, const char* help) {
  return {name, fallback, help, {}, fallback == 0 ? 0.0 : 1.0, 0x1p31};
}
const ParamSpec kSeed{"seed", std::int64_t{1}, "seed of the values"};

const Register<Generator> qcd{{
    .name = "qcd",
    .summary = "Wilson-Dirac hopping on a periodic 4D lattice, 3 x 3 colour blocks, 39 per row",
    .params = {side("nx", 8, "lattice sites along x"),
               side("ny", 0, "lattice sites along y; 0: nx"),
               side("nz", 0, "lattice sites along z; 0: nx"),
               side("nt", 0, "lattice sites along t; 0: nx"), kSeed},
    .make =
        [](const Params& p) {
          const auto sites = [&](const char* name) {
            return p.integer(name) > 0 ? p.integer(name) : p.integer("nx");
          };
          const Lattice lattice{sites("nx"), sites("ny"), sites("nz"), sites("nt")};
          return make_generator(
              [lattice, seed = p.integer("seed")] { return wilson_dirac(lattice, seed); });
        },
}};

Entry<Generator> published(const char* name, std::int64_t sites) {
  return {.name = name,
          .summary = fmt::format(
              "SuiteSparse {0}: lattice QCD on a {1}^4 lattice (pattern exact, values random)",
              name, sites),
          .params = {kSeed},
          .make = [sites](const Params& p) {
            return make_generator([sites, seed = p.integer("seed")] {
              return wilson_dirac({sites, sites, sites, sites}, seed);
            });
          }};
}

const Register<Generator> conf5_4_8x8{published("conf5_4-8x8", 8)};
const Register<Generator> conf5_4_8x8_10{published("conf5_4-8x8-10", 8)};
const Register<Generator> conf5_0_4x4{published("conf5_0-4x4", 4)};

}  // namespace
}  // namespace tessera
