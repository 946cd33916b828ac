// Our model of three paths to C = A B, all three sparse: row_spgemm, merge_spgemm and tile_spgemm,
// by what they are to do and what the device does at best.
//
// A time is the sum of its parts, for their stages follow each other: launches and host waits at
// the measured cost of a launch; bytes at the measured bandwidths (what one kernel reads of another
// at that of the L2, C and tiles at that of writing to DRAM); MMAs at the measured rate;
// instructions of warps at the measured rate of issue; and where a warp has to wait for each load
// before it knows the next, such loads at the latency of the L2: of the longest row, and of the
// largest task, whose thread block ends last. What the kernels have to issue for a product, a pair
// of tiles, a nonzero or a look at some of C's columns, how many such loads there are, and what a
// wait costs beyond its launches, is not known from their source: these numbers (Effort) are a
// least-squares fit of relative errors to times on one H200, 22 square matrices by rows and by
// tiles in each precision, four by merging (rows of A that a warp merges at once), tiles stage by
// stage (notebooks/mixed_spgemm_fit.py). So they hold stalls, too, and no other device has been
// tried. Allocations are left out: times are with memory from a pool.
#pragma once

#include <string>

#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/model.hpp"

namespace tessera::mixed_model {

/// What was fitted. Instructions are of warps, for one of what they are named after; "loads" are
/// those that the slowest threads make one after another.
struct Effort {
  // row_spgemm
  double wait_of_rows_us = 10.74;  // each of 3, the last for C
  double product = 0.7853;
  double nonzero_of_c = 20.34;
  double nonzero_of_large_row = 118.4;  // of A; rows of a few products need no bitmap
  double loads_of_nonzero = 1.412;      // of the longest row of A

  // merge_spgemm
  double wait_of_merge_us = 41.46;  // for the number of products, and for C where they are many
  double merged_column = 97.84;

  // tile_spgemm's tiles
  double start_us = 8.81, scales_us = 4.467;           // the latter of FP16
  double filled_tile_row = 2384, filled_tile = 49.54;  // of A, and of B where it is another
  double loads_of_filling = 1.819;                     // of a nonzero that a thread sees

  // Its cells, counted.
  double counting_look = 2622, counting_tile = 98.81;  // of every look, of every tile looked at
  double counted_product = 1.87;                       // of tiles
  double loads_of_counting = 8.206;                    // of a thread's share of the largest task

  // The multiplication.
  double summing_look = 4854, summing_tile = 387.2;
  double long_pair = 150.9;  // in long tile rows of A, beside what any pair takes
  double loads_of_summing = 100.2;
  double pair_in_fp16 = 59.19, pair_in_tf32 = 44.49, pair_in_tf32x3 = 53.73;  // a tile of C is as
                                                                              // much as three
};

/// C by row_spgemm. Throws Unsupported for a device whose file lacks a rate.
Prediction predict_rows(const SparseProductFigures& figures, const Device& device,
                        const Effort& effort = {});

/// C by merge_spgemm, where no row of A has more nonzeros than a warp has lanes. Likewise.
Prediction predict_merge(const SparseProductFigures& figures, const Device& device,
                         const Effort& effort = {});

/// C by tile_spgemm; the precision is "fp16", "tf32" or "tf32x3". Likewise.
Prediction predict_tiles(const SparseProductFigures& figures, const std::string& precision,
                         const Device& device, const Effort& effort = {});

}  // namespace tessera::mixed_model
