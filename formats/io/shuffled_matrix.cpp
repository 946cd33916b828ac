// shuffle: any matrix by name (a file, a generator, another shuffle) under random labels.

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"
#include "formats/generators/shuffle.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

ShuffledSides sides_of(const std::string& name) {
  if (name == "rows") return ShuffledSides::kRows;
  if (name == "cols") return ShuffledSides::kCols;
  if (name == "both") return ShuffledSides::kBoth;
  return ShuffledSides::kSymmetric;
}

const Register<Generator> entry{{
    .name = "shuffle",
    .summary = "another matrix with its rows and columns in random order",
    .params = {{"of", std::string("mycielskian8"), "name of the matrix to shuffle"},
               {"sides",
                std::string("symmetric"),
                "rows, cols, both by different orders, or both by one (square matrices)",
                {"symmetric", "rows", "cols", "both"}},
               {"seed", std::int64_t{1}, "seed of the random order"}},
    .make =
        [](const Params& p) {
          return make_generator(
              [of = p.text("of"), sides = sides_of(p.text("sides")), seed = p.integer("seed")] {
                return shuffled(load_matrix(of).matrix, sides, seed);
              });
        },
}};

}  // namespace
}  // namespace tessera
