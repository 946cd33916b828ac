// A point: one resolved unit of work, complete and canonical, with every default filled in.
//
// People write configs; the program runs points. A point says what is done to one matrix (its
// task), and what the backend that does it needs to know. It is plain JSON with sorted keys, so
// that it can be hashed, stored in a record, sharded over machines and run again from its record
// alone.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "experiments/points/traits.hpp"
#include "formats/base/params.hpp"
#include "formats/base/registry.hpp"

namespace tessera {

using Json = nlohmann::json;  // an object's keys are sorted: its dump is canonical

/// Parameters that all copies share: of the millions that a plan may have, few differ.
class SharedParams {
 public:
  SharedParams() = default;
  SharedParams(Params params) : params_(std::make_shared<const Params>(std::move(params))) {}

  operator const Params&() const { return *params_; }
  bool operator==(const SharedParams& other) const {
    return params_ == other.params_ || values() == other.values();
  }

  // As in Params.
  bool flag(std::string_view name) const { return params_->flag(name); }
  std::int64_t integer(std::string_view name) const { return params_->integer(name); }
  double real(std::string_view name) const { return params_->real(name); }
  const std::string& text(std::string_view name) const { return params_->text(name); }
  const std::map<std::string, ParamValue, std::less<>>& values() const { return params_->values(); }

 private:
  static const std::shared_ptr<const Params>& none() {
    static const auto none = std::make_shared<const Params>();
    return none;
  }

  std::shared_ptr<const Params> params_ = none();
};

/// A registered variant with every parameter it declares.
struct Variant {
  std::string name;
  SharedParams params;

  bool operator==(const Variant&) const = default;
};

/// The rule by which a GPU launch is timed: warm-up, end at a relative noise, state of the L2
/// cache.
struct MeasureRule {
  std::string l2 = "warm";  // "warm": launches follow each other; "flush": L2 emptied before each
  // "stream": the host submits every launch; "graph": it submits those of a sample at once, as a
  // CUDA graph. A launch after an emptied L2 is always submitted.
  std::string launch = "stream";
  std::int64_t warmup = 5;  // launches before the first timed one
  std::int64_t min_samples = 20;
  std::int64_t max_samples = 1000;
  double noise = 0.01;     // stop when the standard error of the mean is below this share of it
  double max_seconds = 2;  // of timed launches

  bool operator==(const MeasureRule&) const = default;
};

/// The hardware counters read of a dense product on the GPU after its timing (counter_source.hpp).
struct CounterRule {
  std::string source;                // "auto", "cupti", ...; empty: nothing is counted
  std::vector<std::string> metrics;  // not empty where there is a source; no two alike

  bool operator==(const CounterRule&) const = default;
};

/// The comparison of a computed C with the oracle.
struct CheckRule {
  bool enabled = true;
  bool against_fp32 = false;  // also with FP32 sums; in the JSON only when true

  bool operator==(const CheckRule&) const = default;
};

/// The source of the values of A and of the other operands.
struct OperandValues {
  Variant values = {};     // a value family: "auto", "cancelling", ...
  std::uint64_t seed = 0;  // of B, or X and Y, and of drawn values of A

  bool operator==(const OperandValues&) const = default;
};

/// C = A B with a dense B of n columns.
struct DenseProduct : OperandValues {
  std::int64_t n = 0;
  Variant format = {};     // of A; kAuto, as the kernel, when the advisor picks both
  Variant kernel = {};     // a registered SpmmKernel, or kAuto
  bool unpermute = false;  // also times restoring C's rows; in the JSON only when true

  bool operator==(const DenseProduct&) const = default;
};

/// C = A B with a sparse B.
struct SparseProduct : OperandValues {
  std::string right = {};  // B: kSelf, kTranspose, or a matrix as Point::matrix
  Variant kernel = {};     // a registered SpgemmKernel
  std::string mask = {};   // C has the cells of kSelf or of a matrix as Point::matrix; empty: of
                           // the product; in the JSON only when not empty

  bool operator==(const SparseProduct&) const = default;
};

/// S = X Y^T at the nonzeros of A, X and Y dense with n columns (SDDMM; n is its K).
struct SampledProduct : OperandValues {
  std::int64_t n = 0;
  Variant format = {};  // of A
  Variant kernel = {};  // a registered SddmmKernel

