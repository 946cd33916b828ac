// The schedule of the kernels over vectors of V x 1: the compiled instances, the task and the
// columns of C of every warp, and the layout of their stages. The device code, the work description
// and the warp trace read it.
//
// A task is a row window, or a part of one; a warp takes one task for `groups` times 32 columns.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>

#include "kernels/host_device.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera::vector_tiles {

constexpr int kWarps = 4;  // of a thread block
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupCols = window_tile::kWarpCols;  // columns of C of two MMAs
constexpr int kMmasPerGroup = 2;
constexpr int kMaxStages = 4;

/// The type of the MMA's operands, and of the rows of B where a warp gathers them.
enum class Operand {
  kTf32,      // B in FP32, as the caller gives it
  kFp16AsIs,  // B in FP32; lanes round it to FP16 after they have loaded it
  kFp16,      // B in FP16, in a workspace
  kInt8,      // B in INT8, in a workspace
};

/// Bytes of an element of the gathered rows of B.
constexpr int b_bytes(Operand operand) {
  return operand == Operand::kInt8 ? 1 : operand == Operand::kFp16 ? 2 : 4;
}
/// Bytes of a value of A.
constexpr int a_bytes(Operand operand) {
  return operand == Operand::kInt8 ? 1 : operand == Operand::kTf32 ? 4 : 2;
}
constexpr bool has_workspace(Operand operand) {
  return operand == Operand::kFp16 || operand == Operand::kInt8;
}

/// Columns of the gathered rows of B, where B has n: whole sectors in a workspace.
constexpr std::int64_t gathered_cols(Operand operand, std::int64_t n) {
  if (!has_workspace(operand)) return n;
  const std::int64_t whole = 32 / b_bytes(operand);
  return (n + whole - 1) / whole * whole;
}

/// The path of rows of B to the lanes that multiply them.
enum class Pipeline {
  kStaged,     // asynchronous copies of whole rows to shared memory
  kRegisters,  // straight to registers (FlashSparse)
};

/// A compiled instance of the product. kInstances lists all of them: it decides what is legal and
/// what is launched.
struct Instance {
  Pipeline pipeline;
  Operand operand;
  int depth;      // vectors of a TC block
  bool mapped;    // a lane's four columns are neighbours
  int groups;     // of 32 columns of C, of a warp
  int registers;  // of a thread, as the hardware allocates them, with aligned operands (sm_90a)
};

constexpr std::array kInstances{
    Instance{Pipeline::kStaged, Operand::kTf32, 4, true, 1, 48},
    Instance{Pipeline::kStaged, Operand::kTf32, 4, true, 2, 64},
    Instance{Pipeline::kStaged, Operand::kTf32, 4, true, 4, 112},
    Instance{Pipeline::kStaged, Operand::kTf32, 8, true, 1, 56},
    Instance{Pipeline::kStaged, Operand::kTf32, 8, true, 2, 72},
    Instance{Pipeline::kStaged, Operand::kTf32, 8, true, 4, 112},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 8, true, 1, 56},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 8, true, 2, 72},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 8, true, 4, 112},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 16, true, 1, 72},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 16, true, 2, 96},
    Instance{Pipeline::kStaged, Operand::kFp16AsIs, 16, true, 4, 120},
    Instance{Pipeline::kStaged, Operand::kFp16, 8, true, 1, 48},
    Instance{Pipeline::kStaged, Operand::kFp16, 8, true, 2, 64},
    Instance{Pipeline::kStaged, Operand::kFp16, 8, true, 4, 112},
    Instance{Pipeline::kStaged, Operand::kFp16, 16, true, 1, 56},
    Instance{Pipeline::kStaged, Operand::kFp16, 16, true, 2, 80},
    Instance{Pipeline::kStaged, Operand::kFp16, 16, true, 4, 112},
    Instance{Pipeline::kStaged, Operand::kInt8, 32, true, 1, 64},
    Instance{Pipeline::kStaged, Operand::kInt8, 32, true, 2, 80},
    Instance{Pipeline::kStaged, Operand::kInt8, 32, true, 4, 112},
    Instance{Pipeline::kRegisters, Operand::kTf32, 4, true, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kTf32, 4, false, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kTf32, 8, true, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kTf32, 8, false, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kFp16AsIs, 8, true, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kFp16AsIs, 8, false, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kFp16AsIs, 16, true, 1, 56},
    Instance{Pipeline::kRegisters, Operand::kFp16AsIs, 16, false, 1, 56},
    Instance{Pipeline::kRegisters, Operand::kFp16, 8, true, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kFp16, 8, false, 1, 40},
    Instance{Pipeline::kRegisters, Operand::kFp16, 16, true, 1, 48},
    Instance{Pipeline::kRegisters, Operand::kFp16, 16, false, 1, 40},
};

/// True where some instance has this pipeline with or without the map.
constexpr bool has_instance(Pipeline pipeline, bool mapped) {
  return std::ranges::any_of(kInstances, [&](const Instance& instance) {
    return instance.pipeline == pipeline && instance.mapped == mapped;
  });
}
/// The vectors of the deepest MMA of an operand type.
constexpr int deepest(Operand operand) {
  int depth = 0;
  for (const Instance& instance : kInstances)
    if (instance.operand == operand) depth = std::max(depth, instance.depth);
  return depth;
}
/// The instance with these choices, or null where there is none.
constexpr const Instance* find_instance(Pipeline pipeline, Operand operand, int depth, bool mapped,
                                        int groups) {
  const auto* found = std::ranges::find_if(kInstances, [&](const Instance& instance) {
    return instance.pipeline == pipeline && instance.operand == operand &&
           instance.depth == depth && instance.mapped == mapped && instance.groups == groups;
  });
  return found == kInstances.end() ? nullptr : found;
}

