// twin: a matrix of the statistics of a published one that is no formula, for machines without its
// file. Its name in tables says that it is none of the papers' data: twin(like=reddit).
//
// A recipe names a generator and its parameters. Sizes and nonzeros are those that the papers,
// their data's publishers or the SuiteSparse collection give; tile counts those of the originals;
// the numbers of communities those of the data sets where they are known. Everything else (places,
// tails, the share of edges within communities) is assumed. tests/formats/generators/twin_test.cpp
// states what agrees and how well.

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

struct Recipe {
  std::string like;
  std::string generator;
  Params::Given given;
};

Recipe graph(const char* like, std::int64_t n, std::int64_t nnz, std::int64_t communities,
             double within, double tail, std::int64_t max_degree, bool loops = false) {
  return {like,
          "communities",
          {{"n", n},
           {"nnz", nnz},
           {"communities", communities},
           {"within", within},
           {"tail", tail},
           {"max_degree", max_degree},
           {"loops", loops}}};
}

Recipe batch(const char* like, std::int64_t molecules, std::int64_t n, std::int64_t nnz,
             double hydrogens) {
  return {like,
          "molecules",
          {{"molecules", molecules}, {"n", n}, {"nnz", nnz}, {"hydrogens", hydrogens}}};
}

/// `tiles`: nonempty ones of 8x8, 16x8 and 16x16.
Recipe tiled(const char* like, std::int64_t n, std::int64_t nnz, std::array<std::int64_t, 3> tiles,
             std::int64_t reach, double tail = 0, bool diagonal = true) {
  return {like,
          "tiled",
          {{"n", n},
           {"nnz", nnz},
           {"tiles_8x8", tiles[0]},
           {"tiles_16x8", tiles[1]},
           {"tiles_16x16", tiles[2]},
           {"reach", reach},
           {"tail", tail},
           {"diagonal", diagonal}}};
}

