// The schedule of rows_spmm: how a row is cut into pieces, which lanes take a piece and which
// columns of C. The device code, the emulation, the work description and the warp trace read it.
//
// A unit is some lanes side by side, four columns of C each, and takes one piece of a row. Where C
// is wide and rows are short, lanes have eight or sixteen columns. Where C is narrow, the lanes are
// in parts, each with all columns, which take nonzeros side by side; their sums meet in a tree. The
// units of a row are its team: 1, 2, 4, ... of a thread block, whose teams have one size. A row
// that needs more units than a thread block has takes several thread blocks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace tessera::rows_spmm {

constexpr int kThreads = 256;      // of a thread block
constexpr int kUnroll = 8;         // rows of B that a unit has in flight
constexpr int kShortStep = 4;      // of the last step of a warp whose units have no more left
constexpr int kFewLanes = 8;       // of a unit that has columns for all; with fewer it is in parts
constexpr int kPartUnroll = 4;     // rows of B that a part of a unit has in flight
constexpr int kShortPartStep = 2;  // of a part, where the warp's units have no more left
constexpr int kMaxPiece = 65535;   // nonzeros; 16 bits count them
constexpr std::int64_t kMaxGridX = 0x7fffffff, kMaxGridY = 65535;  // CUDA's limits of a grid

/// Thread blocks of an SM that the registers have to suffice for. `wide` is 1 or, of units that are
/// warps, also 2 or 4 times 16 bytes of a row of B that a lane loads.
TESSERA_HOST_DEVICE constexpr int resident(int lanes, int parts, int wide) {
  return parts == lanes ? 6 : lanes / parts < kFewLanes ? 5 : wide == 1 ? 4 : 3;
}

/// The same where every lane loads all nonzeros of its row, for thread blocks of the most threads
/// that such a launch has, and the rows of B that a lane then has in flight; 16 bytes of B have
/// `access_cols` columns. With registers for 1536 instead of 1280 threads of two accesses an SM, DD
/// takes 112 us instead of 119 at N = 128, recon-mc2depi 174 instead of 182, wave 85 instead of 89.
TESSERA_HOST_DEVICE constexpr int most_direct_threads(int wide) {
  return wide == 4 ? 2 * kThreads : kThreads;
}
TESSERA_HOST_DEVICE constexpr int resident_direct(int wide) {
  return wide == 1 ? 8 : wide == 4 ? 2 : 6;
}
TESSERA_HOST_DEVICE constexpr int direct_in_flight(int access_cols, int wide) {
  return access_cols == 8 && wide == 2 ? 1 : 2;
}

/// The same for units that take several rows one after another.
TESSERA_HOST_DEVICE constexpr int turning_threads(int wide) {
  return wide == 4 ? 2 * kThreads : kThreads;
}
TESSERA_HOST_DEVICE constexpr int resident_turning(int wide) { return wide == 4 ? 2 : 5; }

/// The columns of a lane that teams add at a time.
TESSERA_HOST_DEVICE constexpr int team_pass(int lane_cols) { return lane_cols < 8 ? lane_cols : 8; }

/// Shared memory of a thread block: those sums of each thread, and a flag.
constexpr std::int64_t shared_bytes(int lane_cols) {
  return 4 * team_pass(lane_cols) * kThreads + 1;
}

/// A piece of a row. The device code reads it, too.
struct alignas(16) Unit {
  std::uint32_t row;    // or kNoRow, where the thread block has more units than pieces
  std::uint32_t first;  // nonzero
  std::uint32_t split;  // 0, or 1 + the index of the row among those of several thread blocks
  std::uint16_t count;  // nonzeros
  std::uint16_t team;   // units of the row in this thread block
};
constexpr std::uint32_t kNoRow = 0xffffffff;

/// A row of several thread blocks. Each of them leaves its sums in the slot of its own number: they
/// are the first of the grid.
struct SplitRow {
  std::uint32_t first_slot, num_slots;
};

/// The units of a row: `team` of each of its thread blocks.
struct RowCut {
  std::int64_t team, thread_blocks;

  constexpr std::int64_t pieces() const { return team * thread_blocks; }
};

