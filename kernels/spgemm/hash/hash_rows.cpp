#include "kernels/spgemm/hash/hash_rows.hpp"

namespace tessera::hash_rows {

std::vector<ParamSpec> params() {
  return {
      {"load", 0.5, "load factor of a hash table: nonzeros of C per slot, at most", {}, 0.05, 1},
      {"probing",
       std::string("linear"),
       "where to look for a key next: one slot on, or at growing distances",
       {"linear", "quadratic"}},
      {"sums",
       std::string("ordered"),
       "products added in the order of A's columns, or by atomics as published",
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
