// pattern: A is ones. With a random B only the rounding of B shows. With a binary one (zeros and
// ones, equally likely) every sum is a count, which FP16 inputs and an FP32 accumulator hold
// exactly up to 2^24: the case of tSparse's "0 % on pattern matrices" (O. Zachariadis et al.,
// "Accelerating sparse matrix-matrix multiplication with GPU tensor cores", 2020), where both
// factors are patterns.

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

class Pattern final : public ValueFamily {
 public:
  explicit Pattern(bool binary_b) : binary_b_(binary_b) {}

  Array<float> a_values(const CsrMatrix& stored, std::uint64_t) const override {
    return std::vector<float>(static_cast<std::size_t>(stored.nnz()), 1.0f);
  }
  DenseMatrix b(std::int64_t rows, std::int64_t cols, std::uint64_t seed) const override {
    if (!binary_b_) return random_dense(rows, cols, seed);
    return draw_dense(rows, cols, [=](std::uint64_t i) {
      return static_cast<float>(random_bits(seed, i) >> 63);
    });
  }

 private:
  bool binary_b_;
};

const Register<ValueFamily> entry{{
    .name = "pattern",
    .summary = "A of ones; B uniform in (-1, 1), or of zeros and ones",
    .params = {{"b", std::string("random"), "values of B", {"random", "binary"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Pattern>(params.text("b") == "binary");
        },
}};

}  // namespace
}  // namespace tessera
