// The options of flash_sddmm, its schedule and its work, for its host and its device half.
//
// A TC block of S is 8 rows of 16 vectors, which a warp computes transposed: rows of Y are the left
// operand of its MMAs, rows of X the right one. A lane loads the word of each operand that it
// multiplies: 4 bytes, so that four lanes side by side read 16 bytes of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/me_bcrs.hpp"
#include "kernels/host_device.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "kernels/work.hpp"

namespace tessera::flash_sddmm {

constexpr int kWarps = 4;          // of a thread block, a TC block each
constexpr int kWindowRows = 8;     // the height of a vector
constexpr int kBlockVectors = 16;  // of a TC block
constexpr int kStepBytes = 16;     // of a row of X or Y in an MMA
constexpr int kUnroll = 4;         // MMAs whose operands are loaded together
constexpr std::uint32_t kNoPlace = 0xffffffff;

/// Registers allocated for a thread (CUDA 13.0, sm_90a).
constexpr int kRegisters = 32;

/// Vectors [first, last) of a window, at most kBlockVectors.
struct alignas(16) Block {
  std::uint32_t window, first, last, unused;
};

struct FlashSddmmOptions : sddmm::SddmmOptions {
  explicit FlashSddmmOptions(const Params& params);

  /// Products of an MMA: 4 in TF32, 8 in FP16 and BF16.
  int depth() const { return kStepBytes / bytes(); }
  std::int64_t mmas(std::int64_t k) const { return (k + depth() - 1) / depth(); }

  Precision precision;
};

/// The TC blocks of S, in the order of their windows. Throws Unsupported for vectors of another
/// height than 8.
std::vector<Block> blocks_of(const MeBcrs& a);

/// The place in S of each cell of each vector, or kNoPlace. [vectors * kWindowRows]
std::vector<std::uint32_t> places_of(const MeBcrs& a, const CsrMatrix& csr);

/// The work of a product with an X and a Y of k columns. It refers to `a`.
WorkDescription describe_work(const MeBcrs& a, const FlashSddmmOptions& options, std::int64_t k);

}  // namespace tessera::flash_sddmm
