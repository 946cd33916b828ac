// The parameters of rows_spmm and its units, for its host and its device half.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "kernels/spmm/narrowed/narrowed_spmm.hpp"
#include "kernels/spmm/rows/schedule.hpp"

namespace tessera::rows_spmm {

/// A matrix cut into units: split rows first, then teams of as many units as a thread block has,
/// of half as many, and so on. Rows whose teams have one size keep their order.
struct Plan {
  std::vector<Unit> units = {};           // [thread blocks of a chunk * units of a thread block]
  std::vector<SplitRow> split_rows = {};  // [split rows]
  std::int64_t num_slots = 0;             // thread blocks of split rows
  // Where the schedule has offsets and none exceeds 16 bits: columns as distances from the first
  // one of their unit. They are read in place of A's.
  std::vector<std::uint32_t> bases = {};        // [units]
  std::vector<std::uint16_t> col_offsets = {};  // [nnz]

  bool has_offsets() const { return !bases.empty(); }
};

/// Cuts every row that is not multiplied as it is, empty ones included. Throws Unsupported for more
/// nonzeros or thread blocks than the kernel counts.
Plan make_plan(const CsrMatrix& a, const Launches& launches);

std::vector<ParamSpec> params();

/// Whether the precision is fp16_scaled. Throws an Error where B and C are not in FP32.
bool is_narrowed(const Params& params);
/// The kernels of that precision.
narrowed::Recipe narrowed_recipe(const Params& params);

/// The launches that the parameters ask for.
Launches launches_of(const Params& params, const CsrMatrix& a, std::int64_t n);

}  // namespace tessera::rows_spmm
