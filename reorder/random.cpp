// Rows in random order (Fisher and Yates, as in Knuth, TAOCP 2, algorithm 3.4.2P), the lower end of
// every comparison of reorderings.
//
// The draws are counter-based, so a seed gives the same order on every machine. 4 B per row.

#include <numeric>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class Random final : public Reordering {
 public:
  Random(std::uint64_t seed, bool symmetric) : seed_(seed), symmetric_(symmetric) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    require<Unsupported>(
        !symmetric_ || matrix.rows == matrix.cols,
        "random moves rows and columns alike only in a square matrix, not {} x {}; apply=rows "
        "takes any",
        matrix.rows, matrix.cols);
    std::vector<std::int32_t> order(matrix.rows);
    std::iota(order.begin(), order.end(), 0);
    RandomSequence(seed_).shuffle(order);
    Permutation rows(std::move(order));
    if (symmetric_) return {rows, rows};
    return {std::move(rows), std::nullopt};
  }

 private:
  std::uint64_t seed_;
  bool symmetric_;
};

const Register<Reordering> entry{{
    .name = "random",
    .summary = "a random order, the lower end of every comparison",
    .params = {{"seed", std::int64_t{1}, "seed of the random order", {}, 0},
               {"apply",
                std::string("rows"),
                "move rows alone, or rows and columns alike",
                {"rows", "symmetric"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Random>(static_cast<std::uint64_t>(params.integer("seed")),
                                          params.text("apply") == "symmetric");
        },
}};

}  // namespace
}  // namespace tessera
