// Our cost models of row_spgemm, merge_spgemm and tile_spgemm (C = A B, all three sparse): their
// time from the counts that the kernels publish (SpgemmKernel::count_work) and the rates that the
// device reaches. mixed_spgemm chooses by them; each is registered as a CostModel under its
// kernel's name.
//
// A time is the sum of its parts, because a kernel's stages run one after another:
//   - launches and host waits, at the measured cost of a launch;
//   - bytes, at measured bandwidths: that of the L2 for data that one kernel reads from another,
//   that
//     of writing to DRAM for C and tiles;
//   - MMAs, at the measured rate;
//   - instructions of warps, at the measured issue rate;
//   - chains of dependent loads, at the latency of the L2: in the longest row, and in the largest
//     task, whose thread block ends last.
// The source does not tell how many instructions the kernels issue for a product, a pair of tiles,
// a nonzero or a scan of columns of C, how many loads depend on each other, or what a wait costs
// beyond its launches. These numbers (Effort) are a least-squares fit of relative errors to times
// on one H200 (notebooks/mixed_spgemm_fit.py): 22 square matrices by rows and by tiles in each
// precision, tiles stage by stage, and four matrices by merging, whose rows of A a warp merges at
// once. The numbers therefore contain stalls, too. No other device has been tried. Times leave out
// allocations: the memory comes from a pool.
#pragma once

#include <string>

#include "formats/base/choice.hpp"
#include "model/device.hpp"
#include "model/model.hpp"

namespace tessera::mixed_model {

/// The fitted numbers. Instructions are those of warps, per item of the name; "loads" are those
/// that the slowest threads make one after another.
struct Effort {
  // row_spgemm
  double wait_of_rows_us = 10.74;  // for each of 3 waits, the last for C
  double product = 0.7853;
  double nonzero_of_c = 20.34;
  // Of rows of C that are mostly one long row of B; from one matrix, and not part of the fit.
  double nonzero_of_wide_row = 3.8;
  double nonzero_of_large_row = 118.4;  // of A; rows with few products need no bitmap
  double loads_of_nonzero = 1.412;      // of the longest row of A

  // merge_spgemm
  double wait_of_merge_us = 41.46;  // for the number of products, and for C where it is large
  double merged_column = 97.84;

  // tile_spgemm: making tiles
  double start_us = 8.81, scales_us = 4.467;           // scales_us for FP16 only
  double filled_tile_row = 2384, filled_tile = 49.54;  // of A, and of B where it is another matrix
  double loads_of_filling = 1.819;                     // for each nonzero that a thread visits

  // tile_spgemm: counting the cells of C
  double counting_scan = 2622, counting_tile = 98.81;  // for each scan, for each tile scanned
  double counted_product = 1.87;                       // of tiles
  double loads_of_counting = 8.206;                    // for a thread's share of the largest task

  // tile_spgemm: the multiplication
  double summing_scan = 4854, summing_tile = 387.2;
  double long_pair = 150.9;  // in long tile rows of A, beside the effort of any pair
  double loads_of_summing = 100.2;
  // A tile of C takes the effort of three pairs.
  double pair_in_fp16 = 59.19, pair_in_tf32 = 44.49, pair_in_tf32x3 = 53.73;
};

/// C by row_spgemm, from that kernel's counts. Throws Unsupported for a device whose file lacks a
/// rate, an Error for a count that is absent.
Prediction predict_rows(const WorkCounts& counts, const Device& device, const Effort& effort = {});

/// C by merge_spgemm, where a warp merges each row of A at once. Throws as predict_rows() does.
Prediction predict_merge(const WorkCounts& counts, const Device& device, const Effort& effort = {});

/// C by tile_spgemm in the precision "fp16", "tf32" or "tf32x3" (an Error for any other). Throws as
/// predict_rows() does.
Prediction predict_tiles(const WorkCounts& counts, const std::string& precision,
                         const Device& device, const Effort& effort = {});

}  // namespace tessera::mixed_model