/// The nonzero with which piece `piece` of `pieces` of a row begins.
constexpr std::int64_t piece_begin(std::int64_t row_length, std::int64_t pieces,
                                   std::int64_t piece) {
  return row_length * piece / pieces;
}

/// The first slot that unit `unit` of the last thread block of a split row adds; the next unit's is
/// where its slots end.
TESSERA_HOST_DEVICE constexpr std::uint32_t first_slot_of(std::uint32_t num_slots, int units,
                                                          int unit) {
  return static_cast<std::uint32_t>(std::uint64_t{num_slots} * static_cast<unsigned>(unit) /
                                    static_cast<unsigned>(units));
}

/// The launch that multiplies by a B of n columns: thread blocks along the grid's first dimension
/// share the columns of C. The part of B that is gathered at a time is then narrower than B.
struct Schedule {
  int lanes = 32;            // of a unit: 8, 16 or 32; in parts 2, 8, 16 or 32
  int parts = 1;             // of a unit: 1, 2, 4, ..., at most one for each lane
  std::int64_t piece = 1;    // most nonzeros of a unit
  int lane_cols = 4;         // columns of C of a lane, `wide` times 16 bytes of B
  int wide = 1;              // 1, 2 or 4; of units that are warps, or direct
  bool direct = false;       // a unit is a row, of which every lane loads all nonzeros
  int threads = kThreads;    // of a thread block; another number only where direct
  int turns = 1;             // rows that a unit takes one after another; more only where direct
  bool has_offsets = false;  // columns are read as offsets of 16 bits, if the matrix allows it

  constexpr int units_per_block() const { return threads / lanes; }
  constexpr int units_per_warp() const { return 32 / lanes; }
  /// The units, or rows, that a thread block takes.
  constexpr int taken_by_block() const { return units_per_block() * turns; }
  /// The thread blocks that a chunk of columns has for `units` units, or rows.
  constexpr std::int64_t blocks_of(std::int64_t units) const {
    return (units + taken_by_block() - 1) / taken_by_block();
  }
  constexpr int part_lanes() const { return lanes / parts; }
  constexpr bool in_parts() const { return !direct && part_lanes() < kFewLanes; }
  /// True with elements of B of 16 bits.
  constexpr bool has_halves() const { return lane_cols == 8 * wide; }
  /// The rows of B that a unit without parts has in flight.
  constexpr int rows_in_flight() const { return kUnroll / wide; }
  /// The nonzeros that a unit in parts has in flight.
  constexpr int part_turn() const { return kPartUnroll * parts; }
  constexpr int columns() const { return lane_cols * part_lanes(); }
  constexpr std::int64_t chunks(std::int64_t n) const { return (n + columns() - 1) / columns(); }

  /// A row that needs at most the units of a thread block has the next power of two of them.
  constexpr RowCut cut(std::int64_t row_length) const {
    const std::int64_t pieces = std::max<std::int64_t>((row_length + piece - 1) / piece, 1);
    const std::int64_t most = units_per_block();
    if (pieces > most) return {most, (pieces + most - 1) / most};
    return {static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(pieces))), 1};
  }
};

/// SMs of an H200. The number is a constant, so that results do not depend on the GPU.
constexpr std::int64_t kSms = 132;
constexpr std::int64_t kLeastPiece = 16, kMostPiece = 64;  // nonzeros, where the matrix decides
constexpr std::int64_t kShortRows = 16;                    // nonzeros on average

/// The lanes of a unit for at most 16 columns of C.
constexpr int lanes_of_few(std::int64_t rows, std::int64_t nnz, std::int64_t n, int lanes,
                           int access_cols) {
  const bool two_lanes = access_cols == 4 && n <= 8;
  if (lanes > 2 || (lanes == 2 && two_lanes)) return lanes;
  return two_lanes && nnz <= kShortRows * rows ? 2 : 8;
}

