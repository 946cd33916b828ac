// The host half that hash_spgemm and speck_spgemm share: parameters, and the kernel.
#pragma once

#include <vector>

#include "formats/base/params.hpp"
#include "kernels/spgemm/hash/hash_bins.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera::hash_rows {

struct Options {
  MethodChoice choice;
  bool quadratic = false;  // probe at growing distances
  bool atomic = false;     // add values by atomics, in any order
};

/// The parameters load, probing and sums. The kernel sets the rest of the choice.
std::vector<ParamSpec> params();
Options options(const Params& params);

/// Adds products in the order of A's columns, unless sums are atomic.
class HashRowsKernel final : public SpgemmKernel {
 public:
  explicit HashRowsKernel(const Options& options) : options_(options) {}

  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {.adds_in_memory = options_.atomic}; }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override;

 private:
  Options options_;
};

}  // namespace tessera::hash_rows
