// mycielskian<k>: the graphs of J. Mycielski (1955), triangle-free with chromatic number k, as
// published in the SuiteSparse collection (group Mycielski).
//
// Start from M_2, one edge; M_k = [A A 0; A 0 1; 0 1' 0] with A = M_{k-1}. M_k has 3 2^(k-2) - 1
// vertices. Values are 1: the published matrices are patterns. Vertex numbering is the published
// one, so tile counts agree with the originals.

#include "formats/base/registry.hpp"
#include "formats/generators/assemble.hpp"

namespace tessera {
namespace {

std::int64_t vertices(std::int64_t k) { return 3 * (std::int64_t{1} << (k - 2)) - 1; }

/// Appends the neighbours of vertex v of M_k, ascending.
void append_neighbours(std::int64_t k, std::int64_t v, std::vector<Nonzero>& out) {
  if (k == 2) {
    out.push_back({static_cast<std::int32_t>(1 - v), 1.0f});
    return;
  }
  const auto n = static_cast<std::int32_t>(vertices(k - 1));
  if (v < n) {  // an old vertex: its old neighbours and their copies
    append_neighbours(k - 1, v, out);
    const std::size_t old = out.size();
    for (std::size_t i = 0; i < old; ++i) out.push_back({out[i].col + n, 1.0f});
  } else if (v < 2 * n) {  // a copy: the old neighbours of its original, and the new apex
    append_neighbours(k - 1, v - n, out);
    out.push_back({2 * n, 1.0f});
  } else {  // the apex: all copies
    for (std::int32_t u = n; u < 2 * n; ++u) out.push_back({u, 1.0f});
  }
}

CsrMatrix mycielskian(std::int64_t k) {
  const auto n = static_cast<std::int32_t>(vertices(k));
  return assemble_rows(
      n, n, [k](std::int64_t row, std::vector<Nonzero>& out) { append_neighbours(k, row, out); });
}

const Register<Generator> entry{{
    .name = "mycielskian",
    .summary = "SuiteSparse mycielskian<k>: Mycielski graph, hub-heavy (exact)",
    .params = {{"k",
                std::int64_t{12},
                "chromatic number; 3 2^(k-2) - 1 rows, about 3^k / 1.3 nonzeros",
                {},
                2,
                22}},
    .make =
        [](const Params& p) {
          return make_generator([k = p.integer("k")] { return mycielskian(k); });
        },
}};

}  // namespace
}  // namespace tessera
