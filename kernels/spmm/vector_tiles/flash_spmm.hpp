// What flash_spmm can be told; its host and its device half both go by this.
#pragma once

#include "formats/base/params.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"

namespace tessera::flash_spmm {

enum class Conversions { kAuto, kConverted, kAsIs };

struct FlashSpmmOptions {
  explicit FlashSpmmOptions(const Params& params);

  Precision precision;
  bool staged;
  bool mapped;
  int stages;   // 0: by their size
  int columns;  // of a warp; 0: by the width of C
  Conversions conversions;
  std::int64_t max_vectors;  // of a task; 0: windows are not split
  bool atomic;

  bool is_fp16() const { return precision.conversion == Conversion::kFp16; }
  window_tasks::Tasks tasks(const vector_tiles::Vectors& a) const;
  /// Throws Unsupported for TC blocks that the precision's MMAs are not deep enough for.
  vector_tiles::Plan plan(const vector_tiles::Vectors& a, std::int64_t n) const;

 private:
  vector_tiles::Operand operand(const vector_tiles::Vectors& a, std::int64_t n) const;
};

}  // namespace tessera::flash_spmm
