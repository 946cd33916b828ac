// The device half of a format: the same arrays as its host half, byte for byte, built on the GPU
// from A in CSR.
//
// It registers under the name of the format, with the same parameters, from a .cu file. Building
// runs on the caller's stream and waits for the device once, to learn the size of the result.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
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

/// The memory of an array: its own, or a part of what GpuPacked has reserved.
class GpuArrayData {
 public:
  explicit GpuArrayData(StreamBuffer own)
      : own_(std::move(own)), data_(own_.as<void>()), bytes_(own_.bytes()) {}
  GpuArrayData(void* part, std::int64_t bytes) : data_(part), bytes_(bytes) {}

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }
  /// The array has only its first `bytes`.
  void shorten(std::int64_t bytes) { bytes_ = bytes; }

 private:
  StreamBuffer own_ = {};
  void* data_;
  std::int64_t bytes_;
};

/// One array of a packed matrix. Names, order and bytes are those of PackedMatrix::arrays().
struct GpuArray {
  std::string name;
  GpuArrayData data;
};

/// Arrays in one buffer begin at multiples of 256 bytes: the room of one.
constexpr std::int64_t room_of(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

struct GpuPacked {
  std::vector<GpuArray> arrays = {};
  StreamBuffer reserved = {};  // for arrays to come, or empty
  std::int64_t used = 0;       // bytes of it

  /// Allocates the memory of the next arrays at once. For a small matrix, allocations take longer
  /// than the kernels that fill them.
  void reserve(const std::vector<std::int64_t>& bytes_of_arrays, cudaStream_t stream) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : bytes_of_arrays) sum += room_of(bytes);
    reserved = StreamBuffer(sum, stream);
    used = 0;
  }

  /// Adds an uninitialised array of `elements` values of type T.
  template <class T>
  T* add(std::string name, std::int64_t elements, cudaStream_t stream) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
    if (bytes > reserved.bytes() - used) {
      add(std::move(name), StreamBuffer(bytes, stream));
    } else {
      arrays.push_back({std::move(name), {reserved.as<std::byte>() + used, bytes}});
      used += room_of(bytes);
    }
    return arrays.back().data.as<T>();
  }

  /// Leaves an array its first elements alone, of type T.
  template <class T>
  void shorten(const char* name, std::int64_t elements) {
    for (GpuArray& array : arrays)
      if (array.name == name) array.data.shorten(elements * static_cast<std::int64_t>(sizeof(T)));
  }

  /// Adds an array that exists already.
  void add(std::string name, StreamBuffer data) {
    arrays.push_back({std::move(name), GpuArrayData(std::move(data))});
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
