// The matrices of the operators, each with its pattern, that of its transpose, and the plans
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
#include "python/torch_operators/cpu_product.hpp"
#include "python/torch_operators/torch_abi.hpp"

namespace tessera::torch_operators {

/// A number that stands for a state of A's values. kUnknown: they have to be set for each product.
/// Positive: they change by _set_values alone. Negative: a tensor that may change in place, which
/// a captured graph has to read anew at each replay.
using Stamp = std::int64_t;
inline constexpr Stamp kUnknown = 0;

/// The plans of an operator, as Python is asked for them.
enum class Request : std::int32_t {
  kProduct = 0,
  kTransposedProduct = 1,
  kSamples = 2,
  kWideSamples = 3,  // FP32 of X and Y in FP16 or BF16
};

/// The last use of a plan: a plan is freed, and runs on another stream, after its last product.
struct LastUse {
  bool used = false, captured = false;
  void* stream = nullptr;
  std::uint64_t number = 0;  // of the operator's uses
};

/// A plan of libtessera for B of n columns. Its products share a workspace.
struct Plan {
  std::int64_t n = 0;
  tessera_type type = TESSERA_FP32;
  tessera_spmm_plan* plan = nullptr;
  Stamp stamp = kUnknown;
  bool sets_values_in_graph = false;
  LastUse last = {};
};

/// A plan for X and Y of n columns.
struct SampledPlan {
  std::int64_t n = 0;
  tessera_type type = TESSERA_FP32;
  tessera_sddmm_plan* plan = nullptr;
  bool wide = false;
  LastUse last = {};
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
  std::vector<SampledPlan> samples;
  torch_abi::Tensor values;  // FP32 [nnz], contiguous: those of _multiply; none at first
  Stamp stamp = kUnknown;    // of these values
  std::int64_t rows = 0, cols = 0, nnz = 0;
  std::int32_t device_type = 0, device_index = 0;
  std::uint64_t uses = 0;

  // The caller holds the mutex. Null: there is no such plan yet.
  Plan* product(bool transposed, std::int64_t n, tessera_type type);
  SampledPlan* sampled(bool wide, std::int64_t n, tessera_type type);
  const void* plan(Request request, std::int64_t n, tessera_type type);
  /// Takes a plan over; the one that was not used for longest may have to go.
  void add(Request request, std::int64_t n, tessera_type type, void* plan);

  ~Operator();
};

/// The operator behind a number. Throws when it is gone.
std::shared_ptr<Operator> find(std::int64_t number);

/// Asks Python for a plan for operands of n columns (n = 0: for the arrays of A^T). Throws its
/// error.
void ask_for_plan(std::int64_t number, Request request, std::int64_t n, tessera_type type);

/// Throws the last error of libtessera where the status is one.
void check_tessera(tessera_status status);

}  // namespace tessera::torch_operators
