// What the advisor says of one matrix: every registered kernel on every order given, each packed in
// its own format, one packed matrix at a time.
//
// The ranking itself is model/advisor.hpp; here its candidates are prepared, with the clock
// running.
#pragma once

#include <string>
#include <vector>

#include "experiments/backends/find_order.hpp"
#include "experiments/points/point.hpp"
#include "formats/base/matrix.hpp"
#include "model/advisor.hpp"

namespace tessera {

/// An order that may be worth having.
struct OfferedOrder {
  Variant reordering;
  FoundOrder found;
};

/// A candidate of the advice.
struct PreparedCandidate {
  std::size_t order = 0;  // index
  Variant kernel;
  Variant format;
  std::string arithmetic;  // "fp32", "tf32"; empty while nothing is known of it
  double apply_s = 0;      // putting A into the order
  double pack_s = 0;       // packing it, the faster of the times that it was done
};

struct AdviceRequest {
  std::int64_t n = 128;
  std::string device = "h200";
  std::vector<std::string> kernels = {};  // names; when empty, all that keep the range of FP32
  advisor::Options options = {};
  std::string remark = {};  // on the device; goes with the advice
};

struct MatrixAdvice {
  std::vector<OfferedOrder> orders;
  std::vector<PreparedCandidate> ways;
  std::vector<advisor::Candidate> candidates;  // [ways]
  advisor::Advice advice;

  const PreparedCandidate& way(const advisor::Ranked& one) const { return ways[one.candidate]; }
  /// Of its order, of putting A into it and of packing, s.
  double preparation_s(const advisor::Ranked& one) const;
};

/// Kernels with their default parameters. Throws an Error for a kernel that is not registered, or
/// an unknown device. A kernel that cannot be predicted there is among the excluded.
MatrixAdvice advise(const CsrMatrix& matrix, std::vector<OfferedOrder> orders,
                    const AdviceRequest& request);

/// A reordering as somebody writes it who wants its defaults: "best", "best(apply=rows, ...)".
std::string order_text(const Variant& reordering);

/// "acc_spmm, order best".
std::string way_text(const MatrixAdvice& advice, const PreparedCandidate& way);

/// What kernel = "auto" comes down to for a matrix in the order that it is to have.
struct KernelChoice {
  Variant kernel;
  Variant format;
  Json fields;         // a record's "advice": kernel, time_us, runner_up, ...
  double seconds = 0;  // of finding out
};

/// Throws Unsupported when no kernel can be predicted on the device.
KernelChoice choose_kernel(const CsrMatrix& ordered, const AdviceRequest& request);

/// What choose_kernel is to go by for a point: its device or, where it is measured, the described
/// one that this GPU is, or an h200.
AdviceRequest advice_request(const Point& point);

/// What the choice depends on beside the point and the matrix: versions of the advisor and of every
/// kernel. Part of a point's identity.
Json choice_versions();

/// The described device that a GPU of this name is: by all words of the device's name, else by the
/// one with its model number. Empty when none is.
std::string described_device(const std::string& gpu_name);

}  // namespace tessera
