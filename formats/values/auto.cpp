// auto: stored values, but random ones for a pattern. A matrix whose values are all one would hide
// a wrong index.

#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

class Auto final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return is_pattern(stored) ? random_values(stored.nnz(), seed) : stored.values;
  }
  std::string chosen_for(const CsrMatrix& stored) const override {
    return is_pattern(stored) ? "random" : "stored";
  }
};

const Register<ValueFamily> entry{{
    .name = "auto",
    .summary = "random where every stored value is one, else stored",
    .make = [](const Params&) { return std::make_unique<Auto>(); },
}};

}  // namespace
}  // namespace tessera
