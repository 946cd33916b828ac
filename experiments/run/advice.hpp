// The advisor's answer for one matrix: every registered kernel on every given order, each packed in
// its own format, one packed matrix in memory at a time.
//
// model/advisor.hpp ranks; this file prepares the candidates and times their preparation.
#pragma once

#include <string>
#include <vector>

#include "experiments/backends/find_order.hpp"
#include "experiments/points/point.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/matrix.hpp"
#include "model/advisor.hpp"

namespace tessera {

/// An order of A that is a candidate.
struct OfferedOrder {
  Variant reordering;
  FoundOrder found;
};

/// An order with a kernel and its format, and the cost of preparing them.
struct PreparedCandidate {
  std::size_t order = 0;  // index into MatrixAdvice::orders
  Variant kernel;
  Variant format;
  std::string arithmetic;  // "fp32", "tf32"; empty until the candidate has been described
  double apply_s = 0;      // seconds to put A into the order
  double pack_s = 0;       // seconds to pack A, the fastest of all times that it was packed
};

struct AdviceRequest {
  std::int64_t n = 128;  // columns of B
  std::string device = "h200";
  std::vector<std::string> kernels = {};  // names; empty: all that keep the range of FP32
  advisor::Options options = {};
  std::string remark = {};  // about the device; the advice repeats it
};

struct MatrixAdvice {
  std::vector<OfferedOrder> orders;
  std::vector<PreparedCandidate> candidates;       // each order with each kernel
  std::vector<advisor::Alternative> alternatives;  // [candidates] the same for the ranking
  Decision decision;

  const PreparedCandidate& candidate(const Rating& one) const { return candidates[one.candidate]; }
  /// Preparation time in seconds: reorder + apply + pack.
  double preparation_s(const Rating& one) const;
};

/// The kernels of the request, or all that keep the range of FP32.
std::vector<std::string> advised_kernels(const AdviceRequest& request);

/// Ranks the kernels, with default parameters, on the given orders. Throws an Error for a kernel
/// that is not registered and for an unknown device. A kernel that cannot be predicted on the
/// device is excluded with the reason.
MatrixAdvice advise(const CsrMatrix& matrix, std::vector<OfferedOrder> orders,
                    const AdviceRequest& request);

/// A reordering as a user writes it, without parameters that have their defaults: "best",
/// "rcm(apply=rows, ...)".
std::string order_text(const Variant& reordering);

/// "acc_spmm, order best".
std::string candidate_text(const MatrixAdvice& advice, const PreparedCandidate& candidate);

/// The kernel that stands for kernel = "auto" with one matrix, which already has its order.
struct KernelChoice {
  Variant kernel;
  Variant format;
  Json fields;         // a record's "advice": kernel, time_us, runner_up, ...
  double seconds = 0;  // time to choose
};

/// Chooses a kernel by prediction. Throws Unsupported, with every kernel's reason, when no kernel
/// can be predicted on the device.
KernelChoice choose_kernel(const CsrMatrix& ordered, const AdviceRequest& request);

/// The request of choose_kernel() for a point. The device is that of the point or, for a point that
/// is measured, the described device that this GPU is; an h200 where none is.
AdviceRequest advice_request(const Point& point);

/// The versions of the advisor and of every kernel, on which the choice depends beside the point
/// and the matrix. They are part of a point's identity.
Json choice_versions();

/// The described device with this GPU name: one all of whose words the name contains, or one with
/// the same model number. Empty when there is none.
std::string described_device(const std::string& gpu_name);

}  // namespace tessera
