// A product on CUDA cores as pieces of rows: some consecutive nonzeros of one row, multiplied and
// summed by some lanes of a warp. What the FP32 kernels have in common, host half.
//
// How rows are cut, in which order the pieces are handed out and on which lanes they are worked on
// is a kernel's own (rode, sputnik, gespmm, dgsparse, hp_spmm, merge_spmm, row_split). A piece's
// sum is a chain of fused multiply-adds; a row's pieces are added in their order by whichever is
// the last to arrive, or by atomics in any order. The device half is
// kernels/spmm/row_pieces/row_pieces.cuh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera::row_pieces {

/// Nonzeros [first, last) of a row. Host and device read it.
struct alignas(16) Piece {
  std::uint32_t row;
  std::uint32_t first, last;
  std::uint32_t slot;  // 0: the whole row; else 1 + place of its sum in the slots
};

/// A row of several pieces; their sums lie in slots that follow each other in the row's order.
struct Split {
  std::uint32_t row;
  std::uint32_t first_slot;
  std::uint32_t parts;
};

struct Plan {
  std::vector<Piece> pieces = {};                 // as they are handed out
  std::vector<std::uint32_t> shares = {};         // pieces of unit u: [shares[u], shares[u + 1]),
                                                  // which follow each other; empty: one each
  std::vector<Split> splits = {};                 // [splits]
  std::vector<std::uint32_t> split_of_slot = {};  // [slots]
  std::vector<std::uint32_t> unwritten = {};      // rows without any piece: cleared beforehand

  std::int64_t num_units() const {
    return static_cast<std::int64_t>(shares.empty() ? pieces.size() : shares.size() - 1);
  }
  std::int64_t first_piece(std::int64_t unit) const { return shares.empty() ? unit : shares[unit]; }
  std::int64_t last_piece(std::int64_t unit) const {
    return shares.empty() ? unit + 1 : shares[unit + 1];
  }
  /// Where no sum is stored, or atomics add to zero.
  std::vector<std::uint32_t> cleared(bool atomic) const;
};

/// How the nonzeros of a unit come to its lanes.
enum class NonzeroDelivery {
  kBroadcast,  // all lanes load the same four
  kShuffle,    // each lane of a warp loads another, and gives it to the others
  kShared,     // through shared memory, 32 at a time
  kOwn,        // each group of lanes loads its own
};

/// The lanes that take a unit, and what each of them does.
struct Shape {
  int lanes = 32;  // of a warp, side by side along a row of B
  int values = 4;  // columns of C of a lane
  int groups = 1;  // of lanes, which take the nonzeros of a piece in turn
  int unroll = 8;  // rows of B in flight
  int warps = 8;   // of a thread block
  NonzeroDelivery reach = NonzeroDelivery::kBroadcast;
  bool streams = false;  // a unit is a share of pieces

  int columns() const { return lanes * values; }
  int units_per_warp() const { return 32 / (lanes * groups); }
  int units_per_block() const { return warps * units_per_warp(); }
  std::int64_t chunks(std::int64_t n) const { return (n + columns() - 1) / columns(); }
  std::int64_t blocks_of_units(const Plan& plan) const {
    return (plan.num_units() + units_per_block() - 1) / units_per_block();
  }
};

/// A kernel: everything that its host and its device half have to agree on.
struct Method {
  std::string name;
  int version;
  bool atomic;
  std::function<Plan(const CsrMatrix& a)> cut;
  std::function<Shape(const CsrMatrix& a, std::int64_t n)> shape;
};

/// Numbers the parts of split rows and finds rows that have no piece. Pieces' slots are zero.
Plan make_plan(const CsrMatrix& a, std::vector<Piece> pieces,
               std::vector<std::uint32_t> shares = {});

/// Every row as one piece, in that order.
std::vector<Piece> whole_rows(const CsrMatrix& a, const std::vector<std::uint32_t>& order);
std::vector<std::uint32_t> natural_order(const CsrMatrix& a);
/// Longest rows first, equal ones in their order.
std::vector<std::uint32_t> by_length(const CsrMatrix& a);

/// Shares of so many consecutive nonzeros each, cut at the rows' ends; rows without any nonzero
/// have no piece.
Plan equal_shares(const CsrMatrix& a, std::int64_t nonzeros);
/// `asked` of so many items, or where that is 0 few enough for thousands of warps: 16 to 128.
std::int64_t share_size(std::int64_t items, std::int64_t asked);

/// A whole row for each warp, in their order; the rest as rows_in_flight and warp_for have it.
Method warp_a_row(std::string name, Shape shape, std::int64_t columns, std::int64_t unroll,
                  int most);

/// `asked`, or where that is 0 as many rows of B in flight, 4 to `most`, as keep the longest row
/// from taking longer than all others together; with fewer of them, more warps are resident.
int rows_in_flight(const CsrMatrix& a, std::int64_t asked, int most);

/// One lane for four columns, or fewer columns a lane for a warp: what suits the width of C, or
/// the columns asked for (0: whatever suits).
Shape lanes_for(std::int64_t n, std::int64_t columns, Shape shape);
Shape warp_for(std::int64_t n, std::int64_t columns, Shape shape);

// Parameters that several kernels have.
ParamSpec columns_param();  // 0, 32, 64 or 128
ParamSpec combine_param();  // ordered or atomic
ParamSpec unroll_param(std::int64_t fallback, std::vector<std::string> choices);
ParamSpec warps_param(std::int64_t fallback);
ParamSpec share_param(const std::string& name, const std::string& items);  // see share_size
bool is_atomic(const Params& params);

// Clearing: a warp for a row.
constexpr int kClearRows = 8;  // of a thread block
constexpr int kClearThreads = 32 * kClearRows;
inline std::int64_t clearing_blocks(std::int64_t rows) {
  return (rows + kClearRows - 1) / kClearRows;
}
constexpr int kClearRegisters = 16;

/// Of a thread, as they are allocated, in the instance for aligned operands.
int registers(const Shape& shape);

/// Shared memory of a thread block: 32 nonzeros of each warp.
inline std::int64_t shared_bytes(const Shape& shape) {
  return shape.reach == NonzeroDelivery::kShared ? std::int64_t{256} * shape.warps : 0;
}

}  // namespace tessera::row_pieces
