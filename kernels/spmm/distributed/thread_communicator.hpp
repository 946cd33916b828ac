// A communicator between threads of one process, for memory of the host: partition, exchange and
// sums are tested with it where there is no GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/spmm/distributed/communicator.hpp"

namespace tessera {

/// One communicator for each of `size` threads, connected with each other. Throws an Error for
/// size < 1.
std::vector<std::unique_ptr<Communicator>> connect_threads(int size);

/// Calls body(rank) on a thread of its own for each rank and waits for all of them. Where a body
/// throws, give_up(rank) is called, so that the others do not wait for it; the exception of the
/// first one that threw is rethrown.
void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void(int rank)>& give_up);

}  // namespace tessera
