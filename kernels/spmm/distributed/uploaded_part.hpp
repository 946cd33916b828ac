// A part of A on the device, with the algorithm that multiplies it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "formats/base/params.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/storage.hpp"

namespace tessera {

struct UploadedPart {
  std::unique_ptr<GpuMultiplication> gpu;
  std::int64_t bytes = 0;
  int algorithm = 0;
};

/// A packed matrix for any B of n columns. Throws Unsupported for a kernel without a device half,
/// and as its upload() does.
UploadedPart upload_part(const std::string& kernel, const Params& params,
                         const PackedMatrix& packed, std::int64_t n);

/// Prepares the fastest of a library's algorithms, in products of memory that is freed afterwards,
/// for an A [rows x cols]; the only one of a kernel is prepared without a product. Returns its
/// name.
std::string choose_algorithm(UploadedPart& uploaded, std::int64_t rows, std::int64_t cols,
                             std::int64_t n, const Storage& storage);

}  // namespace tessera
