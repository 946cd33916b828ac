// The library interface of a product on several GPUs: C = alpha A B + beta C for one sparse A and
// any number of dense B, each GPU with its rows of A, B and C.
//
//   DistributedOptions options{.parts = comm.size()};
//   const Distribution distribution = distribute(a, 128, options);   // the same on every rank
//   DistributedSpmmPlan plan(a, 128, options, distribution, comm);   // on the rank's GPU
//   plan.run(b, c);                            // its rows of B and C: plan.part() names them
//
// Of a square A the rows of B are owned like those of C, so that C can be the next product's B
// where it is. kernels/spmm/distributed/example/spmm_distributed.cpp is a complete program, for
// torchrun, srun and mpirun as well as for one process.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/scaling.hpp"
#include "kernels/spmm/distributed/distributed_spmm.hpp"
#include "kernels/spmm/distributed/nccl_communicator.hpp"

namespace tessera {

class DistributedSpmmPlan {
 public:
  /// Packs and uploads the part of this rank on the current device; `n` columns of B. All ranks
  /// call it with the same A, options and distribution. `comm` has to outlive the plan; A is not
  /// needed afterwards. Exchanges nothing.
  ///
  /// Throws an Error for a distribution into another number of parts than there are ranks, and
  /// for an unknown kernel or parameter; Unsupported for a kernel that does not take the case, or
  /// that cannot add to some rows of C where not all of B is gathered; OutOfMemory;
  /// std::runtime_error for an error of CUDA.
  DistributedSpmmPlan(const CsrMatrix& a, std::int64_t n, const DistributedOptions& options,
                      const Distribution& distribution, DeviceCommunicator& comm);
  ~DistributedSpmmPlan();
  DistributedSpmmPlan(DistributedSpmmPlan&&) noexcept;
  DistributedSpmmPlan& operator=(DistributedSpmmPlan&&) noexcept;

  /// Enqueues C [M_p x n] = alpha A_p B + beta C, both row-major without gaps on the plan's device,
  /// in the types of storage(): `b` [K_p x n] are this rank's rows of B, `c` its rows of C. Every
  /// rank calls it. Does
  /// not wait and allocates no memory. C is not read when beta is 0. Runs of one plan share its
  /// buffers and follow each other, on one stream or by events. A rank whose peer fails would wait
  /// for ever in cudaStreamSynchronize(): DeviceCommunicator::wait() does not.
  ///
  /// Throws an Error for a null pointer and on another device than the plan's, std::runtime_error
  /// for an error of NCCL.
  void run(const void* b, void* c, Scaling scaling = {}, cudaStream_t stream = nullptr);

  // The three steps of run(), for a caller that has other work meanwhile, or times them. B has to
  // stay as it is until add_received() has run on the stream.
  /// Begins, once what is on the stream has ended, to send and receive rows of B.
  void start_exchange(const void* b, cudaStream_t stream);
  /// C = alpha A_p B + beta C of the rows of B that this rank owns; with Exchange::kGathered of all
  /// of them, once they are here.
  void multiply_own(const void* b, void* c, Scaling scaling, cudaStream_t stream);
  /// Adds the product of the received rows of B to C, once they are here.
  void add_received(void* c, float alpha, cudaStream_t stream);

  /// The rows that this rank owns, and what it sends and receives; without the matrices.
  const PartOfProduct& part() const;
  std::int64_t n() const;
  /// The types of B and C, those of the kernel.
  const Storage& storage() const;
  /// The algorithm of a library that has several, as it was chosen by time; else empty.
  const std::string& algorithm() const;
  /// Bytes of the packed part, and of the buffers for rows of B, on the device.
  std::int64_t packed_bytes() const;
  std::int64_t buffer_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
