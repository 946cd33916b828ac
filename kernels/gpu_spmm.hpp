// The device half of an SpMM kernel: upload once, launch as often as asked.
//
// Registered under the name of its host half (kernels/spmm_kernel.hpp), from a *.cu or *_gpu.cpp
// file, so that a build without CUDA simply has none. A closed library may offer several algorithms
// (candidates); which one is fastest is the business of whoever times them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/format.hpp"
#include "kernels/scaling.hpp"

namespace tessera {

/// B and C of a product, on the device, row-major, apart. alpha and beta are those of the launch,
/// not of memory.
struct Operands {
  const float* b;  // [cols of A x n]
  float* c;        // [rows of A x n]; not read where beta is 0
  Scaling scaling = {};
};

/// A packed A on the device, ready to multiply B of one width.
class GpuMultiplication {
 public:
  virtual ~GpuMultiplication() = default;

  /// Names of the algorithms to choose from; one without a name when there is no choice.
  virtual std::vector<std::string> candidates() const { return {""}; }

  /// Registers of a thread in each of the launches that the host half describes, as compiled for
  /// this device, operands aligned; empty where nobody promises any.
  virtual std::vector<int> registers() const { return {}; }

  /// Whatever an algorithm does once per matrix; not part of a launch's time. `b` and `c` are like
  /// those of the launches, at least as well aligned. Throws Unsupported when the algorithm does
  /// not take this case.
  virtual void prepare(int /*candidate*/, const float* /*b*/, float* /*c*/, cudaStream_t) {}

  /// C = alpha A B + beta C: every kernel it needs, every element of C. Enqueues on the stream and
  /// returns: it neither waits nor takes or gives back memory, so that a CUDA graph can capture it.
  /// Launches of one object run one after another: they may share a workspace.
  virtual void launch(int candidate, const Operands& operands, cudaStream_t stream) = 0;
};

/// Registers of a thread of a kernel, as compiled for the current device.
template <class Kernel>
int registers_of(Kernel* kernel) {
  cudaFuncAttributes attributes;
  cuda_check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
             "asking for a kernel's registers");
  return attributes.numRegs;
}

/// Brings kernels to the current device. The runtime would do that at their first launch, and may
/// then wait for all that runs there (CUDA programming guide, "Lazy loading"): whoever uploads a
/// matrix loads the kernels of its launches.
template <class... Kernels>
void load_now(Kernels*... kernels) {
  (registers_of(kernels), ...);
}

/// Lets kernels be launched with so much dynamic shared memory on the current device, and brings
/// them there.
template <class... Kernels>
void allow_shared_memory(std::int64_t bytes, Kernels*... kernels) {
  const auto allow = [&](const void* kernel) {
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "asking for shared memory");
  };
  (allow(reinterpret_cast<const void*>(kernels)), ...);
}

class GpuSpmm {
 public:
  static constexpr const char* kKind = "GPU kernel";
  virtual ~GpuSpmm() = default;

  virtual std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                                    std::int64_t n) const = 0;
};

}  // namespace tessera
