// uniform01: A and B uniform in (0, 1). All products have one sign, so no sum cancels (condition
// 1), and the truncation errors of tensor cores add up.

#include <cmath>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

/// An odd multiple of 2^-24: never zero, all 24 significant bits in use.
float draw(std::uint64_t seed, std::uint64_t index) { return std::abs(random_signed(seed, index)); }

const Register<ValueFamily> entry{{
    .name = "uniform01",
    .summary = "A and B uniform in (0, 1): nothing cancels",
    .make =
        [](const Params&) { return std::make_unique<IndependentValues<decltype(&draw)>>(&draw); },
}};

}  // namespace
}  // namespace tessera
