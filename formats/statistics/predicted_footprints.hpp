// The bytes of packed forms by their closed forms, from a few counts of A: what a table of
// footprints needs without packing anything.
//
// Each formula is the extents of that format's header added up; Acc-SpMM section 3.3 prints the one
// of BitTCF's index, 4 (ceil(M / 8) + 11 TC blocks + 2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

constexpr int kSrBcrsStride = 16;  // vectors a window of sr_bcrs is padded to a multiple of

/// What a format would take for A. Explicit zeros count as nonzeros; the list of them that
/// padding formats keep is not counted.
struct PredictedFootprint {
  std::string format;
  std::int64_t index_bytes = 0;
  std::int64_t bytes = 0;  // with values
};

/// What the closed forms are over.
struct PackedExtents {
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  std::int64_t vectors_8 = 0;     // active columns of all 8-row windows
  std::int64_t strides_8x16 = 0;  // groups of 16 of them, a window's last one padded
  std::int64_t tc_blocks_8 = 0;   // 8 x 8
  std::int64_t tc_blocks_16 = 0;  // 16 x 8
};

/// csr (64-bit row offsets), csr32, tcf (16-row windows), me_tcf (16 x 8), "me_tcf_8x8", bit_tcf,
/// me_bcrs (8 x 1 vectors) and sr_bcrs (8 x 1 vectors in strides of 16).
std::vector<PredictedFootprint> predicted_footprints(const PackedExtents& extents);

}  // namespace tessera