ParamValue whole(std::int64_t value) { return value; }

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all{
      // Graphs of GNN data sets.
      graph("cora", 2708, 10556, 7, 0.4, 0.7, 200),
      graph("citeseer", 3327, 9228, 6, 0.2, 0.7, 120),
      graph("pubmed", 19717, 88651, 3, 0.2, 0.7, 171),
      graph("ppi", 56944, 818716, 24, 1, 0.5, 720),
      graph("artist", 50515, 1638396, 20, 0.5, 0.5, 1500),
      graph("soc-BlogCatalog", 88784, 2093195, 20, 0.3, 0.8, 13500),
      graph("com-amazon", 334863, 1851744, 16000, 0.7, 0.5, 560),
      graph("amazon0505", 410236, 4878874, 16000, 0.7, 0.4, 0),
      graph("amazon0601", 403394, 3387388, 16000, 0.7, 0.3, 0),
      graph("PROTEINS_full", 43471, 162088, 1113, 1, 0, 0),
      graph("FraudYelp-RSR", 45954, 6805486, 150, 0.97, 0, 0),
      graph("reddit", 232965, 114848857, 41, 0.75, 0.6, 21657, true),
      graph("protein", 132534, 79255038, 8, 0.95, 0.45, 7750, true),
      graph("patents_main", 240547, 560943, 400, 0.3, 0.3, 0),
      // Batches of molecules; the H sets number hydrogens as well.
      batch("Yeast", 79601, 1710902, 3636546, 0),
      batch("YeastH", 79601, 3138114, 6487230, 0.45),
      batch("OVCAR-8H", 40516, 1889542, 3946402, 0.45),
      // Roads.
      {"roadNet-CA", "road", {{"side", whole(1404)}, {"chain", whole(0)}, {"extra", 0.4045}}},
      {"roadNet-PA", "road", {{"side", whole(1044)}, {"chain", whole(0)}, {"extra", 0.4142}}},
      // Elasticity on grids.
      {"cant", "cantilever", {{"nx", whole(256)}, {"ny", whole(8)}, {"nz", whole(8)}}},
      {"pcrystk03", "elasticity3d", {{"nx", whole(42)}, {"ny", whole(13)}, {"nz", whole(13)}}},
      {"nemeth21", "band", {{"n", whole(9506)}, {"bandwidth", whole(76)}, {"density", 0.811}}},
      // By tile counts.
      tiled("DD", 334925, 1686092, {519066, 416437, 312061}, 18, 0, false),
      tiled("mip1", 66463, 10352819, {244244, 144869, 84512}, 4153, 0.5),
      tiled("pdb1HYS", 36417, 4344765, {140833, 85053, 50681}, 400),
      tiled("rma10", 46835, 2374001, {99267, 64060, 39938}, 300),
      tiled("cop20k_A", 121192, 2624331, {530327, 474299, 420994}, 7574),
      tiled("consph", 83334, 6010480, {272897, 189750, 138147}, 800),
      tiled("shipsec1", 140874, 7813404, {355376, 250117, 165035}, 400),
      tiled("dc2", 116835, 766396, {153524, 114303, 82277}, 7302, 0.9),
      tiled("webbase-1M", 1000005, 3105536, {550761, 445601, 356182}, 62500, 0.9),
      tiled("cage12", 130228, 2032536, {452797, 354860, 234060}, 4000),
      tiled("dawson5", 51537, 1010777, {106481, 68452, 43166}, 400),
      tiled("lock1074", 1074, 51588, {1643, 1080, 680}, 16),
      tiled("struct3", 53570, 1173694, {62351, 41160, 29871}, 400),
      tiled("wiki-Vote", 8297, 103689, {72429, 62466, 51657}, 519, 0.9, false),
      tiled("bcsstk30", 28924, 2043492, {78920, 49351, 30488}, 200),
      tiled("pct20stif", 52329, 2698463, {115500, 77852, 51671}, 400),
      tiled("pkustk06", 43164, 2571768, {131322, 97819, 70614}, 400),
      tiled("pli", 22695, 1350309, {85147, 55417, 34905}, 400),
      tiled("net50", 16320, 945200, {110568, 90988, 65064}, 1020, 0.3),
      tiled("web-NotreDame", 325729, 1497134, {230328, 186000, 149000}, 20358, 0.9),
      tiled("web-BerkStan", 685230, 7600595, {1169322, 946000, 757000}, 42827, 0.9),
  };
  return all;
}

/// The recipe with every size divided by `shrink`, so that the mean row stays as long.
Params::Given shrunk(Params::Given given, std::int64_t shrink) {
  const auto divide = [&](const char* name, double divisor) {
    const auto found = given.find(name);
    if (found == given.end()) return;
    auto& value = std::get<std::int64_t>(found->second);
    if (value > 0)
      value = std::max<std::int64_t>(1, std::llround(static_cast<double>(value) / divisor));
  };
  const auto whole_divisor = static_cast<double>(shrink);
  for (const char* name : {"n", "nnz", "communities", "molecules", "tiles_8x8", "tiles_16x8",
                           "tiles_16x16", "reach", "nx"})
    divide(name, whole_divisor);
  for (const char* name : {"side", "max_degree"}) divide(name, std::sqrt(whole_divisor));
  return given;
}

std::vector<std::string> likes() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(recipe.like);
  std::ranges::sort(names);
  return names;
}

const Register<Generator> entry{{
    .name = "twin",
    .summary = "a matrix of the statistics of a published one, where its file is not at hand",
    .params = {{"like", std::string("cora"), "the published matrix", likes()},
               {"shrink", std::int64_t{1}, "divides rows and nonzeros", {}, 1, 1024},
               {"seed", std::int64_t{1}, "seed of the recipe's generator"}},
    .make =
        [](const Params& p) {
          const Recipe& recipe = *std::ranges::find(recipes(), p.text("like"), &Recipe::like);
          Params::Given given = shrunk(recipe.given, p.integer("shrink"));
          given["seed"] = p.integer("seed");
          return Registry<Generator>::instance().make(recipe.generator, given);
        },
}};

}  // namespace
}  // namespace tessera