/// True where wide warps are faster than those of 128 columns.
///
/// A unit has a fixed cost, and so has a nonzero: its shuffles and its address. A wide warp pays
/// them once for 256 or 512 columns. In return, more bytes of B are in use at a time, and a row of
/// B that comes again later is in no cache any more. On an H200 at N = 512, 512 columns took 0.61
/// to 0.97 of the time of 128 on eleven matrices of at most 13.6 nonzeros a row (and more than
/// 80,000 in all), and 0.74 to 0.90 on five of 38 to 44 whose longest row has at most four times
/// the average: neighbours of a mesh or a lattice have neighbouring nonzeros. They took 1.06
/// to 1.11 times that of 128 on four of 14.4 and more nonzeros a row some of whose rows are far
/// longer, and 1.06 to 1.21 times on four of fewer rows or nonzeros than fill the wide warps that
/// an H200 holds. 256 columns at N = 256 took 0.76 to 0.97, 0.82 to 0.88, 1.00 to 1.05 and 1.17
/// times.
constexpr bool wide_pays(std::int64_t rows, std::int64_t nnz, std::int64_t longest_row) {
  constexpr std::int64_t kWideShortRows = 14, kLongestOverAverage = 4;
  constexpr std::int64_t held = kSms * resident(32, 1, 2) * (kThreads / 32);
  if (rows < held || nnz < kLeastPiece * held) return false;
  return nnz <= kWideShortRows * rows || longest_row * rows <= kLongestOverAverage * nnz;
}

/// How many times 16 bytes of a row of B a lane of a warp has: for `columns` of C at most or, where
/// those are 0, for `gathered` columns or the kernel's most, if that pays. At N = 260, which is one
/// of 512 or two of 256, the one took 0.66 to 0.90 of the time. Where rows of C are not aligned, a
/// lane accesses single columns, and at N = 515 chunks of 512 took up to 1.38 times the time of
/// 256.
constexpr int width_of(std::int64_t rows, std::int64_t nnz, std::int64_t longest_row,
                       std::int64_t n, std::int64_t columns, std::int64_t gathered,
                       int access_cols) {
  const std::int64_t one = 32 * access_cols, most = access_cols == 4 ? 4 : 2;
  if (columns == 0)
    columns = n % access_cols == 0 && wide_pays(rows, nnz, longest_row)
                  ? std::min(most * one, gathered)
                  : one;
  int wide = 1;
  while (wide < most && wide * one < n && 2 * wide * one <= columns) wide *= 2;
  return wide;
}

/// Where columns are read as offsets, for at most 16 columns of C and units of more than two lanes.
enum class Offsets { kByMatrix, kWhereTheyFit, kNever };

/// Whether the lanes of a unit of more than 16 columns share its nonzeros or load all of them.
enum class Nonzeros { kByMatrix, kShared, kDirect };

/// What the caller fixes of a schedule.
struct ScheduleChoice {
  std::int64_t piece = 0;    // most nonzeros of a unit; 0: by the matrix
  std::int64_t columns = 0;  // of C, at most, of a warp of more than 16; 0: by the matrix
  // Of C, at most, that all thread blocks multiply at a time, where `columns` is 0.
  std::int64_t gathered = std::int64_t{1} << 40;
  Nonzeros nonzeros = Nonzeros::kByMatrix;
  // Rows as they are have a launch of their own beside one of pieces, where it pays.
  bool mixes = true;
  int few_lanes = 0;  // of a unit of at most 16 columns: 2, 8, 16 or 32; 0: by the matrix
  int turns = 0;      // rows of a unit that is a row: 1, 2 or 4; 0: by the matrix
  Offsets offsets = Offsets::kByMatrix;
};

