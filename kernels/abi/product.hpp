// A product that a caller names by texts: the kernel, the format and the packed A.
#pragma once

#include <memory>

#include "experiments/points/point.hpp"
#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/device.hpp"

namespace tessera::abi {

struct NamedProduct {
  const Device& device;
  Variant kernel = {}, format = {};
  std::unique_ptr<SpmmKernel> made = {};
  std::unique_ptr<PackedMatrix> packed = {};
};

/// A variant from its text, with every parameter: "bcsr(block_rows=8)".
template <class T>
Variant variant_of(const char* text);

/// The described device of that name; null for the H200.
const Device& device_of(const char* name);

/// Packs A for a kernel; `kernel` is a call or, for the one that a simulation expects to be fastest
/// for B of n columns, "auto". Throws an Error for unknown names and parameters and for a format
/// that the kernel does not read, Unsupported when no kernel can be chosen.
NamedProduct named_product(const CsrMatrix& a, std::int64_t n, const char* kernel,
                           const char* format, const char* device);

}  // namespace tessera::abi
