// CAGNET's 1.5D product on the GPUs of a communicator (replicated_spmm.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/spmm/distributed/nccl_communicator.hpp"
#include "kernels/spmm/distributed/replicated_spmm.hpp"

namespace tessera {

class ReplicatedSpmmPlan {
 public:
  /// Packs and uploads the part of this rank on the current device; `n` columns of B. All ranks
  /// call it with the same A and options. `comm` has to outlive the plan; A is not needed
  /// afterwards. Throws an Error for another number of parts than there are ranks, and otherwise as
  /// DistributedSpmmPlan.
  ReplicatedSpmmPlan(const CsrMatrix& a, std::int64_t n, const ReplicatedOptions& options,
                     DeviceCommunicator& comm);
  ~ReplicatedSpmmPlan();
  ReplicatedSpmmPlan(const ReplicatedSpmmPlan&) = delete;
  ReplicatedSpmmPlan& operator=(const ReplicatedSpmmPlan&) = delete;

  /// Enqueues C = A B: `b` are the rows of B that this rank has, layout().b_rows(), `c` its rows of
  /// C, layout().rows(), both row-major without gaps. Every rank calls it. Does not wait.
  void run(const float* b, float* c, cudaStream_t stream = nullptr);

  // Its steps, for a caller that times them: rows of B are gathered, multiplied, and the sums of
  // the copies added.
  void gather(const float* b, cudaStream_t stream);
  void multiply(float* c, cudaStream_t stream);
  void add_copies(float* c, cudaStream_t stream);

  const ReplicatedLayout& layout() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
