// The host half that the kernels over TC blocks 16 rows high, operands not swapped, share: their
// arithmetic, the emulation of a window's tasks, and the launch-independent part of their work.
// DTC-SpMM (Fan et al., ASPLOS 2024) and TC-GNN (Wang et al., USENIX ATC 2023).
#pragma once

#include <string>
#include <vector>

#include "kernels/spmm/row_windows/window_tiles.hpp"

namespace tessera::me_tcf_kernel {

/// Operands in a precision of TF32, MMAs of `depth` condensed columns (4 or 8).
Arithmetic arithmetic(const Precision& precision, int depth);

/// The number of MMAs that hold a nonzero of the row, plus one for every part of a split window.
/// [rows]
std::vector<std::int64_t> terms_per_row(const MeTcf& a, int depth,
                                        const window_tasks::Tasks& tasks);

/// C [rows x n], each row of a task a chain of MMAs, a split window's parts added in their order.
DenseMatrix emulate(const MeTcf& a, const Precision& precision, int depth,
                    const window_tasks::Tasks& tasks, const DenseMatrix& b,
                    const Generation& generation);

/// The work description without thread blocks, launches and footprint.
WorkDescription describe(const std::string& kernel, const MeTcf& a, int depth, std::int64_t n,
                         const Storage& storage = {});

}  // namespace tessera::me_tcf_kernel
