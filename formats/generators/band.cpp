// band: a square band of given half bandwidth and density, the synthetic input of the SMaT paper's
// band experiments (P. Okanovic et al., "High performance unstructured SpMM computation using
// tensor cores", SC 2024) and of most bandwidth studies.
//
// Cell (i, j) with |i - j| <= bandwidth is nonzero with probability `density`, independently; the
// time is proportional to the cells of the band, not to its nonzeros.

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

CsrMatrix band(std::int64_t size, std::int64_t bandwidth, double density, std::int64_t seed) {
  const std::int32_t n = matrix_extent({size});
  const std::uint64_t pattern = stream_seed(seed, 0), values = stream_seed(seed, 1);
  return assemble_rows(n, n, [=](std::int64_t row, std::vector<Nonzero>& out) {
    const std::int64_t last = std::min<std::int64_t>(n - 1, row + bandwidth);
    for (std::int64_t col = std::max<std::int64_t>(0, row - bandwidth); col <= last; ++col) {
      const std::uint64_t cell = static_cast<std::uint64_t>(row) * n + col;
      if (random_unit(pattern, cell) < density)
        out.push_back({static_cast<std::int32_t>(col), cell_value(values, row, col)});
    }
  });
}

const Register<Generator> entry{{
    .name = "band",
    .summary = "square band of given half bandwidth and density, random values",
    .params = {{"n", std::int64_t{4096}, "rows and columns", {}, 0, kMaxSizeParameter},
               {"bandwidth", std::int64_t{32}, "largest |i - j|", {}, 0, 0x1p31},
               {"density", 1.0, "probability of a cell of the band", {}, 0, 1},
               {"seed", std::int64_t{1}, "seed of pattern and values"}},
    .make =
        [](const Params& p) {
          return make_generator([p] {
            return band(p.integer("n"), p.integer("bandwidth"), p.real("density"),
                        p.integer("seed"));
          });
        },
}};

}  // namespace
}  // namespace tessera
