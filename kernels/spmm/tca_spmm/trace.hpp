// The trace of a warp of tca_spmm, for the simulator: the copies, MMAs and stores of
// kernels/spmm/tca_spmm/tca_spmm.cu in the order of the compiled code.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/spmm/tca_spmm/tca_spmm.hpp"
#include "kernels/tensor_core/number_format.hpp"
#include "kernels/warp_trace.hpp"

namespace tessera::tca_spmm {

/// Columns of C that the warps of a row compute at a time.
struct Columns {
  std::int64_t first;
  int count;
};

/// Group `part` of the columns of a task in its thread block; no columns behind the last.
Columns columns_of(const Task& task, int tile_cols, const BlockCols& cols, std::int64_t part);

/// The number of chunks of a row of `nnz` nonzeros.
constexpr std::int64_t chunks_of(std::int64_t nnz, int p) {
  return (nnz + kDepth * p - 1) / (kDepth * p);
}

class Trace final : public LaunchTrace {
 public:
  /// `conversion`: of the operands, to TF32 or FP16, or raw where the MMA cuts them off.
  Trace(const CsrMatrix& a, bool output_buffer, Conversion conversion, Plan plan,
        AddressSpace& space);

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override;

 private:
  /// A warp's place in its row.
  struct At {
    const Task& task;
    std::int64_t first, last;  // nonzeros of the row
    Columns columns;
    Fragments fragments;
  };

  void begin(std::int64_t thread_block, int warp, const Task& task, WarpTrace& trace) const;
  void load_index(const At& at, std::int64_t chunk, WarpTrace& trace) const;
  void copy(const At& at, std::int64_t chunk, WarpTrace& trace) const;
  void load_values(const At& at, std::int64_t chunk, WarpTrace& trace) const;
  void advance(const At& at, std::int64_t chunk, WarpTrace& trace) const;
  void store(const At& at, WarpTrace& trace) const;
  void flush(const At& at, WarpTrace& trace) const;

  const CsrMatrix& a_;
  bool output_buffer_;
  Conversion conversion_;
  Plan plan_;
  std::int64_t n_;
  int tile_cols_;
  std::uint64_t tasks_, block_cols_, row_offsets_, col_indices_, values_, b_, c_;
};

}  // namespace tessera::tca_spmm
