// The work of a kernel over TC blocks 16 rows high: what its thread blocks do, and its warp trace.
#pragma once

#include <memory>
#include <string>

#include "formats/me_tcf.hpp"
#include "formats/mosaic.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/work.hpp"

namespace tessera::window16_tile {

/// Instructions of a warp besides memory instructions and MMAs, counted in machine code.
struct WarpInstructions {
  int task_start, tile, group, copy;
};

/// The launch that multiplies.
struct TileLaunch {
  row_windows::Schedule schedule;
  int depth = 8;              // condensed columns of an MMA
  int mmas_per_product = 1;   // 3 where operands are split
  bool staged = true;         // rows of B are copied to shared memory, not loaded to registers
  int width = 4;              // floats of a row of B that a lane loads at once
  int stages;                 // of rows of B in shared memory
  bool double_buffer = true;  // a TC block of A is copied while the one before is multiplied
  // The packed A where lanes load their elements by its bitmaps, three steps ahead; null where
  // ME-TCF's are scattered into shared memory.
  const Mosaic* mosaic = nullptr;
  window_tasks::CombineMethod combine = window_tasks::CombineMethod::kOrdered;
  int registers = 0;  // of a thread
  std::int64_t shared_bytes = 0;
  WarpInstructions instructions;
};

/// The work of a product with a B of n columns, without the footprint of A. Its trace refers to the
/// packed A, and keeps `a`.
WorkDescription describe(const std::string& kernel, std::shared_ptr<const MeTcf> a, std::int64_t n,
                         std::shared_ptr<const window_tasks::Tasks> tasks,
                         const TileLaunch& launch);

}  // namespace tessera::window16_tile
