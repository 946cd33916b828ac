// The device half of a kernel on pieces of rows but for its device code: arrays and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "formats/base/params.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::row_pieces {

/// A product, as the device code sees it.
struct KernelArguments {
  const Piece* pieces;
  const std::uint32_t* shares;  // [num_units + 1], or none
  std::uint32_t num_units;
  std::uint32_t blocks_of_units;
  const Split* splits;                 // [num_splits]
  const std::uint32_t* split_of_slot;  // [num_slots]
  std::int64_t num_splits, num_slots;
  float* slots;             // [chunks][num_slots][columns]
  std::uint32_t* arrivals;  // [chunks][num_splits] zero between launches
  bool atomic;
  const std::int32_t* col_indices;  // groups may be loaded beyond the last nonzero
  const float* values;
  std::int64_t n;
  const float* b;
  float* c;
  Scaling scaling;
};

using Kernel = void (*)(KernelArguments);

/// Instances of a kernel for one Shape.
struct Kernels {
  Kernel aligned;  // rows of B and C come in pieces of `width` floats
  Kernel any;
  int width;
};

/// Picks them; the shape has the values that the kernel's parameters allow.
using Pick = Kernels (*)(const Shape& shape);

std::unique_ptr<GpuSpmm> make_gpu_spmm(Method method, Pick pick);

}  // namespace tessera::row_pieces
