// A point: one resolved unit of work, complete and canonical, with every default filled in.
//
// People write configs; the program runs points. A point is plain JSON with sorted keys, so that it
// can be hashed, stored in a record, sharded over machines and run again from its record alone.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/params.hpp"

namespace tessera {

using Json = nlohmann::json;  // an object's keys are sorted: its dump is canonical

/// A registered variant with every parameter it declares.
struct Variant {
  std::string name;
  Params params;
};

/// How a GPU launch is timed (warm-up, stop at a relative noise, state of the L2 cache).
struct MeasureRule {
  std::string l2 = "warm";  // "warm": launches follow each other; "flush": L2 emptied before each
  std::int64_t warmup = 5;  // launches before the first timed one
  std::int64_t min_samples = 20;
  std::int64_t max_samples = 1000;
  double noise = 0.01;     // stop when the standard error of the mean is below this share of it
  double max_seconds = 2;  // of timed launches
};

/// What is counted of a product on the GPU, once it has been timed (counter_source.hpp).
struct CounterRule {
  std::string source;                // "auto", "cupti", ...; empty: nothing is counted
  std::vector<std::string> metrics;  // not empty where there is a source; no two alike
};

struct Point {
  std::string backend;     // "emulate", "model", "simulate", "gpu", "pack", ...
  std::string matrix;      // MatrixSource::reference
  std::int64_t n = 0;      // columns of a dense B; 0 otherwise
  std::string right = {};  // a sparse B: kSelf, kTranspose, or a matrix as above; empty otherwise
  std::uint64_t seed = 0;  // of B, and of drawn values of A
  Variant values;          // of A and B: a value family, "auto" or "cancelling"
  Variant reorder;
  Variant format;             // name empty where A is only reordered
  Variant kernel;             // name empty without a product; kAuto, as format, if left open
  Variant model;              // backend "model" only; name empty otherwise
  std::string device;         // described device; empty for backends that measure
  bool check = true;          // compare C with the oracle; backends that compute C
  bool against_fp32 = false;  // and with FP32 sums; in the JSON only when asked for
  bool unpermute = false;     // dense B: also times restoring C's rows; in the JSON when asked for
  bool square = false;        // where only A is packed: also counts A A; in the JSON when asked for
  std::int64_t threads = 0;   // backend "reorder" only; 0 for all
  MeasureRule measure;        // backend "gpu"; of backend "simulate", l2
  CounterRule counters;       // backend "gpu", dense B; in the JSON only when asked for
  std::string sample;         // backend "simulate": as in simulator::sampling_of(), or empty for
                              // "off"; in the JSON only when asked for
};

/// The kernel, and with it the format, of a point that takes what the advisor picks.
inline constexpr const char* kAuto = "auto";

/// What may stand as a sparse B, beside other matrices: A itself, or its transpose.
inline constexpr const char* kSelf = "self";
inline constexpr const char* kTranspose = "transpose";

/// How far a point goes. A product needs a kernel, n, values and what the kernel reads; one by a
/// sparse B needs a kernel of that kind, that B and values; packing has a format, chosen freely,
/// and values; reordering has neither, since only the pattern counts.
enum class Task { kMultiply, kSparseProduct, kPack, kReorder };

/// What of a point a backend looks at; the rest is left out of the canonical JSON.
struct BackendTraits {
  std::string name;
  Task task = Task::kMultiply;  // and kSparseProduct, as task_of() says
  bool computes_c = false;      // check
  bool needs_device = false;    // device
  bool predicts = false;        // model
  bool measures = false;        // measure
  bool simulates = false;       // of measure, l2
  bool counts = false;          // counters
  bool needs_gpu = false;       // part of the CUDA half
};

/// Throws an Error with the nearest name for a backend a point cannot ask for.
const BackendTraits& backend_traits(std::string_view backend);

/// What a point of the backend does. Of those that multiply, the kernel says whether B is sparse.
Task task_of(const BackendTraits& backend, std::string_view kernel);
Task task_of(const Point& point);

/// Canonical JSON: what does not apply to the backend is left out.
Json to_json(const Point& point);

/// The inverse. Throws an Error that names the key for anything missing, unknown or ill-typed, and
/// for variants and parameters that are not registered.
Point point_from_json(const Json& json);

/// What [counters] source may be, registered in this build or not: "none", "auto", ...
const std::vector<std::string>& counter_sources();

/// Throws an Error "measure.noise = ..." for a rule no measurement can follow.
void validate(const MeasureRule& rule);

/// Throws an Error for a source that is none, no metrics, or one twice.
void validate(const CounterRule& rule);

/// "auto", "cancelling(condition=10000)": a variant as one word, every parameter written. This is
/// how the JSON form has the values, and matrices and tables name them.
std::string to_text(const Variant& variant);

/// The inverse for value families, defaults filled in. Throws an Error for what is not registered.
Variant parse_values(std::string_view text);

/// "n=128 none acc_spmm", "x self none csr_spgemm", "rcm bit_tcf": what is done to the matrix, for
/// messages.
std::string task_text(const Point& point);

/// The values of a point that has none of its own: those of the file.
inline constexpr const char* kPatternAlone = "stored";

/// What `l2` may be.
const std::vector<std::string>& l2_choices();

/// 16 hexadecimal digits over the canonical JSON: identifies the request. The identity of a result
/// (a record's point_id) also covers the matrix content and the kernel version.
std::string params_hash(const Point& point);

}  // namespace tessera
