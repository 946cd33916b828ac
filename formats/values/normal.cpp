// normal: A and B standard normal, N(0, 1). The condition of a sum of K such products is about
// sqrt(K): errors relative to the result grow where those relative to |A||B| do not.

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

float draw(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(random_normal(seed, index));
}

const Register<ValueFamily> entry{{
    .name = "normal",
    .summary = "A and B standard normal, N(0, 1)",
    .make =
        [](const Params&) { return std::make_unique<IndependentValues<decltype(&draw)>>(&draw); },
}};

}  // namespace
}  // namespace tessera
