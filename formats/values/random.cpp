// random: A and B uniform in (-1, 1) and never zero, so that a wrong index shows in C.

#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

class Random final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return random_values(stored.nnz(), seed);
  }
};

const Register<ValueFamily> entry{{
    .name = "random",
    .summary = "A and B uniform in (-1, 1), never zero",
    .make = [](const Params&) { return std::make_unique<Random>(); },
}};

}  // namespace
}  // namespace tessera
