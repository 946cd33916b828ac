// A chain of products on the GPUs of a communicator (chain_spmm.hpp): X <- alpha A X, the exchange
// of each product's B hidden behind the product before.
//
//   ChainSpmmPlan chain(a, 128, options, comm);  // the same on every rank, on the rank's GPU
//   chain.start(x);                              // its rows of X: chain.part() names them
//   for (int layer = 0; layer < layers; ++layer) chain.multiply();
//   chain.rows()                                 // its rows of the last X, once they are made
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "kernels/spmm/distributed/chain_spmm.hpp"
#include "kernels/spmm/distributed/nccl_communicator.hpp"

namespace tessera {

class ChainSpmmPlan {
 public:
  /// Packs and uploads the part of this rank on the current device, and allocates two X of `n`
  /// columns. Otherwise as DistributedSpmmPlan, and throws Unsupported for a kernel that does not
  /// write some rows of C alone.
  ChainSpmmPlan(const CsrMatrix& a, std::int64_t n, const DistributedOptions& options,
                DeviceCommunicator& comm, int pieces = ChainSpmm::kPieces);
  ~ChainSpmmPlan();
  ChainSpmmPlan(const ChainSpmmPlan&) = delete;
  ChainSpmmPlan& operator=(const ChainSpmmPlan&) = delete;

  /// Takes this rank's rows of X [M_p x n], in the type of storage(), and sends those that others
  /// need. Every rank calls it. Like multiply(), it does not wait and allocates no memory.
  void start(const void* x, cudaStream_t stream = nullptr);
  /// X <- alpha A X. Every rank calls it, on the stream of start().
  void multiply(float alpha = 1, cudaStream_t stream = nullptr);
  /// This rank's rows of X, on the device; the next but one multiply() writes there.
  const void* rows() const;

  const ChainPart& part() const;  // without the matrices
  const Storage& storage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
