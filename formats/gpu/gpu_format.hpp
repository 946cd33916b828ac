// The device half of a format: the same arrays as its host half, byte for byte, built on the GPU
// from A in CSR.
//
// It registers under the name of the format, with the same parameters, from a .cu file. Building
// runs on the caller's stream and waits for the device once, to learn the size of the result.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/format.hpp"

namespace tessera {

/// A on the device: the arrays of CsrMatrix, owned by the caller.
struct DeviceCsr {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
  const float* values = nullptr;              // [nnz]
};

/// One array of a packed matrix. Names, order and bytes are those of PackedMatrix::arrays().
struct GpuArray {
  std::string name;
  StreamBuffer data;
};

struct GpuPacked {
  std::vector<GpuArray> arrays;

  /// Adds an uninitialised array of `elements` values of type T.
  template <class T>
  T* add(std::string name, std::int64_t elements, cudaStream_t stream) {
    arrays.push_back(
        {std::move(name), StreamBuffer(elements * static_cast<std::int64_t>(sizeof(T)), stream)});
    return arrays.back().data.as<T>();
  }

  /// Adds an array that exists already.
  void add(std::string name, StreamBuffer data) {
    arrays.push_back({std::move(name), std::move(data)});
  }

  /// Adds a copy of `from` [elements] on the device.
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

  /// Builds the arrays from a valid matrix: the columns of a row ascend and are distinct, as
  /// Format::pack requires and checks. Throws Unsupported when the matrix exceeds the limits.
  virtual GpuPacked build(const DeviceCsr& matrix, const PackLimits& limits,
                          cudaStream_t stream) const = 0;
};

}  // namespace tessera
