// The rows of a matrix in another order, on the device: the counterpart of permute_rows() in
// formats/base/permutation.hpp, for an order that was found on the GPU and stays there. Every
// builder packs what it returns.
#pragma once

#include "formats/gpu/gpu_format.hpp"

namespace tessera {

/// P A and its memory, built in the order of the stream.
class GpuPermuted {
 public:
  /// Row p is row old_of_new[p] of the matrix. `old_of_new` [rows] is a permutation on the device,
  /// which nothing checks. Does not wait; both have to live until the stream has done the work.
  GpuPermuted(const DeviceCsr& matrix, const std::int32_t* old_of_new, cudaStream_t stream);

  const DeviceCsr& view() const { return view_; }

 private:
  StreamBuffer row_offsets_, col_indices_, values_;
  DeviceCsr view_;
};

}  // namespace tessera
