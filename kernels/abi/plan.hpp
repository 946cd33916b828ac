// The device half of the C interface's plans. A build without CUDA has none.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"
#include "formats/base/permutation.hpp"
#include "kernels/abi/tessera.h"

namespace tessera::abi {

/// A kernel and its format as tessera_spmm_options names them.
struct PlanKernel {
  std::string name;
  Params::Given params = {};
  Params::Given format = {};
  double most_predicted = 0;  // as in SpmmCandidate
};

struct PlanRequest {
  std::vector<PlanKernel> kernels;  // at least one
  tessera_type type = TESSERA_FP32;
  Permutation row_order = {};  // empty: the order of A
  bool sets_values = false;
  bool strided = false;
  std::int64_t expected_products = 0;
};

/// B or C of products with one A: rows are `ld` elements apart, matrices `stride`.
struct DenseBatch {
  std::int64_t ld, stride = 0;
};

/// A plan on the device. Its functions do what those of kernels/abi/tessera.h with their names do.
class GpuPlan {
 public:
  virtual ~GpuPlan() = default;
  virtual void run(std::int64_t count, const void* b, const DenseBatch& of_b, void* c,
                   const DenseBatch& of_c, float alpha, float beta, void* stream) = 0;
  virtual void set_values(const float* values, void* stream) = 0;
  virtual std::int64_t workspace_bytes() const = 0;
  virtual nlohmann::json describe() const = 0;
};

class GpuPlanMaker {
 public:
  static constexpr const char* kKind = "GPU plan";
  virtual ~GpuPlanMaker() = default;
  virtual std::unique_ptr<GpuPlan> make(const CsrMatrix& a, std::int64_t n,
                                        const PlanRequest& request) const = 0;
};

/// S = X Y^T at the nonzeros of A, as tessera_sddmm_options asks for it.
struct SddmmRequest {
  std::vector<PlanKernel> kernels;  // at least one; none has a format
  tessera_type type = TESSERA_FP32;
  bool narrow_result = false;
  bool scales_by_a = false;
};

/// The same of an SDDMM.
class GpuSddmmPlan {
 public:
  virtual ~GpuSddmmPlan() = default;
  virtual void run(const void* x, const void* y, void* s, void* stream) = 0;
  virtual void set_values(const float* values, void* stream) = 0;
  virtual nlohmann::json describe() const = 0;
};

class GpuSddmmPlanMaker {
 public:
  static constexpr const char* kKind = "GPU plan of an SDDMM";
  virtual ~GpuSddmmPlanMaker() = default;
  virtual std::unique_ptr<GpuSddmmPlan> make(const CsrMatrix& a, std::int64_t k,
                                             const SddmmRequest& request) const = 0;
};

/// The kernels that the caller names, or those that a plan has in a precision and of a type:
/// the one on tensor cores and the one on CUDA cores. Throws an Error for a text that is no call,
/// and for a precision that a plan does not have.
std::vector<PlanKernel> kernels_of(std::int64_t num_kernels, const char* const* kernels,
                                   tessera_precision precision, tessera_type type,
                                   const char* tensor_cores, const char* cuda_cores);

/// Throws an Error for a type of dense operands that no plan has.
void require_plan_type(tessera_type type);

/// The options of the caller, checked. Throws an Error for a kernel or format text that is no call,
/// and for a type or precision that a plan does not have.
PlanRequest request_of(const tessera_spmm_options* options, std::int64_t rows);

}  // namespace tessera::abi
