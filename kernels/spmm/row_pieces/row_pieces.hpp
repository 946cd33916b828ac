// Products on CUDA cores by row parts: a row part is a run of nonzeros of one row, multiplied and
// summed by some lanes of a warp. The host half that all FP32 kernels of this family share.
//
// Each kernel (rode, sputnik, gespmm, dgsparse, hp_spmm, merge_spmm, row_split) decides how rows
// are cut, in which order units take the row parts and which lanes a unit has. The sum of a row
// part is a chain of fused multiply-adds. The parts of a row are added in their order by the last
// one to finish, or by atomics in any order. The device half is
// kernels/spmm/row_pieces/row_pieces.cuh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spmm/row_pieces/schedule.hpp"

namespace tessera::row_pieces {

/// Nonzeros [first, last) of a row. The device code reads it, too.
struct alignas(16) RowPart {
  std::uint32_t row;
  std::uint32_t first, last;
  std::uint32_t slot;  // 0: the whole row; else 1 + the slot of its sums
};

/// A row of several row parts. Their slots follow each other in the order of the row.
struct SplitRow {
  std::uint32_t row;
  std::uint32_t first_slot;
  std::uint32_t num_parts;
};

/// A matrix cut into row parts.
struct Plan {
  std::vector<RowPart> row_parts = {};                // in the order of the units
  std::vector<std::uint32_t> shares = {};             // unit u has row parts [shares[u],
                                                      // shares[u + 1]); empty: one for each unit
  std::vector<SplitRow> split_rows = {};              // [split rows]
  std::vector<std::uint32_t> split_row_of_slot = {};  // [slots]
  std::vector<std::uint32_t> unwritten_rows = {};     // rows without a row part

  std::int64_t num_units() const {
    return static_cast<std::int64_t>(shares.empty() ? row_parts.size() : shares.size() - 1);
  }
  /// Row parts [first_part(unit), end_part(unit)) of a unit.
  std::int64_t first_part(std::int64_t unit) const { return shares.empty() ? unit : shares[unit]; }
  std::int64_t end_part(std::int64_t unit) const {
    return shares.empty() ? unit + 1 : shares[unit + 1];
  }
  /// Rows of C to clear before the product: those that no unit stores and, with atomics, those that
  /// several units add to.
  std::vector<std::uint32_t> cleared(bool atomic) const;
};

/// A kernel: what its host half and its device half share.
struct Method {
  std::string name;
  int version;
  bool atomic;
  std::function<Plan(const CsrMatrix& a)> cut;
  std::function<UnitShape(const CsrMatrix& a, std::int64_t n)> shape;
};

/// Throws Unsupported for more nonzeros than row parts count: before a matrix is cut.
void require_countable(const CsrMatrix& a);

/// Numbers the slots of split rows and finds the rows without a row part. The slots of `row_parts`
/// are zero on entry. Throws Unsupported for more row parts than the kernels count.
Plan make_plan(const CsrMatrix& a, std::vector<RowPart> row_parts,
               std::vector<std::uint32_t> shares = {});

/// Every row as one row part, in that order of rows.
std::vector<RowPart> whole_rows(const CsrMatrix& a, const std::vector<std::uint32_t>& order);
std::vector<std::uint32_t> natural_order(const CsrMatrix& a);
/// Longest rows first; rows of equal length keep their order.
std::vector<std::uint32_t> by_length(const CsrMatrix& a);

/// Shares of `nonzeros` consecutive nonzeros each, cut at the ends of rows; rows without a nonzero
/// have no row part.
Plan equal_shares(const CsrMatrix& a, std::int64_t nonzeros);
/// Items of a share: `requested`, or, where that is 0, 16 to 128, so that there are thousands of
/// warps.
std::int64_t share_size(std::int64_t items, std::int64_t requested);

/// A kernel with a warp for each row, in the order of the rows. `shape` gives the warps and the
/// delivery; the rest follows rows_in_flight and warp_for.
Method warp_a_row(std::string name, UnitShape shape, std::int64_t columns, std::int64_t unroll,
                  int most);

/// Rows of B in flight: `requested`, or, where that is 0, as many between 4 and `most` as keep the
/// longest row from taking longer than all other rows together. With fewer in flight, more warps
/// are resident.
int rows_in_flight(const CsrMatrix& a, std::int64_t requested, int most);

/// `shape` with lanes (of four columns each) for `columns` columns of C; 0: 32, 64 or 128, by the
/// width of C.
UnitShape lanes_for(std::int64_t n, std::int64_t columns, UnitShape shape);
/// `shape` with a whole warp for `columns` columns of C; 0: 32, 64 or 128, by the width of C.
UnitShape warp_for(std::int64_t n, std::int64_t columns, UnitShape shape);

// Parameters that several kernels have.
ParamSpec columns_param();  // 0, 32, 64 or 128
ParamSpec combine_param();  // ordered or atomic
ParamSpec unroll_param(std::int64_t fallback, std::vector<std::string> choices);
ParamSpec warps_param(std::int64_t fallback);
ParamSpec share_param(const std::string& name, const std::string& items);  // see share_size
bool is_atomic(const Params& params);

/// Registers of a thread, as the hardware allocates them, of the instance for aligned operands.
int registers(const UnitShape& shape);

}  // namespace tessera::row_pieces
