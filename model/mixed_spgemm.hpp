// Our model of three paths to C = A B, all three sparse: row_spgemm, merge_spgemm and tile_spgemm,
// by what they are to do and what the device does at best.
//
// A time is the sum of its parts, for their stages follow each other: launches and host waits at
// the measured cost of a launch; bytes at the measured bandwidths (what one kernel reads of another
// at that of the L2, C and lists at that of writing to DRAM); MMAs at the measured rate;
// instructions of warps at the measured rate of issue; and where a warp has to wait for each load
// before it knows the next, such loads at the latency of the L2. What the kernels have to issue for
// a product, a pair of tiles, a nonzero or a tile of C, how many such loads there are, and what a
// wait costs beyond its launches, is not known from their source: these numbers (Effort) are a
// least-squares fit of relative errors to times on one H200, 17 matrices by rows, four by merging
// (rows of A that a warp merges at once) and 10 by tiles in each precision, stage by stage
// (notebooks/mixed_spgemm_fit.py). So they hold stalls, too, and no other device has been tried.
// Allocations are left out: times are with memory from a pool.
#pragma once

#include <string>

#include "kernels/work.hpp"
#include "model/device.hpp"
#include "model/model.hpp"

namespace tessera::mixed_model {

/// What was fitted. Instructions are of warps, for one of what they are named after.
struct Effort {
  // row_spgemm
  double wait_of_rows_us = 25.86;  // each of 3, the last for C
  double product = 1.553;
  double nonzero_of_c = 23.88;
  double nonzero_of_a = 14.47;

  // merge_spgemm
  double wait_of_merge_us = 33.16;  // each of 2
  double merged_column = 77.71;

  // tile_spgemm, before and beside the multiplication
  double wait_of_tasks_us = 15.39, wait_of_tiles_us = 29.07, wait_of_cells_us = 19.3;
  double converted_nonzero = 12.06, converted_tile = 185.4;
  double loads_of_nonzero = 0.3511, loads_of_tile = 4.398;  // of the longest, one after another
  double tile_row_as_task = 658, tile_as_task = 7.196;
  double counted_tile = 11.63;  // of C, as those below
  double tile_product = 12.1, listed_tile = 31.08;
  double loads_of_tile_products = 1.807;  // of 32 of the largest tile row
  double pair_in_cells = 8.142, tile_in_cells = 130;

  // The multiplication, by precision.
  struct Multiplication {
    double pair, tile_of_c;
  };
  Multiplication fp16 = {50.99, 616.9}, tf32 = {58.78, 407.9}, tf32x3 = {64.96, 511.6};
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
