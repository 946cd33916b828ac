// molecules: a batch of molecule graphs, as graph data sets of chemistry have them (Yeast,
// OVCAR-8H: C. Morris et al., "TUDataset", 2020): a block-diagonal matrix, undirected, no atom with
// more than four bonds.
//
// A molecule is a tree that is grown atom by atom, with rings closed over it. A heavy atom is
// bonded to the one before it or, with probability 1 / 5, to one a few atoms earlier, so bonds are
// near the diagonal. Rings have five or six atoms. A fraction of the atoms, numbered last in each
// molecule, are hydrogens: one bond each, to the heavy atoms in order. Sizes vary by a third about
// their mean. Rows are exact, and so are the nonzeros as long as rings can be closed.

#include <algorithm>
#include <array>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

constexpr int kMaxBonds = 4;
constexpr int kMaxBranch = 4;  // a branch starts at most so many atoms back
constexpr double kBranching = 0.2;

struct Batch {
  std::int64_t molecules, n, nnz;
  double hydrogens;
};

using Bond = std::array<std::int32_t, 2>;  // the later atom first

/// One molecule of `atoms` atoms, numbered from 0: a tree, then as many of `rings` as find a place.
class Molecule {
 public:
  Molecule(std::int64_t atoms, double hydrogens, RandomSequence& random)
      : heavy_(std::max<std::int64_t>(
            1, atoms - static_cast<std::int64_t>(hydrogens * static_cast<double>(atoms)))),
        parent_(heavy_, -1),
        count_(heavy_, 0) {
    for (std::int32_t atom = 1; atom < heavy_; ++atom) grow(atom, random);
    std::int32_t host = 0;
    for (auto atom = static_cast<std::int32_t>(heavy_); atom < atoms; ++atom) {
      // Bonds are counted before rings are closed, so some heavy atom has room: a tree of h atoms
      // has 4 h - 2 (h - 1) free bonds.
      while (count_[host] >= kMaxBonds) host = static_cast<std::int32_t>((host + 1) % heavy_);
      bonds.push_back({atom, host});
      ++count_[host];
      host = static_cast<std::int32_t>((host + 1) % heavy_);
    }
  }

  /// Closes a ring of five or six atoms and says whether there was a place for it.
  bool close_ring(RandomSequence& random) {
    const auto start = static_cast<std::int64_t>(random.below(heavy_));
    const int size = random.unit() < 0.5 ? 5 : 6;
    for (std::int64_t i = 0; i < heavy_; ++i) {
      const auto atom = static_cast<std::int32_t>((start + i) % heavy_);
      std::int32_t other = atom;
      for (int step = 1; step < size && other >= 0; ++step) other = parent_[other];
      if (other < 0 || count_[atom] >= kMaxBonds || count_[other] >= kMaxBonds) continue;
      if (std::ranges::find(bonds, Bond{atom, other}) != bonds.end()) continue;
      bonds.push_back({atom, other});
      ++count_[atom];
      ++count_[other];
      return true;
    }
    return false;
  }

  std::vector<Bond> bonds;

 private:
  void grow(std::int32_t atom, RandomSequence& random) {
    std::int32_t to = atom - 1;
    if (random.unit() < kBranching)
      to = std::max<std::int32_t>(0, to - 1 - static_cast<std::int32_t>(random.below(kMaxBranch)));
    while (count_[to] >= kMaxBonds - 1) ++to;  // the atom before has one bond at most
    parent_[atom] = to;
    bonds.push_back({atom, to});
    ++count_[atom];
    ++count_[to];
  }

  std::int64_t heavy_;
  std::vector<std::int32_t> parent_;  // [heavy]; -1: the first atom
  std::vector<int> count_;            // [heavy], bonds
};

CsrMatrix molecules(const Batch& batch, std::int64_t seed) {
  const std::int32_t n = matrix_extent({batch.n});
  require(batch.molecules <= n, "molecules: {} molecules have {} atoms", batch.molecules, n);
  const std::int64_t rings = batch.nnz / 2 - (n - batch.molecules);
  require(rings >= 0, "molecules: {} nonzeros do not join {} atoms to {} molecules", batch.nnz, n,
          batch.molecules);
  const std::uint64_t sizes = stream_seed(seed, 2), values = stream_seed(seed, 1);
  const auto weight = [&](std::int64_t k) {
    return 0.25 + 0.75 * (random_unit(sizes, 2 * k) + random_unit(sizes, 2 * k + 1));
  };
  double total = 0;
  for (std::int64_t k = 0; k < batch.molecules; ++k) total += weight(k);

  std::vector<Triplet> entries;
  entries.reserve(batch.nnz);
  double sum = 0;
  std::int64_t begin = 0, closed = 0;
  for (std::int64_t k = 0; k < batch.molecules; ++k) {
    sum += weight(k);
    const std::int64_t after = batch.molecules - 1 - k;  // every molecule has an atom
    const std::int64_t end =
        after == 0 ? n
                   : std::clamp(static_cast<std::int64_t>(sum / total * n), begin + 1, n - after);
    RandomSequence random(random_bits(stream_seed(seed, 0), k));
    Molecule molecule(end - begin, batch.hydrogens, random);
    // Rings that found no place in the molecules before are tried in this one.
    const auto due =
        static_cast<std::int64_t>(static_cast<double>(end) / n * static_cast<double>(rings));
    while (closed < due && molecule.close_ring(random)) ++closed;
    for (const auto [later, earlier] : molecule.bonds) {
      const auto u = static_cast<std::int32_t>(begin + earlier);
      const auto v = static_cast<std::int32_t>(begin + later);
      const float value = cell_value(values, u, v);
      entries.push_back({u, v, value});
      entries.push_back({v, u, value});
    }
    begin = end;
  }
  return assemble_entries(n, n, entries);
}

const Register<Generator> entry{{
    .name = "molecules",
    .summary = "a batch of molecule graphs: block diagonal, trees with rings, at most four per row",
    .params = {{"molecules", std::int64_t{200}, "graphs in the batch", {}, 1, 0x1p31},
               {"n", std::int64_t{4308}, "atoms of all graphs: rows", {}, 1, kMaxSizeParameter},
               {"nnz", std::int64_t{9136}, "nonzeros, twice the bonds", {}, 0, 0x1p33},
               {"hydrogens", 0.0, "fraction of the atoms with one bond, numbered last", {}, 0, 0.6},
               {"seed", std::int64_t{1}, "seed of shapes and values"}},
    .make =
        [](const Params& p) {
          const Batch batch{p.integer("molecules"), p.integer("n"), p.integer("nnz"),
                            p.real("hydrogens")};
          return make_generator(
              [batch, seed = p.integer("seed")] { return molecules(batch, seed); });
        },
}};

}  // namespace
}  // namespace tessera
