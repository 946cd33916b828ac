// A product with a dense B on the GPU: timed, and brought back to be checked.
//
// B is uploaded once; C lies between guard bands and is poisoned with a NaN no kernel produces
// before the launch whose result is checked. Without a check C stays on the device. Of a library's
// algorithms the fastest is used, and named. After the timing B is negated in place, and the launch
// has to give the negative of C: what only looks as if it computed is found.
#pragma once

#include <cstdint>
#include <span>

#include "experiments/backends/backend.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {

/// `gpu` is the packed A of `m` on the device. Of a kernel that stores B in 16 bits, `b` are B's
/// (stored_in_16_bits()); where they are not given they are made here.
BackendResult measure_dense_product(const Multiplication& m, GpuMultiplication& gpu,
                                    std::span<const std::uint16_t> b = {});

}  // namespace tessera
