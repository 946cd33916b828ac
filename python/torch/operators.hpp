// What the operators know of each sparse matrix: its pattern, that of its transpose, and the plans
// that multiply it on a GPU, behind a number that never returns.
//
// A graph of torch.compile holds the number as a constant. A number whose operator is gone is an
// error, never another matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/abi/tessera.h"
#include "python/torch/cpu_product.hpp"
#include "python/torch/torch_abi.hpp"

namespace tessera::torch_operators {

/// A number that stands for a state of A's values. kUnknown: they have to be set for each product.
/// Positive: they change by _set_values alone. Negative: a tensor that may change in place, which
/// a captured graph has to read anew at each replay.
using Stamp = std::int64_t;
inline constexpr Stamp kUnknown = 0;

/// A plan of libtessera and the stream that used it last. Its products share a workspace.
struct Plan {
  std::int64_t n = 0;
  tessera_type type = TESSERA_FP32;
  tessera_spmm_plan* plan = nullptr;
  Stamp stamp = kUnknown;
  bool used = false, captured = false, sets_values_in_graph = false;
  void* stream = nullptr;
  std::uint64_t last_use = 0;
};

/// A or A^T.
struct Side {
  torch_abi::Tensor row_offsets, col_indices;  // int64 [rows + 1], int32 [nnz], contiguous
  torch_abi::Tensor value_indices;             // int64 [nnz]; of A^T alone
  torch_cpu::Pattern pattern;                  // their addresses
  std::vector<Plan> plans;                     // one for each width and type of B
  bool made = false;
};

struct Operator {
  std::mutex mutex;
  Side sides[2];  // A, A^T
  std::int64_t rows = 0, cols = 0, nnz = 0;
  std::int32_t device_type = 0, device_index = 0;
  std::uint64_t uses = 0;

  ~Operator();
};

/// The operator behind a number. Throws when it is gone.
std::shared_ptr<Operator> find(std::int64_t number);

/// Asks Python for a plan for B of n columns (n = 0: for the arrays of A^T). Throws its error.
void ask_for_plan(std::int64_t number, bool transposed, std::int64_t n, tessera_type type);

/// Throws the last error of libtessera where the status is one.
void check_tessera(tessera_status status);

}  // namespace tessera::torch_operators
