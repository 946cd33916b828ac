// The work of a kernel over TC blocks 16 rows high: what its thread blocks do, and its warp trace.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/schedule.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/storage.hpp"
#include "kernels/work.hpp"

namespace tessera::window16_tile {

/// Instructions of a warp besides memory instructions and MMAs, counted in machine code.
struct WarpInstructions {
  int task_start, tile, group, copy;
  int store, store_group;      // of sums to C: once, and for each group of 32 columns
  int prefetch = 0;            // of A, besides those of a TC block
  int add = 0, add_group = 0;  // of atomics, besides
  int first_copy = 0,
      copies = 0;  // more for the rows of B of a TC block, at a task's start and later
  int warp = 0;    // before its first task, besides those of all kernels
};

/// Bytes of A's positions in the packed form: one for each nonzero (ME-TCF), or a bitmap for each
/// TC block.
struct PositionBytes {
  int position = 1;  // of a nonzero
  int bitmap = 0;    // of a TC block
};

/// The launch that multiplies.
struct TileLaunch {
  row_windows::Schedule schedule;
  int depth = 8;              // condensed columns of an MMA
  int mmas_per_product = 1;   // 3 where operands are split
  bool staged = true;         // rows of B are copied to shared memory, not loaded to registers
  int width = 4;              // floats of a row of B that a lane loads at once; 4: 16 bytes
  int stages;                 // of rows of B in shared memory
  Storage storage = {};       // of B and C
  bool double_buffer = true;  // a TC block of A is copied while the one before is multiplied
  PositionBytes bytes = {};
  bool prefetch = false;  // A is prefetched into the L1
  window_tasks::CombineMethod combine = window_tasks::CombineMethod::kOrdered;
  int registers = 0;  // of a thread
  std::int64_t shared_bytes = 0;
  bool overlaps = false;  // the launch before it
  WarpInstructions instructions;

  /// Bytes of an element.
  int b_bytes() const { return static_cast<int>(bytes_of(storage.b)); }
  int c_bytes() const { return static_cast<int>(bytes_of(storage.c)); }
};

/// The addresses of a product's arrays.
struct Addresses {
  Addresses(const MeTcf& a, const window_tasks::Tasks& tasks, std::int64_t n,
            const TileLaunch& launch, AddressSpace& space);

  std::uint64_t tasks, shares, slots, windows, offsets, positions, sparse_a_to_b, values, b, c;
};

/// As describe(), with the addresses `at` that the trace of the last launch wants.
WorkDescription describe_without_trace(const std::string& kernel, const MeTcf& a, std::int64_t n,
                                       const std::shared_ptr<const window_tasks::Tasks>& tasks,
                                       const TileLaunch& launch, std::optional<Addresses>& at);

/// The work of a product with a B of n columns, without the footprint of A. `Trace` is the kernel's
/// TileTrace (window16_trace.hpp), which keeps `a`.
template <class Trace>
WorkDescription describe(const std::string& kernel, std::shared_ptr<const MeTcf> a, std::int64_t n,
                         std::shared_ptr<const window_tasks::Tasks> tasks,
                         const TileLaunch& launch) {
  std::optional<Addresses> at;
  WorkDescription work = describe_without_trace(kernel, *a, n, tasks, launch, at);
  work.launches.back().trace =
      std::make_unique<Trace>(std::move(a), n, launch, std::move(tasks), *at);
  return work;
}

}  // namespace tessera::window16_tile
