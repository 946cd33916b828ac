// How csr_spmm cuts C up; its host and its device half both go by this.
#pragma once

#include <cstdint>

namespace tessera::csr_spmm {

constexpr int kColsPerBlock = 32;  // columns of C, one per lane
constexpr int kRowsPerBlock = 4;   // rows of C, one per warp
constexpr int kThreads = kColsPerBlock * kRowsPerBlock;
constexpr int kRegisters = 32;  // of a thread, as they are allocated: in eights

}  // namespace tessera::csr_spmm
