// A product on several GPUs of this host, timed and brought back with proof that it was written.
// The CUDA half registers it; a build without that half has none.
#pragma once

#include <string>
#include <vector>

#include "experiments/points/point.hpp"
#include "experiments/records/record.hpp"
#include "kernels/spmm/distributed/distributed_spmm.hpp"

namespace tessera {

/// C = A B, ready to run: B's rows in the order of A's columns.
struct GroupMultiplication {
  const CsrMatrix& a;
  const DenseMatrix& b;
  const DistributedSpmm& kernel;
  const Distribution& distribution;
  const MeasureRule& measure;
};

/// One GPU of the group, with its share and the parts of its time.
struct GroupMember {
  Json gpu = {};          // gpu_description()
  std::int64_t rows = 0;  // of A and C
  std::int64_t nonzeros = 0;
  std::int64_t sent_bytes = 0, received_bytes = 0;
  double own_us = 0;       // median time of the product of its own rows of B (all, if gathered)
  double exchange_us = 0;  // of the exchange alone
  double received_us = 0;  // of the product of the received rows
};

struct GroupResult {
  DenseMatrix c;                          // [rows of A x n]
  std::string generation;                 // tensor cores whose arithmetic c has
  std::int64_t unwritten = 0;             // elements of C that the launches left poisoned
  bool guards_intact = true;              // nothing was written outside C
  std::string fault = {};                 // what else is wrong; empty when nothing is
  TimeSummary time = {};                  // of the slowest GPU in each sample
  std::string library = {};               // "NCCL 2.28.9"
  std::vector<GroupMember> members = {};  // by rank
};

class GroupProduct {
 public:
  static constexpr const char* kKind = "product on several GPUs";
  virtual ~GroupProduct() = default;

  /// Runs on the first GPUs of this host, as many as the distribution has parts. Throws Unsupported
  /// where there are fewer or the library that connects them is not there, and as
  /// DistributedSpmmPlan does.
  virtual GroupResult multiply(const GroupMultiplication& multiplication) const = 0;
};

}  // namespace tessera
