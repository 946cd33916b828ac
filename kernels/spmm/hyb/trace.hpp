// The work description and the warp traces of hyb_spmm.
#pragma once

#include <memory>

#include "kernels/spmm/hyb/hyb.hpp"
#include "kernels/work.hpp"

namespace tessera::hyb {

/// Registers of a thread of the first launch for 1, 2 and 4 columns of C a lane, and of the second,
/// as the hardware allocates them, in machine code for sm_90a, CUDA 13.0.
constexpr int registers_of_multiplication(int coarsen) {
  return coarsen == 1 ? 48 : coarsen == 2 ? 64 : 80;
}
constexpr int kFinishRegisters = 32;

/// The work of a product; `packing` is that of `a`, and the number of tasks is taken from it.
WorkDescription describe_work(const CsrMatrix& a, std::shared_ptr<const Packing> packing,
                              Schedule schedule);

}  // namespace tessera::hyb
