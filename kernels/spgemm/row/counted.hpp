// Instructions and registers of row_spgemm's launches, a struct per kernel, for the traces: what
// the source alone does not show. Compiled by CUDA 13.0 for sm_90a. Memory accesses, shuffles and
// barriers are not included, because the traces name them one by one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/spgemm/row/schedule.hpp"

namespace tessera::row_spgemm::tracing::counted {

// Launches over rows and over all tasks: instructions of turns counted in PTX, of which about seven
// in ten remain in the machine code, and of beginnings and ends solved for from an H200's counters
// of five products (experiments/results/simulator/spgemm_launches.csv has what is left); registers
// as compiled.

/// for_rows_of_warp(): before the rows side by side, and before each row that needs the warp.
struct RowsOfWarp {
  static constexpr int kWholeWarp = 16, kShuffles = 3;
  static constexpr int side_by_side(int lanes) { return lanes == kWarpLanes ? 18 : 37; }
};

/// describe_rows_of_b(). A turn is one nonzero per lane.
struct DescribeRowsOfB {
  static constexpr int kBegin = 27, kTurn = 35, kStep = 5, kShuffles = 4, kFinish = 24, kStore = 1;
  static constexpr int registers(int lanes) { return lanes < 16 ? 30 : 28; }
};

/// measure_rows_of_b().
struct MeasureRowsOfB {
  static constexpr int kAll = 15, kRegisters = 16;
};

/// analyse_rows().
struct AnalyseRows {
  static constexpr int kBegin = 35, kTurn = 12, kReduced = 4, kReduce = 2, kSmallPlan = 26,
                       kPlan = 115, kCut = 165, kStore = 16, kFinish = 50, kOfRow = 10;
  static constexpr int registers(int lanes) { return lanes == kWarpLanes ? 32 : 43; }
};

/// cut_rows(): for a row, its first task and each further one.
struct CutRows {
  static constexpr int kRow = 18, kPlace = 121, kFirstTask = 8, kTask = 12, kRegisters = 30;
};

/// sort_by_marks() and sort_by_sums().
struct SortTasks {
  static constexpr int kAll = 66, kPlaces = 12;
  static constexpr int registers(bool is_sum) { return is_sum ? 17 : 18; }
};

/// place_tasks(), without sort_block().
struct PlaceTasks {
  static constexpr int kBegin = 135, kTiles = 6, kShuffles = 20, kRegisters = 32;
};

/// gather_offsets().
struct GatherOffsets {
  static constexpr int kAll = 26, kRegisters = 16;
};

/// mark_class() and sum_class() of a task that is not small.
constexpr int class_instructions(bool is_sum) { return is_sum ? 40 : 32; }

/// count_small() and make_small_sums(), in PTX as above.
struct SmallTasks {
  static constexpr int kBegin = 10, kRow = 12, kPlace = 35, kFindBit = 5, kCompare = 18, kSum = 18,
                       kTurn = 10, kStore = 10;
  static constexpr int registers(int task_class, bool is_sum) {
    constexpr std::array<int, kSmallSizes> kCount{21, 29, 31}, kMake{27, 32, 32};
    const auto size = static_cast<std::size_t>(task_class);
    return is_sum ? kMake[size] : kCount[size];
  }
};

/// count_all() and make_all_sums(), with the registers of their largest class.
constexpr int joint_registers(bool is_sum) { return is_sum ? 64 : 59; }

// Launches over tasks that are not small: a warp's instructions counted in machine code, a thread
// block's in PTX.

/// kPrefetch chunks or steps: once for all, and for each chunk or step of 32 products or words.
struct Fetch {
  int all, each;
};

/// count_columns() and make_sums(): the walk over segments.
struct GroupTasks {
  static constexpr int kBegin = 56, kRowOfA = 16, kNextSet = 20, kScan = 28, kEndOfSet = 13,
                       kGap = 16, kStage = 22, kFetchSegment = 5, kSearch = 30;
  static constexpr Fetch kWordChunks{33, 27}, kProductChunks{126, 26};
  static constexpr Fetch kWordSteps{12, 14}, kProductSteps{25, 23};
  static constexpr int kTurn = 7, kSum = 4;
  /// A step through long segments, and 32 sums at the places of their columns: counted in the
  /// source.
  static constexpr int kLongStep = 14, kCopyMarked = 14;
  /// Of a warp that counts a task with a directory, by the class's size: what the pieces here lack
  /// of the counters of finan512 and coauthor_phy. Those have four sizes; larger ones are taken to
  /// lack as much as the fourth.
  static constexpr std::array<int, kSizes> kDirectory{125, 185, 220, 280, 280, 280, 280, 280, 280};
  static constexpr int kColumn = 9, kWrite = 14, kCopy = 10, kEnd = 4;
  static constexpr int kCount = 5, kFinishCount = 33, kAddCounts = 9;

  static constexpr int registers(const GroupLaunch& launch, bool has_directory, bool is_sum) {
    if (is_sum) return launch.is_block() ? 64 : has_directory ? 56 : 48;
    if (!launch.is_block()) return has_directory ? 40 : 36;
    if (launch.lanes == 256) return 48;
    return has_directory ? 55 : 49;
  }
};

/// Marks, ranks and sums of a group in shared memory.
struct SharedMemory {
  static constexpr int kClear = 14, kClearOne = 5, kClearFour = 6;
  static constexpr int kBefore = 22, kBeforeWarps = 2, kRankRound = 6;
  static constexpr int kMarkTest = 2, kMarkWord = 13, kMark = 12, kMarkInWord = 17;
  static constexpr int kRank = 7, kRankInWord = 14;
  static constexpr int kTurns = 9, kCompare = 25, kMatch = 12, kAdd = 1;
};

}  // namespace tessera::row_spgemm::tracing::counted
