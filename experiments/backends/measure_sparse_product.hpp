// Backend "gpu" of products whose B and C are sparse: checked once, timed with all their memory.
//
// A sparse product allocates C, and what it works with, itself: a sample is a product, C given
// back, and the wait for both, between two CUDA events; so the time of the host's calls is in it.
// "time" is with the plain allocator, "time_pool" with a pool that keeps what was given back to it.
// Where the kernel keeps C's structure, "time_again" is of a product that computes C's values
// alone, and the wait for it; that is the one that is checked. It works in poisoned memory.
#pragma once

#include "experiments/backends/backend.hpp"

namespace tessera {

SparseProductResult measure_sparse_product(const SparseMultiplication& multiplication);

}  // namespace tessera
