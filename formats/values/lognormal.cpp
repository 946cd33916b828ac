// lognormal: A and B are e^(sigma z), z standard normal. All values are positive and many binades
// apart: with the default sigma = 3 about one in 9000 is above 65504, the largest of FP16, and one
// in 1600 is below 2^-14, its smallest normal number. This family tests range, not precision.

#include <cmath>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

// |z| of Box-Muller is below 8.6, so that up to this sigma every value is a normal FP32 number.
constexpr double kMaxSigma = 10;

const Register<ValueFamily> entry{{
    .name = "lognormal",
    .summary = "A and B lognormal: positive, over many binades",
    .params = {{"sigma", 3.0, "standard deviation of the natural logarithm", {}, 0, kMaxSigma}},
    .make =
        [](const Params& params) {
          const auto draw = [sigma = params.real("sigma")](std::uint64_t seed,
                                                           std::uint64_t index) {
            return static_cast<float>(std::exp(sigma * random_normal(seed, index)));
          };
          return std::make_unique<IndependentValues<decltype(draw)>>(draw);
        },
}};

}  // namespace
}  // namespace tessera
