// The device half of a reordering: the same order as its host half, found on the GPU from a pattern
// in CSR on the device.
//
// It registers under the name of the reordering, with the same parameters, from a .cu file.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "formats/base/device_memory.hpp"
#include "formats/base/phase_times.hpp"

namespace tessera {

/// The pattern of a matrix on the device, owned by the caller.
struct DevicePattern {
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  const std::int64_t* row_offsets = nullptr;  // [rows + 1]
  const std::int32_t* col_indices = nullptr;  // [nnz]
};

class GpuReordering {
 public:
  static constexpr const char* kKind = "GPU reordering";
  virtual ~GpuReordering() = default;

  /// Enqueues the search on the stream and returns old_of_new, std::int32_t [rows]. Does not wait
  /// for the device. Throws Unsupported for a matrix that the reordering cannot order and for a GPU
  /// that cannot run it. With `times`, marks its phases there.
  StreamBuffer order(const DevicePattern& pattern, cudaStream_t stream,
                     PhaseTimes* times = nullptr) const {
    return search(pattern, stream, times);
  }

 private:
  virtual StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                              PhaseTimes* times) const = 0;
};

}  // namespace tessera