/// The most nonzeros of a unit of a schedule that has all but those.
///
/// On an H200, pieces of 16 were fastest for small matrices at N = 32, of 32 at N = 128, and of 64
/// for large ones: a unit has a fixed cost, and units that are too few or too long keep the others
/// waiting. The goal is four pieces for each unit that an H200 holds. In a small matrix the units
/// of a long row add longer than others multiply: its pieces are of 32 at least.
///
/// With at most 16 columns, a row of 33 to 64 nonzeros is one piece of 64 without a team to add it,
/// and its lanes have twice the loads in flight. Where rows have that length on average and are
/// enough for two thread blocks of an SM, such pieces (with offsets) took 0.75 to 0.96 of the time
/// of 32 at N = 1, and 0.80 to 0.97 at N = 8. On longer, shorter or fewer rows they brought nothing
/// or up to 9 % more.
constexpr std::int64_t piece_of(const Schedule& schedule, std::int64_t rows, std::int64_t nnz,
                                std::int64_t longest_row, std::int64_t n) {
  constexpr std::int64_t kPiecesPerUnit = 4, kLongRow = 256, kShareOfNonzeros = 1000;
  const std::int64_t per_block = schedule.units_per_block();
  const std::int64_t held =
      kSms * resident(schedule.lanes, schedule.parts, schedule.wide) * per_block;
  const std::int64_t goal = nnz * schedule.chunks(n) / (kPiecesPerUnit * held);
  const bool is_long = longest_row > kLongRow && longest_row * kShareOfNonzeros > nnz;
  const bool whole_rows = schedule.in_parts() && schedule.lanes > 2 && !is_long &&
                          nnz > kMostPiece / 2 * rows && nnz <= kMostPiece * rows &&
                          rows >= 2 * kSms * per_block;
  if (whole_rows) return kMostPiece;
  const std::int64_t turn = schedule.in_parts() ? schedule.part_turn() : schedule.lanes;
  const std::int64_t least = std::max<std::int64_t>(turn, is_long ? 2 * kLeastPiece : kLeastPiece);
  const std::int64_t chosen = std::max(std::min(goal, kMostPiece), least);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(chosen)));
}

/// True where a unit of a schedule reads columns as offsets, if they fit.
///
/// Offsets take two bytes of eight from a nonzero and add the load of a unit's first column. On an
/// H200 they took 0.88 to 0.92 of the time at N = 1 on two matrices of long rows and pieces of 64,
/// and up to 1.14 times on others with pieces of 32.
constexpr bool has_offsets(const Schedule& schedule, Offsets offsets, std::int64_t rows,
                           std::int64_t nnz, std::int64_t n) {
  if (n > 16 || schedule.lanes == 2 || offsets == Offsets::kNever) return false;
  return offsets == Offsets::kWhereTheyFit ||
         (schedule.piece >= kMostPiece && nnz > kShortRows * rows);
}

/// The longest row of a matrix whose units are rows: one piece of any schedule.
constexpr std::int64_t kLongestDirect = kMostPiece;

/// The launches of a product: units of the first are pieces of rows, those of the second rows as
/// they are. One of them may have no rows.
struct Launches {
  Schedule pieces = {}, direct = {};
  std::int64_t most_direct = -1;  // nonzeros of a row that is multiplied as it is

  constexpr bool is_direct(std::int64_t row_length) const { return row_length <= most_direct; }
  constexpr const Schedule& of(std::int64_t row_length) const {
    return is_direct(row_length) ? direct : pieces;
  }
};

/// The schedule where units are rows, for chunks of n columns of C at most: half the lanes of
/// others, of which each has two accesses.
constexpr Schedule direct_schedule(std::int64_t n, int access_cols) {
  // Four lanes are compiled for elements of 16 bits.
  Schedule schedule{.lanes = access_cols == 8 && n <= 4 * access_cols ? 4
                             : n <= 16 * access_cols                  ? 8
                             : n <= 32 * access_cols                  ? 16
                                                                      : 32,
                    .parts = 1,
                    .piece = kLongestDirect,
                    .wide = n <= 8 * access_cols                       ? 1
                            : access_cols == 4 && n > 64 * access_cols ? 4
                                                                       : 2,
                    .direct = true};
  schedule.lane_cols = access_cols * schedule.wide;
  return schedule;
}

/// What the schedules of a product depend on.
struct RowStatistics {
  std::int64_t rows = 0, nnz = 0, longest = 0;

  constexpr void add(std::int64_t length) {
    ++rows, nnz += length, longest = std::max(longest, length);
  }
};

