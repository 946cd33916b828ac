// The options of flash_spmm, which its host half and its device half share.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::flash_spmm {

/// The conversion of B to FP16: by a launch of its own, by the lanes that load it, or by whichever
/// should take less time.
enum class Conversions { kAuto, kConverted, kAsIs };

struct FlashSpmmOptions {
  using Packed = MeBcrs;  // the format that flash_spmm reads

  /// Throws Unsupported for a pipeline that has no instance with this map.
  explicit FlashSpmmOptions(const Params& params);

  Precision precision;
  vector_tiles::Pipeline pipeline;
  bool mapped;
  int stages;   // in shared memory, of a warp; 0: by their size
  int columns;  // of C, of a warp; 0: by the width of C
  Conversions conversions;
  std::int64_t max_vectors;  // of a task; 0: windows stay whole
  bool atomic;

  bool is_fp16() const { return precision.conversion == Conversion::kFp16; }
  window_tasks::Tasks tasks(const vector_tiles::Vectors& a) const;
  /// Throws Unsupported for TC blocks of a depth that no instance of the precision has.
  vector_tiles::Plan plan(const vector_tiles::Vectors& a, std::int64_t n) const;

 private:
  vector_tiles::Operand operand(const vector_tiles::Vectors& a, std::int64_t n) const;
};

}  // namespace tessera::flash_spmm
