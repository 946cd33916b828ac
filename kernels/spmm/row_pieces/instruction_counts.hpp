// The lengths of the pieces of the machine code of multiply_row_parts and multiply_shares (CUDA
// 13.0, sm_90a), in instructions with those of memory. A lane has `values` columns of C.
#pragma once

#include "formats/base/check.hpp"
#include "kernels/spmm/row_pieces/schedule.hpp"

namespace tessera::row_pieces {

/// The lengths of an instance. Of row parts they differ by the lanes of a unit only where these are
/// groups.
struct CodeLengths {
  int begin;        // until the loop over nonzeros, for any unit
  int enter;        // before the first pass, where there is one
  int step;         // of a pass in which no row of a share ends
  int staging;      // more for the next kStagedNonzeros, in a pass
  int end;          // behind the loop, until the sums are delivered
  int row_end = 0;  // of a share: more for a row that ends in a pass
};

namespace code {

constexpr int kIdle = 30;  // a warp without a unit
/// Cycles beyond two an instruction until a warp has found its unit, which divides the number of
/// its thread block: the stall counts, and 25 for each wait for a constant, a special register or a
/// conversion of the division.
constexpr int kUnitCycles = 250;
/// Of the launch that clears rows: a warp with its load, the loop over the stores that are left
/// behind the last four, one of these, and the loops over four and more.
constexpr int kClear = 38, kClearFew = 9, kClearStore = 12, kClearFours = 27, kClearFour = 6;
constexpr int kHeadRow = 36;   // less for the end of a row whose sums a share keeps until its end
constexpr int kFirstMore = 8;  // around the loop over further rows that end with the same nonzero
constexpr int kRowPass = 54;   // a pass of that loop
constexpr int kFirstPart = 5;  // to ask whether the first row part of a share has a slot

/// To store the sums of a row, or to add them in memory. `vectors` of those of a lane are in C.
constexpr int write(int values, bool adds, int vectors) {
  if (values == 8) return vectors > 1 ? 39 : 28;
  return (values == 1 ? 18 : values == 2 ? 20 : 22) - (adds ? values == 4 ? 3 : 2 : 0);
}
/// To leave the sums of a part in its slot. Units that share a warp find their lanes by a vote.
constexpr int meet(const UnitShape& shape) {
  const bool shared = shape.unit_lanes() < 32;
  if (shape.streams) return (shape.values == 1 ? 48 : shape.values == 2 ? 51 : 53) + 9 * shared;
  return 44 + shape.values + 5 * shared;
}
/// For the last part to finish, to add the sums of all parts, four at a time.
constexpr int fold(int values, int parts) {
  const int fours = (parts - 1) / 4;
  return 20 + values + (fours > 0 ? 2 + (11 + 8 * values) * fours : 0) +
         (parts - 1) % 4 * (5 + 2 * values);
}

/// By values, then unroll: 1, 2, 4, 8 and 4, 8, 16.
constexpr CodeLengths of_row_parts(const UnitShape& shape) {
  const int u = shape.unroll, v = shape.values;
  switch (shape.delivery) {
    case NonzeroDelivery::kBroadcastLoads:
      if (u == 16) return {.begin = 56, .enter = 7, .step = 264, .staging = 0, .end = 4};
      if (u == 8) return {.begin = 51, .enter = 4, .step = 139, .staging = 0, .end = 7};
      return {.begin = 50, .enter = 7, .step = 73, .staging = 0, .end = 7};
    case NonzeroDelivery::kWarpShuffles: {
      const int step = v == 4   ? (u == 16  ? 412
                                   : u == 8 ? 197
                                            : 113)
                       : v == 2 ? (u == 16  ? 330
                                   : u == 8 ? 152
                                            : 81)
                                : (u == 16  ? 273
                                   : u == 8 ? 129
                                            : 68);
      return {.begin = 57,
              .enter = v == 1 ? 8 : 7,
              .step = step,
              .staging = v == 1 ? 13 : 15,
              .end = 6};
    }
    case NonzeroDelivery::kSharedMemory: {
      const int step = v == 8   ? (u == 8 ? 233 : 127)
                       : v == 4 ? (u == 8 ? 147 : 88)
                       : v == 2 ? (u == 8 ? 120 : 66)
                                : (u == 8 ? 106 : 60);
      return {.begin = v == 8   ? 61
                       : v == 4 ? 59
                       : v == 2 ? 58
                                : 56,
              .enter = v > 2 ? 6 : 8,
              .step = step,
              .staging = v > 2 ? 25 : 23,
              .end = v == 8 ? 7 : 6};
    }
    case NonzeroDelivery::kLoadsPerGroup: {
      const int sums = shape.groups == 4    ? 28
                       : shape.groups == 8  ? 39
                       : shape.groups == 16 ? 46
                                            : 50;
      return {.begin = 43, .enter = 17, .step = 97, .staging = 0, .end = sums};
    }
  }
  return {};
}

constexpr CodeLengths of_shares(const UnitShape& shape) {
  const bool eight = shape.unroll == 8;
  if (shape.delivery == NonzeroDelivery::kBroadcastLoads)
    return eight
               ? CodeLengths{.begin = 99,
                             .enter = 4,
                             .step = 248,
                             .staging = 0,
                             .end = 19,
                             .row_end = 70}
               : CodeLengths{
                     .begin = 97, .enter = 7, .step = 129, .staging = 0, .end = 13, .row_end = 70};
  if (shape.values == 4)
    return eight ? CodeLengths{.begin = 104,
                               .enter = 6,
                               .step = 260,
                               .staging = 29,
                               .end = 20,
                               .row_end = 69}
                 : CodeLengths{.begin = 101,
                               .enter = 6,
                               .step = 144,
                               .staging = 26,
                               .end = 18,
                               .row_end = 69};
  if (shape.values == 2)
    return eight
               ? CodeLengths{.begin = 102,
                             .enter = 6,
                             .step = 221,
                             .staging = 29,
                             .end = 14,
                             .row_end = 51}
               : CodeLengths{
                     .begin = 99, .enter = 6, .step = 124, .staging = 25, .end = 13, .row_end = 51};
  return eight ? CodeLengths{.begin = 94,
                             .enter = 7,
                             .step = 203,
                             .staging = 27,
                             .end = 13,
                             .row_end = 45}
               : CodeLengths{
                     .begin = 96, .enter = 7, .step = 115, .staging = 25, .end = 13, .row_end = 45};
}

constexpr CodeLengths of(const UnitShape& shape) {
  return shape.streams ? of_shares(shape) : of_row_parts(shape);
}

}  // namespace code
}  // namespace tessera::row_pieces
