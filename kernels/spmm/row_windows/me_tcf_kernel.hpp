// What the kernels over TC blocks 16 rows high, operands not swapped, have in common on the host:
// their arithmetic, the emulation of a window's tasks, and the launch-independent part of their
// work. DTC-SpMM (Fan et al., ASPLOS 2024) and TC-GNN (Wang et al., USENIX ATC 2023).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/window_tasks.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera::me_tcf_kernel {

/// Operands rounded to TF32, MMAs of that many condensed columns (4 or 8).
Arithmetic arithmetic(int depth);

/// MMAs that hold a nonzero of the row, and a term more for every part of a split window. [rows]
std::vector<std::int64_t> terms_per_row(const MeTcf& a, int depth,
                                        const window_tasks::Tasks& tasks);

/// C [rows x n], each row of a task a chain of MMAs, a split window's parts added in their order.
DenseMatrix emulate(const MeTcf& a, int depth, const window_tasks::Tasks& tasks,
                    const DenseMatrix& b, const Generation& generation);

/// All of the work but the thread blocks, launches and footprint.
WorkDescription describe(const std::string& kernel, const MeTcf& a, int depth, std::int64_t n);

/// Distinct columns of TC blocks [first, last): rows of B that are fetched.
std::int64_t count_active_cols(const MeTcf& a, std::int64_t first, std::int64_t last);

/// Rows of C that a window has.
std::int64_t rows_of_window(const MeTcf& a, std::int64_t window);

}  // namespace tessera::me_tcf_kernel
