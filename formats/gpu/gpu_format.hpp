// The device half of a format: the same arrays as its host half, byte for byte, built on the GPU
// from A in CSR.
//
// Registered under the name of the format, with its parameters, from a .cu file. Building runs on
// the caller's stream; it waits for the device once, to learn how much the result takes.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/format.hpp"

namespace tessera {

/// A on the device; arrays as in CsrMatrix, owned by the caller.
struct DeviceCsr {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
  const float* values = nullptr;              // [nnz]
};

/// Names, order and bytes of PackedMatrix::arrays().
struct GpuArray {
  std::string name;
  StreamBuffer data;
};

struct GpuPacked {
  std::vector<GpuArray> arrays;

  /// A new array at the end; uninitialised.
  template <class T>
  T* add(std::string name, std::int64_t elements, cudaStream_t stream) {
    arrays.push_back(
        {std::move(name), StreamBuffer(elements * static_cast<std::int64_t>(sizeof(T)), stream)});
    return arrays.back().data.as<T>();
  }

  /// One that is there already.
  void add(std::string name, StreamBuffer data) {
    arrays.push_back({std::move(name), std::move(data)});
  }

  /// A copy of one that is on the device.
  template <class T>
  void add_copy(std::string name, const T* from, std::int64_t elements, cudaStream_t stream) {
    T* const to = add<T>(std::move(name), elements, stream);
    if (elements == 0) return;
    cuda_check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements) * sizeof(T),
                               cudaMemcpyDeviceToDevice, stream),
               "copying an array of A");
  }
};

class GpuFormat {
 public:
  static constexpr const char* kKind = "GPU builder";
  virtual ~GpuFormat() = default;

  /// The columns have to be valid; the host half's pack() says what that means. Throws Unsupported
  /// when the matrix exceeds the limits.
  virtual GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                          cudaStream_t stream) const = 0;
};

}  // namespace tessera
