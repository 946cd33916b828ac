// Backend "gpu" of products whose B and C are sparse: checked once, timed with all their memory.
//
// A sparse product allocates C and its workspace itself. A sample is the time between two CUDA
// events around a product, the release of C and the wait for both; it includes the host's calls.
// "time" uses the plain allocator, "time_pool" a pool that keeps released memory. Where the kernel
// keeps C's structure, "time_again" is the time of a product that computes only C's values, and
// that product is the one that is checked. It works in poisoned memory.
#pragma once

#include "experiments/backends/backend.hpp"

namespace tessera {

SparseProductResult measure_sparse_product(const SparseMultiplication& multiplication);

}  // namespace tessera
