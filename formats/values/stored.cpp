// stored, random and auto: the values of the file, values in (-1, 1), and whichever of the two
// shows a wrong index. A pattern, every value of which is one, would hide it, so auto takes random
// there.

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

Array<float> random_values(const CsrMatrix& stored, std::uint64_t seed) {
  return draw_values(stored.nnz(), [=](std::uint64_t i) { return random_signed(seed, i); });
}

class Stored final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t) const override {
    return stored.values;
  }
};

class Random final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return random_values(stored, seed);
  }
};

class Auto final : public ValueFamily {
 public:
  Array<float> a_values(const CsrMatrix& stored, std::uint64_t seed) const override {
    return is_pattern(stored) ? random_values(stored, seed) : stored.values;
  }
  std::string chosen_for(const CsrMatrix& stored) const override {
    return is_pattern(stored) ? "random" : "stored";
  }
};

const Register<ValueFamily> stored_entry{{
    .name = "stored",
    .summary = "A as in its file, B uniform in (-1, 1)",
    .make = [](const Params&) { return std::make_unique<Stored>(); },
}};

const Register<ValueFamily> random_entry{{
    .name = "random",
    .summary = "A and B uniform in (-1, 1), never zero",
    .make = [](const Params&) { return std::make_unique<Random>(); },
}};

const Register<ValueFamily> auto_entry{{
    .name = "auto",
    .summary = "random where every stored value is one, else stored",
    .make = [](const Params&) { return std::make_unique<Auto>(); },
}};

}  // namespace
}  // namespace tessera
