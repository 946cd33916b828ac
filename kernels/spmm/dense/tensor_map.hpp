// The tensor map of B: how bulk copies find its lines (CUDA Driver API, "Tensor Map Object
// Management"). The driver's function is looked up at its first use, so that the program starts on
// hosts without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "formats/base/device_memory.hpp"
#include "kernels/spmm/dense/schedule.hpp"

namespace tessera::dense_spmm {

/// The map of a row-major B of `rows` x `cols` elements, at a multiple of 16 bytes as all of its
/// rows, in boxes of a line of a stage, swizzled by 128 bytes.
inline CUtensorMap tensor_map(const void* b, std::int64_t rows, std::int64_t cols,
                              const Schedule& schedule) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    constexpr unsigned kVersion = 12000;  // of CUDA, the first with this function
    cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                                cudaEnableDefault, &found),
               "looking up cuTensorMapEncodeTiled");
    require<Unsupported>(found == cudaDriverEntryPointSuccess,
                         "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(function);
  }();
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(cols * schedule.element_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(schedule.line_cols()),
                            static_cast<cuuint32_t>(schedule.stage_depth())};
  const cuuint32_t every[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map,
             schedule.element_bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                         : CU_TENSOR_MAP_DATA_TYPE_UINT16,
             2, const_cast<void*>(b), extents, row_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("the driver makes no tensor map of a B of {} x {}: {}",
                                         rows, cols, static_cast<int>(result)));
  return map;
}

}  // namespace tessera::dense_spmm
