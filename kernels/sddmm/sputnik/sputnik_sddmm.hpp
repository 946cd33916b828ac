// The options of sputnik_sddmm, its schedule and its work, for its host and its device half.
//
// A strip is up to 32 nonzeros of a row side by side, and belongs to a subwarp of 8, 16 or 32
// lanes. A lane has four columns of every 4 x lanes of X and Y, and a sum for each nonzero of the
// strip.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/csr.hpp"
#include "kernels/host_device.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/work.hpp"

namespace tessera::sputnik_sddmm {

constexpr int kThreads = 128;              // of a thread block
constexpr int kStrip = 32;                 // nonzeros
constexpr int kLaneCols = 4;               // columns of X and Y of a lane: 16 bytes
constexpr int kUnroll = 8;                 // rows of Y that a subwarp has in flight
constexpr int kRegisters = 64;             // of a thread (CUDA 13.0, sm_90a)
constexpr std::int64_t kMaxGridY = 65535;  // CUDA's limit

/// Thread blocks that a work description lists at most.
constexpr std::int64_t kMostDescribed = std::int64_t{1} << 22;

/// One grid for all rows: as many strips for each as the longest row needs.
struct Schedule {
  int lanes;            // of a subwarp
  std::int64_t rows;    // of A
  std::int64_t strips;  // of the longest row

  static Schedule of(const CsrMatrix& a, std::int64_t k);

  constexpr int rows_per_block() const { return kThreads / lanes; }
  constexpr std::int64_t row_groups() const {
    return (rows + rows_per_block() - 1) / rows_per_block();
  }
  constexpr std::int64_t thread_blocks() const { return row_groups() * strips; }
};

/// The rows, the longest first; rows of one length in their order (row swizzle).
std::vector<std::int32_t> swizzled_rows(const CsrMatrix& a);

/// The work of a product with an X and a Y of k columns. It refers to `a`.
WorkDescription describe_work(const CsrMatrix& a, const sddmm::SddmmOptions& options,
                              std::int64_t k);

}  // namespace tessera::sputnik_sddmm
