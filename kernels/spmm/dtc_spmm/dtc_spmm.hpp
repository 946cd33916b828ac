// The options of dtc_spmm and its compiled kernels, for its host and its device half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/dtc_spmm/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"

namespace tessera::dtc_spmm {

using window_tasks::CombineMethod;

/// How rows of B reach the warps.
enum class Fetch {
  kStaged,  // whole rows to shared memory, by asynchronous copies
  kFloat,   // to registers, by loads of one, two or four floats a lane
  kFloat2,
  kFloat4,
};

/// The number of floats of a row of B that a lane loads at once.
TESSERA_HOST_DEVICE constexpr int width_of(Fetch fetch) {
  return fetch == Fetch::kFloat ? 1 : fetch == Fetch::kFloat2 ? 2 : 4;
}

/// One compiled kernel.
struct Variant {
  int depth;  // condensed columns of an MMA: 4 or 8
  Fetch fetch;
  bool aligned;  // rows of B and C begin at multiples of 16 bytes
  int groups;    // groups of 32 columns of a warp
  int team;      // warps side by side in C that share a TC block of A

  friend constexpr bool operator==(const Variant&, const Variant&) = default;
};

/// The kernel for operands that are not aligned: loads are of single floats.
constexpr Variant without_alignment(Variant variant) {
  variant.aligned = false;
  if (variant.fetch != Fetch::kStaged) variant.fetch = Fetch::kFloat;
  return variant;
}

/// Every kernel with MMAs of `depth` condensed columns.
constexpr auto list_variants(int depth) {
  constexpr struct { int groups, team; } kShapes[] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}};
  // Single floats are loaded in the same way whether operands are aligned or not.
  constexpr struct {
    Fetch fetch;
    bool aligned;
  } kFetches[] = {{Fetch::kStaged, true},
                  {Fetch::kStaged, false},
                  {Fetch::kFloat4, true},
                  {Fetch::kFloat2, true},
                  {Fetch::kFloat, false}};
  std::array<Variant, 25> variants = {};
  std::size_t count = 0;
  for (const auto& shape : kShapes)
    for (const auto& each : kFetches)
      variants[count++] = {depth, each.fetch, each.aligned, shape.groups, shape.team};
  return variants;
}

struct DtcSpmmOptions {
  explicit DtcSpmmOptions(const Params& params);

  int depth;  // condensed columns of an MMA
  Fetch fetch;
  bool split;          // the warps of a thread block share TC blocks of A and split C's columns
  bool double_buffer;  // a TC block of A is copied while the one before is multiplied
  bool strict;         // equal shares of TC blocks
  std::int64_t max_blocks;  // TC blocks of a share
  CombineMethod combine;

  /// "mma = m16n8k4, fetch = staged, ...": every option by the name of its parameter.
  std::string to_text() const;

  row_windows::Schedule schedule(std::int64_t n) const;
  /// Tasks with shares; without balance, each share is a window. Throws an Error for windows of
  /// other than 16 rows.
  window_tasks::Tasks cut(const MeTcf& a) const;
  /// Shared memory of a thread block, in bytes.
  std::int64_t shared_bytes(std::int64_t n) const;
  /// The compiled kernel for a B and C of n columns.
  Variant variant(std::int64_t n, bool aligned) const;
};

std::vector<ParamSpec> params();

}  // namespace tessera::dtc_spmm