/// Bytes from one row of a stage to the next, for elements of `element_bytes`. Rows begin with
/// whole sectors, because cp.async reads a sector twice that it takes apart, and four rows one
/// after another have the same columns in different banks.
constexpr int row_pitch(int element_bytes, int groups) {
  return (groups * kGroupCols * element_bytes + 127) / 128 * 128 + 32;
}
constexpr int row_pitch(Operand operand, int groups) { return row_pitch(b_bytes(operand), groups); }
constexpr int stage_bytes(Operand operand, int depth, int groups) {
  return depth * row_pitch(operand, groups);
}

/// The row of a stage that holds vector k of a TC block, where a register of an operand holds
/// `pack` values along the depth. The rows that lanes 4g + t read at once, pack t + i, become rows
/// one after another.
TESSERA_HOST_DEVICE constexpr int row_in_stage(int k, int pack) {
  const int of_four = 4 * pack;
  return k / of_four * of_four + k % pack * 4 + k % of_four / pack;
}

/// Values of a lane in the slot of a part of a split window: four for each of two rows and 32
/// columns.
constexpr int slot_vectors(int groups) { return 2 * groups; }
/// Bytes of a slot.
constexpr std::int64_t slot_bytes(int groups) {
  return std::int64_t{16} * 32 * slot_vectors(groups);
}

/// A task and the chunk of columns of C that it is multiplied for.
struct WarpItem {
  std::uint32_t task, chunk;
};

/// The item of a warp of a launch over num_tasks tasks; it has no work where `task` is not below
/// num_tasks. All tasks of one chunk of columns come before those of the next, so that the part of
/// B gathered at a time is narrower than B and stays in the L2.
TESSERA_HOST_DEVICE constexpr WarpItem item_of(std::uint32_t thread_block, std::uint32_t warp,
                                               std::uint32_t num_tasks) {
  const std::int64_t index = std::int64_t{thread_block} * kWarps + warp;
  const std::uint32_t padded = (num_tasks + kWarps - 1) / kWarps * kWarps;
  const auto chunk = static_cast<std::uint32_t>(index / padded);
  return {static_cast<std::uint32_t>(index - std::int64_t{chunk} * padded), chunk};
}

/// The launch of an instance for a B of n columns.
struct Schedule {
  Instance instance;
  int stages;  // in shared memory, of a warp
  std::int64_t num_tasks, n;

  constexpr std::int64_t chunk_cols() const { return std::int64_t{instance.groups} * kGroupCols; }
  constexpr std::int64_t chunks() const { return (n + chunk_cols() - 1) / chunk_cols(); }
  constexpr std::int64_t first_col(std::int64_t chunk) const { return chunk * chunk_cols(); }
  constexpr std::int64_t thread_blocks() const {
    return (num_tasks + kWarps - 1) / kWarps * chunks();
  }
  constexpr WarpItem item_of(std::int64_t thread_block, int warp) const {
    return vector_tiles::item_of(static_cast<std::uint32_t>(thread_block),
                                 static_cast<std::uint32_t>(warp),
                                 static_cast<std::uint32_t>(num_tasks));
  }
  /// Shared memory of a thread block.
  constexpr std::int64_t shared_bytes() const {
    if (instance.pipeline == Pipeline::kRegisters) return 0;
    return std::int64_t{kWarps} * stages *
           stage_bytes(instance.operand, instance.depth, instance.groups);
  }
};

/// Groups of 32 columns of a warp: `columns` of them, or, where that is 0, by the width of C.
constexpr int groups_for(std::int64_t n, int columns) {
  if (columns != 0) return columns / kGroupCols;
  return n <= 32 ? 1 : n <= 64 ? 2 : 4;
}

/// Stages of a warp: `requested`, or, where that is 0, few that keep enough bytes in flight.
constexpr int stages_for(int requested, Operand operand, int depth, int groups) {
  if (requested != 0) return requested;
  return stage_bytes(operand, depth, groups) >= 4096 ? 2 : 3;
}

/// The launches that convert B: a warp takes several rows at a time where they are short, and four
/// columns a lane.
struct ConversionSchedule {
  static constexpr int kWarps = 8;  // of a thread block
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kLaneCols = 4;

  std::int64_t rows;
  int lanes;  // of a row: a power of two

  constexpr ConversionSchedule(std::int64_t b_rows, std::int64_t padded_cols)
      : rows(b_rows),
        lanes(static_cast<int>(std::min<std::uint64_t>(
            32, std::bit_ceil(static_cast<std::uint64_t>(padded_cols) / kLaneCols)))) {}

  /// Rows of a warp of which each takes `lanes` lanes.
  TESSERA_HOST_DEVICE static constexpr int rows_of_warp(int lanes) { return 32 / lanes; }
  /// The first row of a warp.
  TESSERA_HOST_DEVICE static constexpr std::int64_t first_row(std::uint32_t thread_block,
                                                              std::uint32_t warp, int lanes) {
    return (std::int64_t{thread_block} * kWarps + warp) * rows_of_warp(lanes);
  }

  constexpr int rows_of_warp() const { return rows_of_warp(lanes); }
  constexpr int rows_of_block() const { return kWarps * rows_of_warp(); }
  constexpr std::int64_t thread_blocks() const {
    return (rows + rows_of_block() - 1) / rows_of_block();
  }
};

}  // namespace tessera::vector_tiles