  bool operator==(const SampledProduct&) const = default;
};

/// A is packed into a format; nothing is multiplied.
struct Packing : OperandValues {
  Variant format = {};
  bool square = false;  // also counts the products of A A; in the JSON only when true

  bool operator==(const Packing&) const = default;
};

/// An order of A is found; only its pattern counts.
struct Ordering {
  std::int64_t threads = 0;  // CPU threads; 0 for all

  bool operator==(const Ordering&) const = default;
};

using Task = std::variant<DenseProduct, SparseProduct, SampledProduct, Packing, Ordering>;

struct Point {
  std::string backend = {};  // "emulate", "model", "simulate", "gpu", "pack", ...
  std::string matrix = {};   // MatrixSource::reference
  Variant reorder = {};
  Task task = {};

  // The parts that the backend's traits require; the others are not part of the JSON.
  std::string device = {};    // described device
  Variant model = {};         // backend "model"
  CheckRule check = {};       // backends that compute C
  MeasureRule measure = {};   // backends that measure launches; backend "simulate" reads only l2
  CounterRule counters = {};  // backend "gpu", dense products; in the JSON only with a source
  std::string sample = {};    // backend "simulate": as in simulator::sampling_of(), or empty for
                              // "off"; in the JSON only when not empty

  bool operator==(const Point&) const = default;
};

/// The registered implementation that a variant names.
template <class T>
std::unique_ptr<T> make_registered(const Variant& variant) {
  return Registry<T>::instance().make(variant.name, variant.params);
}

/// The kernel, and with it the format, of a point that takes what the advisor picks.
inline constexpr const char* kAuto = "auto";

/// The values of a sparse B beside other matrices: A itself, or its transpose.
inline constexpr const char* kSelf = "self";
inline constexpr const char* kTranspose = "transpose";

/// The value family of a point that has none of its own: the values of the file.
inline constexpr const char* kPatternAlone = "stored";

/// The task of a point that is known to have it. Throws an Error that names the backend for a point
/// with another task.
const DenseProduct& dense_product(const Point& point);
const SparseProduct& sparse_product(const Point& point);
const SampledProduct& sampled_product(const Point& point);
const Packing& packing(const Point& point);
const Ordering& ordering(const Point& point);

/// The values of the operands; those of the file for a task that has none.
OperandValues operand_values(const Point& point);

/// Canonical JSON: what does not apply to the task and the backend is left out. Throws an Error for
/// a task that the backend does not do.
Json to_json(const Point& point);

/// The inverse. Throws an Error that names the key for anything missing, unknown or ill-typed, and
/// for variants and parameters that are not registered.
Point point_from_json(const Json& json);

/// Throws an Error "measure.noise = ..." for a rule no measurement can follow.
void validate(const MeasureRule& rule);

/// Throws an Error for an unknown source, no metrics, or a metric named twice.
void validate(const CounterRule& rule);

/// "auto", "cancelling(condition=10000)": a variant as one word, every parameter written. This is
/// how the JSON form has the values, and matrices and tables name them.
std::string to_text(const Variant& variant);

/// The inverse for value families, defaults filled in. Throws an Error for what is not registered.
Variant parse_values(std::string_view text);

/// The task as text for messages: "n=128 none acc_spmm", "x self none csr_spgemm", "rcm bit_tcf".
std::string task_text(const Point& point);

/// The values of `l2`.
const std::vector<std::string>& l2_choices();

/// The values of `launch`.
const std::vector<std::string>& launch_choices();

/// Whether the launches of a task can be those of a CUDA graph: no host waits within.
bool is_replayable(const Task& task);

/// 16 hexadecimal digits over the canonical JSON: identifies the request. The identity of a result
/// (a record's point_id) also covers the matrix content and the kernel version.
std::string params_hash(const Point& point);

/// params_hash() of points that differ only in their matrix.
class HashByMatrix {
 public:
  explicit HashByMatrix(const Point& point);

  /// `quoted_matrix` is the name as JSON.
  std::string of(const std::string& quoted_matrix) const;

 private:
  std::string before_, after_;  // of the canonical JSON, around the name of the matrix
};

}  // namespace tessera
