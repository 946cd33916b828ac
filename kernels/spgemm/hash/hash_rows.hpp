// What the kernels that make rows of C in tables share on the host: parameters, and the kernel.
#pragma once

#include <vector>

#include "formats/base/params.hpp"
#include "kernels/spgemm/hash/hash_bins.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera::hash_rows {

struct Options {
  Choice choice;
  bool quadratic = false;  // probes at growing distances
  bool atomic = false;     // values are added as they come
};

/// load, probing and sums; the choice of methods is the kernel's.
std::vector<ParamSpec> params();
Options options(const Params& params);

/// Sums in the order of A's columns, unless they are atomic.
class HashRowsKernel final : public SpgemmKernel {
 public:
  explicit HashRowsKernel(const Options& options) : options_(options) {}

  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override;

 private:
  Options options_;
};

}  // namespace tessera::hash_rows