/// True where units are rows, of which every lane loads all nonzeros.
///
/// With few nonzeros a row, what a unit costs besides them decides: its entry in a list of 16
/// bytes, two turns of shuffles, shared memory that the L1 then lacks. On an H200 this took 0.63 to
/// 0.86 of the time at N = 128 on six matrices of 2 to 13.6 nonzeros a row, 0.91 to 0.95 at N =
/// 512, and on matrices of 39 and more 0.88 to 1.3 times. A row is not cut: the steps of the
/// longest one, of 0.55 us each, have to take less time than all rows of B at 9 TB/s.
constexpr bool is_direct(std::int64_t rows, std::int64_t nnz, std::int64_t longest_row,
                         std::int64_t n, const ScheduleChoice& choice, int access_cols) {
  constexpr std::int64_t kStepNs = 550, kBytesOfNs = 9000;
  if (n <= 16 || longest_row > kLongestDirect) return false;
  if (choice.nonzeros != Nonzeros::kByMatrix) return choice.nonzeros == Nonzeros::kDirect;
  if (nnz > kShortRows * rows || choice.piece != 0 || choice.columns != 0) return false;
  const int in_flight = direct_in_flight(access_cols, direct_schedule(n, access_cols).wide);
  return kStepNs * longest_row / in_flight <= nnz * n * (16 / access_cols) / kBytesOfNs;
}

/// Rows that a unit of FP32 takes one after another, where units are rows.
///
/// A row's begin is looked up before its columns, and these before its rows of B; a unit that takes
/// several rows looks ahead. On an H200 (ab5ca04, beside d39a19b) recon-mc2depi (4 nonzeros a row)
/// takes 0.96 and 0.95 of the time at N = 128 and 512, DD (5) 0.98 and 0.96, delaunay_n15 (6) 0.96
/// at N = 512, luxembourg_osm (2) 1.00 and 1.01; at N = 32 DD took 1.15. In a program of this loop
/// alone wave (13.6) took 1.0 to 1.2. The last thread blocks take as much longer: there have to be
/// enough of them, but where rows are wide.
constexpr int turns_of(std::int64_t rows, std::int64_t nnz, const Schedule& of_rows) {
  constexpr std::int64_t kFewNonzeros = 6;
  if (of_rows.has_halves() || of_rows.wide == 1 || nnz > kFewNonzeros * rows) return 1;
  const std::int64_t least_waves = of_rows.wide == 4 ? 1 : 3;
  Schedule turning = of_rows;
  turning.threads = turning_threads(of_rows.wide);
  for (turning.turns = 4; turning.turns > 1; turning.turns /= 2)
    if (turning.blocks_of(rows) >= least_waves * kSms * resident_turning(of_rows.wide)) break;
  return turning.turns;
}

/// Threads of a thread block whose units are rows of FP32. Small ones make room sooner for the
/// next, large ones find more of their rows of B in the L1. In a program of this loop alone, with
/// 128 threads instead of 256, DD and recon-mc2depi, of 5 and 4 nonzeros a row, take 0.97 and 0.95
/// of the time at N = 128 and 0.97 and 0.99 at N = 512, finan512 (8) 0.99 and 1.03, wave
/// (13.6) 1.00 and 1.10. With 512 threads, wave takes 0.95 of the time of 256 at N = 512, finan512
/// 1.01.
constexpr int threads_of_rows(std::int64_t rows, std::int64_t nnz, const Schedule& of_rows) {
  constexpr std::int64_t kFewNonzeros = 6, kManyNonzeros = 11;
  if (of_rows.has_halves()) return kThreads;
  if (of_rows.wide == 4 && nnz >= kManyNonzeros * rows) return most_direct_threads(of_rows.wide);
  return of_rows.columns() <= 128 || nnz <= kFewNonzeros * rows ? kThreads / 2 : kThreads;
}

