// The options of acc_spmm, for its host and its device half.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/base/params.hpp"
#include "kernels/spmm/acc_spmm/schedule.hpp"
#include "kernels/spmm/acc_spmm/variants.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::acc_spmm {

using window_tasks::CombineMethod;

/// The work of a warp, or of a thread block that shares its buffers: its share.
enum class Balance {
  kCapped,      // a window, or a part of one that has more than max_blocks TC blocks
  kImbalanced,  // the same, where the imbalance (Acc-SpMM, equation 3) is above its threshold
  kAdaptive,    // there, TC blocks of equal time (equation 4), at most max_blocks; else a window
  kDtc,         // max_blocks TC blocks, wherever windows begin
  kNone,        // a window
};

struct AccSpmmOptions {
  /// Throws Unsupported for a combination without a compiled kernel (variants.hpp).
  explicit AccSpmmOptions(const Params& params);

  Precision precision;
  NonzeroEncoding encoding;
  Pipeline pipeline;
  Scope scope;  // of the buffers of least_bubble and dtc
  int stages;   // TC blocks of a warp in shared memory (staged)
  int columns;  // of C that a warp computes at a time (staged); 0: by the width of C
  Cache cache;
  Store store;
  Balance balance;
  std::int64_t max_blocks;  // TC blocks
  CombineMethod combine;

  /// "pipeline = staged, format = bit_tcf, ...": every option by the name of its parameter.
  std::string to_text() const;

  window_tasks::Tasks cut(window_tasks::WindowOffsets windows) const;
  row_windows::Schedule schedule(std::int64_t n) const;
  /// Shared memory of a thread block, in bytes, and the part of it that is dynamic.
  std::int64_t shared_bytes(std::int64_t n) const;
  std::int64_t dynamic_shared_bytes(std::int64_t n) const;
  /// The compiled kernel for these tasks, and a B and C of n columns.
  Variant variant(const window_tasks::Tasks& tasks, std::int64_t n, bool aligned) const;
};

std::vector<ParamSpec> params();

}  // namespace tessera::acc_spmm
