// Instructions and registers of tile_spgemm's launches, counted in machine code, CUDA 13.0, sm_90a;
// approximate for the scaling of FP16 sums. The counts exclude what the traces list one by one:
// memory accesses, shuffles and barriers.
#pragma once

#include "kernels/spgemm/tile/schedule.hpp"

namespace tessera::tile_spgemm::tracing {

/// Clearing shared memory, and prefix sums over a thread block, in all launches.
struct CountedSlots {
  static constexpr int kClear = 24, kClearRound = 3, kPrefixSum = 27;
};

struct CountedFillTiles {
  static constexpr int registers(TileArithmetic arithmetic) {
    return arithmetic == TileArithmetic::kFp16 ? 31 : 32;
  }
  static constexpr int kScale = 37, kBegin = 142, kRowBegins = 21, kEnd = 8;
  /// One round of a thread's nonzeros, a load that it lacks, a nonzero, one that it lacks.
  static constexpr int kRound = 22, kNoLoad = 1, kNonzero = 9, kNoNonzero = 4;
  static constexpr int kMark = 11, kRank = 24, kColumn = 9;
  static constexpr int kBatch = 20, kFind = 15, kBit = 28, kFirstValue = 29;
  static constexpr int kValue = 46, kScaledValue = 6, kSecondOrder = 24;
};

struct CountedMakeTasks {
  static constexpr int kRegisters = 40;
  static constexpr int kBegin = 26, kRound = 70, kReduce = 14, kCut = 157, kReserve = 59,
                       kSlice = 25;
};

/// A walk over the pairs of a task's columns.
struct CountedPairs {
  int each, bits;                    // once; for each number of lanes tried
  int factors, active, end;          // for each set of factors of a warp; where they have tiles
  int tiles;                         // for one tile of each lane
  static constexpr int kNoNext = 2;  // instead of loading the next tiles
};

/// Marking and ranking the tile columns of a task.
struct CountedMarks {
  CountedPairs pairs;
  int mark, rank_begin, rank_round;
};

/// Loading factors to shared memory, in both launches over tasks.
struct CountedFactors {
  static constexpr int kBegin = 8, kLoad = 28, kCut = 22, kSearch = 9;
};

struct CountedCountCells {
  static constexpr int kRegisters = 40;
  static constexpr int kTask = 48, kNextTask = 9, kColumns = 6;
  static constexpr CountedMarks kMarks{
      .pairs = {.each = 26, .bits = 6, .factors = 10, .active = 11, .end = 5, .tiles = 31},
      .mark = 9,
      .rank_begin = 26,
      .rank_round = 13};
  static constexpr CountedPairs kCells{
      .each = 29, .bits = 6, .factors = 10, .active = 13, .end = 7, .tiles = 31};
  static constexpr int kRank = 14, kJoin = 73;
  static constexpr int kCount = 32, kTile = 4, kFinish = 30, kStore = 22;
};

struct CountedMakeSums {
  static constexpr int kRegisters = 64;
  static constexpr int kTask = 20, kNextTask = 9, kRow = 17, kSlices = 12, kSlice = 6;
  static constexpr int kValues = 21, kOneTile = 18, kFourTiles = 62, kNoValues = 1;
  static constexpr CountedMarks kMarks{
      .pairs = {.each = 29, .bits = 6, .factors = 9, .active = 11, .end = 2, .tiles = 31},
      .mark = 9,
      .rank_begin = 22,
      .rank_round = 11};
  static constexpr CountedPairs kCells{
      .each = 21, .bits = 6, .factors = 14, .active = 11, .end = 8, .tiles = 31};
  static constexpr CountedPairs kPairs{
      .each = 25, .bits = 6, .factors = 10, .active = 13, .end = 8, .tiles = 32};
  static constexpr int kColumns = 12, kPass = 8, kRank = 14, kJoin = 82;
  static constexpr int kCols = 6, kSlot = 11, kColumn = 13, kOtherColumn = 9;
  static constexpr int kPlace = 45, kTileCells = 4, kCellsOfLane = 43, kOtherWarps = 10,
                       kTilePlace = 6;
  static constexpr int kCount = 20;
  static constexpr int kList = 8, kEndOfListStep = 9, kPad = 12, kFind = 15, kListPair = 14;
  static constexpr int kAdd = 8, kSearch = 8, kSearchStep = 10, kOwnTiles = 7, kNextList = 4;
  static constexpr int kTile = 6, kNextPairs = 8, kStage = 51, kGroups = 4, kEvenGroups = 3,
                       kNoPair = 2;
  static constexpr int kStore = 12, kLaneCells = 21, kValue = 12, kUnscale = 55;
  static constexpr int kEndOfPass = 12, kRowBegins = 9, kEndOfColumns = 9;

  /// A loop over listed groups of pairs: its begin, one group, two groups at once.
  struct Groups {
    int begin, one, two;
  };
  static constexpr Groups groups(TileArithmetic arithmetic) {
    if (arithmetic == TileArithmetic::kFp16) return {7, 46, 89};
    return arithmetic == TileArithmetic::kTf32 ? Groups{13, 28, 52} : Groups{13, 38, 73};
  }
};

}  // namespace tessera::tile_spgemm::tracing
