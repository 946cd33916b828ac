// The instructions and registers of rows_spmm, for its warp trace.
#pragma once

#include "kernels/spmm/rows/schedule.hpp"

namespace tessera::rows_spmm {

/// Instructions of a warp besides those of memory, counted in machine code (CUDA 13.0, sm_90a) for
/// aligned operands.
struct InstructionCounts {
  // Before the unit is loaded; meanwhile, to see what is to be fetched early and whether to wait
  // for the launch before; and with the unit.
  static constexpr int kStart = 11, kBegin = 29, kUnit = 41;
  static constexpr int kLoop = 4;                  // before the first step
  static constexpr int kNextTurn = 10;             // of a step that moves the lanes' nonzeros on
  static constexpr int kStep = 9;                  // of a step besides its nonzeros
  static constexpr int kLoadRow = 7, kAddRow = 5;  // of a nonzero of a step
  // Of a nonzero with eight columns of 16 bits instead of four: four more sums, eight conversions.
  static constexpr int kHalfColumns = 12;
  static constexpr int kEnd = 12, kStore = 28;
  static constexpr int kTeam = 5, kTeamUnit = 5;  // of the sums of a team: all units, each added
  static constexpr int kMeet = 17, kSlot = 26;    // of a split row: all warps, one leaves its sums
  static constexpr int kSlots = 30, kSlotStep = 125;  // to add slots: a warp, kUnroll of them

  /// Of a step that uses the nonzeros that the lanes have loaded and loads the next, if any.
  static constexpr int load_turn(int lanes, bool loads) {
    return lanes == kUnroll ? (loads ? 9 : 11) : (loads ? 19 : 15);
  }
};

/// The same of a unit that is a wide warp.
struct WideCounts {
  static constexpr int kTurn = 13;                        // of 32 nonzeros, besides its steps
  static constexpr int kFirst = 7, kStep = 5, kRest = 8;  // of all whole steps, of one, of the rest
  static constexpr int kAccess = 10;                      // of 16 bytes of C more than one

  static constexpr int loop(int wide) { return 15 + 4 * wide; }
  /// Of a nonzero: its shuffles, its address and its products.
  static constexpr int of_nonzero(const Schedule& schedule) {
    return 6 + schedule.lane_cols * (schedule.has_halves() ? 2 : 1);
  }
};

/// The same of a warp whose units are rows.
struct DirectCounts {
  static constexpr int kUnit = 45, kStep = 6, kRest = 9, kEnd = 6;
  // A unit that takes several rows needs these for each row but the first, and to look one up.
  static constexpr int kTurn = 40, kLookAhead = 20;

  /// Of a nonzero: its address and its products.
  static constexpr int of_nonzero(const Schedule& schedule) {
    return 4 + schedule.lane_cols * (schedule.has_halves() ? 2 : 1);
  }
};

/// The same of a warp whose units are in parts.
struct PartCounts {
  static constexpr int kUnit = 44, kLoop = 15;  // with the unit, and before the first turn
  static constexpr int kTurn = 14, kNext = 10;  // besides its step; to load the next one's nonzeros
  static constexpr int kShortStep = 33, kStep = 57;
  static constexpr int kLevel = 10;  // of the tree that adds the parts
};

/// The same for one column of C.
struct ColumnCounts {
  static constexpr int kUnit = 13, kTurn = 14;
  static constexpr int kOfNonzero = 6;  // of each that a lane has in flight
  static constexpr int kLevel = 2;
};

/// Registers of a thread (CUDA 13.0, sm_90a).
constexpr int registers_of(const Schedule& schedule) {
  if (schedule.turns > 1) return schedule.wide == 4 ? 64 : 46;
  if (schedule.direct) return schedule.wide == 1 ? 32 : schedule.wide == 4 ? 64 : 40;
  if (schedule.wide > 1) return 80;
  if (!schedule.in_parts()) return 64;
  return schedule.part_lanes() == 1 ? 40 : 48;
}

}  // namespace tessera::rows_spmm
