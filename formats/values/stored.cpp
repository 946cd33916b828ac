// stored: A as its file has it, the ablation's baseline among the value families.

#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

class Stored final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t) const override {
    return stored.values;
  }
};

const Register<ValueFamily> entry{{
    .name = "stored",
    .summary = "A as in its file, B uniform in (-1, 1)",
    .make = [](const Params&) { return std::make_unique<Stored>(); },
}};

}  // namespace
}  // namespace tessera