/// Lanes for 32, 64 or 128 columns of C, by its width.
///
/// With at most 16 columns, most lanes of such a unit would have no column. Its lanes are in parts
/// of 1, 2 or 4, for 1, 8 or 16 columns, which take different nonzeros of the piece. At N = 1
/// nearly all bytes are A's, 8 a nonzero: eight lanes read a sector of 32 bytes side by side, where
/// a lane to each piece would touch 32 sectors an instruction, and rows of B of neighbouring
/// nonzeros often share a cache line. At N = 8 two lanes read a row of B, which is a sector. Where
/// rows have at most 16 nonzeros on average, instructions and latencies of a unit, its nonzeros and
/// their rows of B decide instead: with units of two lanes a warp takes sixteen of them at a time,
/// and their nonzeros lie side by side.
///
/// With elements of 16 bits a lane has eight columns: half of the lanes do.
constexpr Schedule make_schedule(std::int64_t rows, std::int64_t nnz, std::int64_t longest_row,
                                 std::int64_t n, const ScheduleChoice& choice,
                                 int access_cols = 4) {
  if (is_direct(rows, nnz, longest_row, n, choice, access_cols)) {
    const std::int64_t columns =
        std::min(n, choice.columns != 0 ? choice.columns : choice.gathered);
    Schedule of_rows = direct_schedule(columns, access_cols);
    of_rows.turns = of_rows.wide == 1 || n % access_cols != 0 ? 1
                    : choice.turns != 0                       ? choice.turns
                                                              : turns_of(rows, nnz, of_rows);
    of_rows.threads =
        of_rows.turns > 1 ? turning_threads(of_rows.wide) : threads_of_rows(rows, nnz, of_rows);
    return of_rows;
  }
  Schedule schedule{.lanes = n <= 8 * access_cols    ? 8
                             : n <= 16 * access_cols ? 16
                                                     : 32,
                    .parts = 1,
                    .piece = choice.piece};
  if (n <= 16) {
    schedule.lanes = lanes_of_few(rows, nnz, n, choice.few_lanes, access_cols);
    const int part_lanes = access_cols == 8 ? 2 : n <= 1 ? 1 : n <= 8 ? 2 : 4;
    schedule.parts = std::max(schedule.lanes / part_lanes, 1);
  }
  if (schedule.lanes == 32 && schedule.parts == 1)
    schedule.wide =
        width_of(rows, nnz, longest_row, n, choice.columns, choice.gathered, access_cols);
  schedule.lane_cols = access_cols * schedule.wide;
  if (choice.piece == 0) schedule.piece = piece_of(schedule, rows, nnz, longest_row, n);
  schedule.has_offsets = has_offsets(schedule, choice.offsets, rows, nnz, n);
  return schedule;
}

/// True where the short rows of a matrix with long ones are multiplied as they are, in a launch of
/// their own that begins while the one of the long rows ends.
///
/// Two launches cost about 4 us more than one, and spare each warp of short rows what units cost
/// besides their nonzeros. On an H200, from 47,000 such warps on, products took 0.76 to 1.00 of the
/// time (in FP16 0.65 to 1.03), with 33,000 to 41,000 1.06 to 1.4 times, with fewer up to three.
constexpr bool mixing_pays(const RowStatistics& short_rows, std::int64_t n,
                           const ScheduleChoice& choice, int access_cols) {
  constexpr std::int64_t kLeastWarps = 45'000;
  if (!choice.mixes ||
      !is_direct(short_rows.rows, short_rows.nnz, short_rows.longest, n, choice, access_cols))
    return false;
  ScheduleChoice shared = choice;
  shared.nonzeros = Nonzeros::kShared;
  const Schedule units =
      make_schedule(short_rows.rows, short_rows.nnz, short_rows.longest, n, shared, access_cols);
  return choice.nonzeros == Nonzeros::kDirect ||
         short_rows.rows / units.units_per_warp() * units.chunks(n) >= kLeastWarps;
}

/// The launches for short rows, of at most kLongestDirect nonzeros, and long ones.
constexpr Launches make_launches(const RowStatistics& short_rows, const RowStatistics& long_rows,
                                 std::int64_t n, const ScheduleChoice& choice, int access_cols) {
  const auto schedule_of = [&](const RowStatistics& rows, const ScheduleChoice& of) {
    return make_schedule(rows.rows, rows.nnz, rows.longest, n, of, access_cols);
  };
  if (long_rows.rows > 0 && mixing_pays(short_rows, n, choice, access_cols)) {
    ScheduleChoice of_long = choice;
    of_long.nonzeros = Nonzeros::kShared;
    return {.pieces = schedule_of(long_rows, of_long),
            .direct = schedule_of(short_rows, choice),
            .most_direct = kLongestDirect};
  }
  const RowStatistics all{.rows = short_rows.rows + long_rows.rows,
                          .nnz = short_rows.nnz + long_rows.nnz,
                          .longest = std::max(short_rows.longest, long_rows.longest)};
  const Schedule schedule = schedule_of(all, choice);
  if (schedule.direct) return {.direct = schedule, .most_direct = kLongestDirect};
  return {.pieces = schedule};
}

}  // namespace tessera::rows_spmm
