#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::hash_rows {

std::vector<ParamSpec> params() {
  return {{"load", 0.5, "nonzeros of C per slot of a hash table at most", {}, 0.05, 1},
          {"probing",
           std::string("linear"),
           "where a key is looked for next: one slot on, or ever further",
           {"linear", "quadratic"}},
          {"sums",
           std::string("ordered"),
           "terms in the order of A's columns, or by atomic additions as published",
           {"ordered", "atomic"}}};
}

Options options(const Params& params) {
  return {.choice = {.slots_per_nonzero = 1 / params.real("load")},
          .quadratic = params.text("probing") == "quadratic",
          .atomic = params.text("sums") == "atomic"};
}

CsrMatrix HashRowsKernel::emulate(const CsrMatrix& a, const CsrMatrix& b,
                                  const Generation& generation) const {
  if (options_.atomic) return SpgemmKernel::emulate(a, b, generation);
  return multiply_rows(a, b);
}

}  // namespace tessera::hash_rows
