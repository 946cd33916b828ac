// The options of tall_spmm, for its host and its device half.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/narrowed/narrowed_spmm.hpp"
#include "kernels/spmm/tall/schedule.hpp"
#include "kernels/storage.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::tall_spmm {

class TallSpmmOptions {
 public:
  explicit TallSpmmOptions(const Params& params);

  Storage storage() const { return storage_; }
  /// Whether B is in FP32 and multiplied so, on CUDA cores.
  bool is_wide() const { return storage_.b == ElementType::kFp32; }
  /// Of the MMAs, which a wide product has none of.
  const Precision& precision() const { return precision_; }
  Plan plan(std::span<const std::uint32_t> window_offset, std::int64_t n) const {
    return make_plan(window_offset, n, max_tiles_);
  }

 private:
  Storage storage_;
  Precision precision_;
  std::int64_t max_tiles_;  // of a task; 0: by the matrix
};

std::vector<ParamSpec> params();

/// Whether a B in FP32 is narrowed.
bool is_narrowed(const Params& params);

/// tall_spmm with B in FP16, and on CUDA cores for what cannot be narrowed.
narrowed::Recipe narrowed_recipe(const Params& params);

}  // namespace tessera::tall_spmm
