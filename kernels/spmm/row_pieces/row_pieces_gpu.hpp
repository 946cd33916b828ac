// The part of the device half that needs no device code: arrays and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "formats/base/params.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/row_pieces/row_pieces.hpp"

namespace tessera::row_pieces {

struct KernelArguments {
  const RowPart* row_parts;     // [row parts]
  const std::uint32_t* shares;  // [num_units + 1], or none
  std::uint32_t num_units;
  std::uint32_t blocks_of_units;
  const SplitRow* split_rows;              // [num_split_rows]
  const std::uint32_t* split_row_of_slot;  // [num_slots]
  std::int64_t num_split_rows, num_slots;
  float* slots;             // see slot_offset
  std::uint32_t* arrivals;  // [chunks][num_split_rows], zero between launches
  bool atomic;
  const std::int32_t* col_indices;  // [nnz], zeros behind: four are loaded at a time
  const float* values;
  std::int64_t n;
  const float* b;
  float* c;
  Scaling scaling;
};

using Kernel = void (*)(KernelArguments);

/// The compiled instances of a kernel for one UnitShape.
struct KernelInstances {
  Kernel aligned;  // for rows of B and C aligned to `width` floats
  Kernel any;      // for any rows
  int width;       // floats of a load or store
};

/// Finds the instances in the table of a kernel. Throws Unsupported for a shape without one.
using SelectInstances = KernelInstances (*)(const UnitShape& shape);

/// The device half of the kernel `method`.
std::unique_ptr<GpuSpmm> make_gpu_spmm(Method method, SelectInstances select);

}  // namespace tessera::row_pieces
