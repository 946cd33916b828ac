// The interface of an SpMM kernel's device half: upload A once, then launch any number of products.
//
// A device half registers itself under the name of its host half (kernels/spmm_kernel.hpp); its
// file ends in .cu or _gpu.cpp, and a build without CUDA has none. A closed library may offer
// several algorithms (candidates); the caller times them and picks one.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/format.hpp"
#include "kernels/narrowing.hpp"
#include "kernels/scaling.hpp"

namespace tessera {

struct PackedOnGpu;  // kernels/packed_on_gpu.hpp

/// The dense operands of one product, on the device, row-major, without overlap, of the types that
/// the kernel's host half states (Arithmetic::storage); alpha and beta are passed by value with
/// each launch.
struct Operands {
  const void* b;  // [cols of A x n]
  void* c;        // [rows of A x n]; not read where beta is 0
  Scaling scaling = {};

  /// Of a kernel that stores them as FP32.
  const float* b_fp32() const { return static_cast<const float*>(b); }
  float* c_fp32() const { return static_cast<float*>(c); }
};

/// A packed A on the device, ready to be multiplied by any B of one width.
class GpuMultiplication {
 public:
  virtual ~GpuMultiplication() = default;

  /// The names of the algorithms to choose from; a single empty name when there is no choice.
  virtual std::vector<std::string> candidates() const { return {""}; }

  /// Registers per thread in each of the launches that the host half describes, as compiled for
  /// this device and for aligned operands; empty when the host half states none.
  virtual std::vector<int> registers() const { return {}; }

  /// Prepares one algorithm, once per matrix and outside any launch's time. The operands have the
  /// size of the launches' and at least their alignment. Throws Unsupported when the algorithm does
  /// not take this case.
  virtual void prepare(int /*candidate*/, const Operands&, cudaStream_t) {}

  /// The values of A on the device, in the order of the packed matrix's array of values: launches
  /// read them there, so that a caller may overwrite them. Null for a kernel that has them in
  /// another form.
  virtual float* values() { return nullptr; }

  /// Lets later launches write row i of the product to row places[i] of C: an A that was packed in
  /// another order, or has only some of C's rows, meets the right ones. `places` [rows of A] are
  /// distinct, on the device, and the caller keeps them; null: row i. Returns false, and changes
  /// nothing, for a kernel that writes rows only where they are.
  virtual bool place_rows(const std::int32_t* /*places*/) { return false; }

  /// Lets later launches multiply sums by powers of two before alpha, and do nothing where a word
  /// on the device says so. Returns false, and changes nothing, for a kernel that does neither.
  virtual bool narrow(const Narrowing&) { return false; }

  /// Enqueues C = alpha A B + beta C, every element of C, on the stream and returns. It neither
  /// waits nor allocates nor frees memory, so that a CUDA graph can capture it. Launches of one
  /// object may share a workspace: the caller has to let them run one after another.
  virtual void launch(int candidate, const Operands& operands, cudaStream_t stream) = 0;
};

/// Registers per thread of a kernel, as compiled for the current device.
template <class Kernel>
int registers_of(Kernel* kernel) {
  cudaFuncAttributes attributes;
  cuda_check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
             "reading the attributes of a kernel");
  return attributes.numRegs;
}

/// Loads kernels onto the current device. The runtime would load a kernel at its first launch and
/// may then wait for everything that runs there (CUDA programming guide, "Lazy loading"); an
/// upload() therefore loads the kernels of its launches.
template <class... Kernels>
void load_now(Kernels*... kernels) {
  (registers_of(kernels), ...);
}

/// Allows kernels this much dynamic shared memory on the current device, and loads them there.
template <class... Kernels>
void allow_shared_memory(std::int64_t bytes, Kernels*... kernels) {
  const auto allow = [&](const void* kernel) {
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "allowing a kernel more shared memory");
  };
  (allow(reinterpret_cast<const void*>(kernels)), ...);
}

class GpuSpmm {
 public:
  static constexpr const char* kKind = "GPU kernel";
  virtual ~GpuSpmm() = default;

  /// Does what upload() of this A needs no device for. A later upload() of it then takes less time,
  /// for a caller that shares the device. `packed` may not change or end before.
  virtual void prepare(const PackedMatrix& /*packed*/) {}

  /// Copies the packed A to the current device, for any B of n columns. `packed` has to be in the
  /// format of the host half and is not needed afterwards. Throws Unsupported for a case that the
  /// kernel does not take, OutOfMemory when the device has too little memory.
  virtual std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                                    std::int64_t n) const = 0;

  /// The same for an A that the device half of that format has packed on the current device, by the
  /// default stream, and that is not needed afterwards either. Throws Unsupported for a kernel that
  /// takes A from the host only.
  virtual std::unique_ptr<GpuMultiplication> adopt(const PackedOnGpu& /*packed*/,
                                                   std::int64_t /*n*/) const {
    throw Unsupported("it does not take an A that was packed on the GPU");
  }
};

}  // namespace tessera
