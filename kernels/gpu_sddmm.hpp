// The interface of an SDDMM kernel's device half: upload A once, then launch any number of
// products S = X Y^T at the nonzeros of A.
//
// A device half registers itself under the name of its host half (kernels/sddmm_kernel.hpp); its
// file ends in .cu or _gpu.cpp, and a build without CUDA has none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/format.hpp"

namespace tessera {

/// The operands of one product, on the device, without overlap, of the types that the kernel's host
/// half states (Arithmetic::storage: b is that of X and Y, c that of S).
struct SddmmOperands {
  const void* x;  // [rows of A x k] row-major
  const void* y;  // [cols of A x k] row-major
  void* s;        // [nnz] in the order of A's CSR form
};

/// A packed A on the device, ready for any X and Y of one width.
class GpuSampledProduct {
 public:
  virtual ~GpuSampledProduct() = default;

  /// Registers per thread in each of the launches that the host half describes, as compiled for
  /// this device and for aligned operands; empty when the host half states none.
  virtual std::vector<int> registers() const { return {}; }

  /// Prepares the launches, once and outside any launch's time. The operands have the size of the
  /// launches' and at least their alignment. Throws Unsupported when a library does not take this
  /// case.
  virtual void prepare(const SddmmOperands&, cudaStream_t) {}

  /// Enqueues S, every element of it, on the stream and returns. It neither waits nor allocates nor
  /// frees memory, so that a CUDA graph can capture it.
  virtual void launch(const SddmmOperands& operands, cudaStream_t stream) = 0;

  /// Replaces the values of A, in the order of its CSR form, from memory on the device [nnz] and in
  /// the order of the stream. Does nothing for a kernel that does not read them.
  virtual void set_values(const float* /*values*/, cudaStream_t) {}
};

class GpuSddmm {
 public:
  static constexpr const char* kKind = "GPU SDDMM kernel";
  virtual ~GpuSddmm() = default;

  /// Copies the packed A to the current device, for any X and Y of k columns. `packed` has to be in
  /// the format of the host half and is not needed afterwards. Throws Unsupported for a case that
  /// the kernel does not take, OutOfMemory when the device has too little memory.
  virtual std::unique_ptr<GpuSampledProduct> upload(const PackedMatrix& packed,
                                                    std::int64_t k) const = 0;
};

}  // namespace tessera
