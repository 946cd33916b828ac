// How windows_spmm cuts C up: one thread block per row window, its four warps next to each other in
// C (kernels/spmm/row_windows/staged_tiles.hpp), in passes of 128 columns.
#pragma once

namespace tessera::windows_spmm {

constexpr int kRegisters = 56;  // of a thread, as they are allocated: in eights

}  // namespace tessera::windows_spmm
