// A record: what happened to one point in one attempt, as typed parts. One line of JSON each
// (record_set.hpp); columns.hpp lists the columns that tables read out of that JSON.
//
// Every part is absent until something has found it. A backend fills BackendFindings; the runner of
// points adds the matrix, the preparation and the checks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "experiments/points/point.hpp"
#include "model/model.hpp"

namespace tessera {

inline constexpr int kRecordSchema = 1;

/// Named figures of a matrix or of a model.
using Figures = std::map<std::string, ParamValue>;

/// A number, or text for a value without a JSON number: "nan", "inf", "absent".
using NumberOrText = std::variant<double, std::string>;

/// A loaded matrix, as given.
struct MatrixPart {
  std::string name = {};    // short, as in tables
  std::string hash = {};    // of its content
  std::string source = {};  // canonical: a path or a generator's call
  std::string values = {};  // the value family, with "auto" resolved
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;
  bool synthetic = false;
};

/// Versions of the code that decides values and speed.
struct VersionsPart {
  std::optional<std::int64_t> reorder = {};
  std::optional<std::int64_t> format = {};
  std::optional<std::int64_t> kernel = {};
  std::optional<std::int64_t> advisor = {};          // kernel "auto"
  std::map<std::string, std::int64_t> kernels = {};  // kernel "auto": of all that it may pick
};

/// The steps before the product: their seconds, and the packed A.
struct PreparationPart {
  std::optional<double> load_s = {};
  std::optional<bool> load_from_cache = {};
  std::optional<double> reorder_s = {};
  std::optional<std::int64_t> reorder_threads = {};
  std::optional<bool> reorder_from_cache = {};
  std::optional<bool> reorder_cut_short = {};
  std::optional<std::int64_t> reorder_peak_bytes = {};
  std::optional<std::string> reorder_peak_unknown = {};  // the reason when it is not known
  std::optional<std::string> reorder_chosen = {};
  std::optional<double> apply_s = {};
  std::optional<double> advise_s = {};
  std::optional<double> pack_s = {};
  std::optional<double> pack_gpu_s = {};
  std::optional<std::int64_t> footprint_bytes = {};
  std::optional<std::int64_t> index_bytes = {};
  std::optional<std::int64_t> value_bytes = {};
  std::optional<std::int64_t> tiles = {};
  std::optional<double> mean_nnz_tc = {};
  std::optional<double> tile_density = {};
  std::optional<double> padding_ratio = {};
  std::optional<std::map<std::string, std::int64_t>> arrays = {};  // bytes of each
};

/// Order statistics over the samples of a time, in microseconds of one launch or one packing.
struct TimeSummary {
  double median = 0, p5 = 0, p95 = 0, min = 0, mean = 0, stddev = 0;
  std::int64_t samples = 0;
  std::int64_t launches_per_sample = 1;
};

/// A measured time and its circumstances.
struct TimePart {
  TimeSummary summary = {};
  std::optional<std::string> l2 = {};             // of launches: "warm" or "flush"
  std::optional<std::string> launch = {};         // "graph" where a CUDA graph replayed them
  std::optional<std::int64_t> threads = {};       // of host work: CPU threads it could use
  std::optional<std::string> disturbed = {};      // what slowed the GPU down meanwhile
  std::optional<std::int64_t> measurements = {};  // where it was measured again for that: of them
};

/// Restoring the order of C's rows. Without a summary the rows have stayed, which takes no time.
struct RestorePart {
  std::optional<TimeSummary> summary = {};
  std::optional<std::string> on = {};  // "cpu" or "gpu"
  std::optional<std::int64_t> threads = {};
};

struct ClocksPart {
  GpuClocks before = {};
  GpuClocks after = {};
};

struct PredictionPart {
  double time_us = 0;
  std::string bound_by = {};
  std::optional<std::vector<PredictedPart>> parts = {};  // of an analytic model
};

/// The parts of a simulation beside its prediction (model/simulator/report.hpp).
struct SimulationPart {
  std::vector<PredictedPart> parts = {};
  std::map<std::string, double> warp_time = {};
  double waves = 0;
  std::int64_t resident_thread_blocks = 0;
  std::string occupancy_limit = {};
  double sm_balance = 0;
  double longest_thread_block_us = 0;
  double seconds = 0;  // that the simulation took
  std::optional<double> sampled_share = {};
  std::optional<double> time_error_pct = {};  // half the 95 % interval that sampling leaves
  std::optional<double> l2_read_error_pct = {};
  std::optional<double> dram_read_error_pct = {};
  std::optional<double> dram_write_error_pct = {};
  std::optional<std::map<std::string, double>> counter_errors = {};
};

/// Sums over the thread blocks of a work description.
struct WorkPart {
  std::int64_t mma = 0;
  std::int64_t fma = 0;
  std::int64_t a_bytes = 0;
  std::int64_t b_bytes = 0;
  std::int64_t c_bytes = 0;
  std::int64_t thread_blocks = 0;
};

/// A stage of a sparse product.
struct StagePart {
  std::string name = {};
  double us = 0;
};

/// Metric -> value of one product, all its kernels together; counts, bytes, ns, percent.
using CounterValues = std::map<std::string, double>;

/// Everything that a backend reports.
struct BackendFindings {
  std::optional<TimePart> time = {};
  std::optional<TimePart> time_pool = {};   // a sparse product with memory from a pool
  std::optional<TimePart> time_again = {};  // a sparse product repeated for other values
  std::optional<RestorePart> unpermute = {};
  std::optional<ClocksPart> clocks = {};
  std::optional<double> emulate_s = {};
  std::optional<PredictionPart> prediction = {};
  std::optional<SimulationPart> simulation = {};
  std::optional<WorkPart> work_description = {};
  std::optional<std::string> winner = {};  // the library's algorithm, or the kernel chosen
  std::optional<std::map<std::string, double>> candidates_us = {};
  std::optional<CounterValues> counters = {};
  std::optional<std::string> counters_source = {};
  std::optional<std::string> counters_l2 = {};
  std::optional<std::string> counters_missing = {};  // the reason when nothing was counted
  std::optional<std::int64_t> peak_bytes = {};       // of device memory, C included
  std::optional<std::vector<StagePart>> stages = {};
};

struct UlpHistogramPart {
  std::vector<double> upper_ulp = {};
  std::vector<std::int64_t> count = {};
};

/// Columns of a table with one row per decade of condition numbers that is not empty.
struct ConditionPart {
  std::vector<double> condition_from = {};
  std::vector<std::int64_t> count = {};
  std::vector<double> median_rel = {};
  std::vector<double> max_rel = {};
  std::vector<double> median_backward_error = {};
};

/// The element of C with the largest error, relative to its bound.
struct WorstElementPart {
  std::int64_t row = 0;
  std::int64_t col = 0;
  double expected = 0;
  NumberOrText computed = 0.0;
  double bound = 0;
  std::string tile = {};  // where the row is in the packed A
};

struct QuantilesPart {
  double p50 = 0, p95 = 0, p99 = 0, max = 0;
};

/// C against fp64 truth (oracle/product_errors.hpp). Infinity is written as 1e300.
struct ProductCheck {
  double smape_pct = 0;
  double smape_common_pct = 0;
  std::optional<double> smape_fp32_pct = {};
  double relative_frobenius = 0;
  double max_rel = 0;
  QuantilesPart backward_error = {};
  double backward_error_mean = 0;
  double normwise_backward_error = 0;
  double signed_bias = 0;
  double max_ulp = 0;
  UlpHistogramPart ulp_histogram = {};
  QuantilesPart condition = {};
  double condition_geomean = 0;
  ConditionPart by_condition = {};
  double bound_ratio = 0;
  std::int64_t compared = 0;
  std::int64_t beyond_bound = 0;
  std::int64_t non_finite = 0;
  std::int64_t overflows = 0;
  std::int64_t underflows = 0;
  std::optional<WorstElementPart> worst = {};
  std::optional<std::int64_t> missing = {};  // cells of the true pattern that a sparse C lacks
  std::optional<std::int64_t> extra = {};    // cells of a sparse C outside the true pattern
};

/// A packed matrix against the one it was made from.
struct PackingCheck {
  bool round_trip_exact = false;
  std::optional<bool> host_bytes = {};  // packed on the GPU: every array has the host's bytes
};

/// An element of C and of its emulation whose bits differ.
struct DifferentElement {
  std::int64_t row = 0;
  std::int64_t col = 0;
  NumberOrText computed = 0.0;
  NumberOrText expected = 0.0;

  bool operator==(const DifferentElement&) const = default;
};

/// C against its emulation, bit by bit.
struct BitComparison {
  std::int64_t compared = 0;
  std::int64_t different = 0;
  std::optional<DifferentElement> first = {};

  bool operator==(const BitComparison&) const = default;
};

/// SkipPart::part of a matrix that is not on this machine.
inline constexpr const char* kAbsentMatrix = "absent matrix";

/// The cause of a skipped point: the part of the request that cannot be had, or done, here. Points
/// with one cause need one remedy.
struct SkipPart {
  std::string part = {};  // kAbsentMatrix, "matrix", "backend", "order", "format", "kernel", ...
  std::string name = {};  // of it: "cora", "gpu", "rcm", ...

  auto operator<=>(const SkipPart&) const = default;
};

struct Record {
  Json params = Json::object();  // the point, canonical
  std::string params_hash = {};
  std::string point_id = {};
  std::string finished_at = {};  // UTC
  // The time of the attempt that this one replaces, if the clock puts that attempt no earlier.
  std::optional<std::string> after = {};
  std::string status = {};  // "ok", "skipped", "failed", "timeout", "oom", "wrong"
  std::optional<std::string> reason = {};
  std::optional<SkipPart> skip = {};       // of a skipped point
  std::optional<std::string> origin = {};  // "emulated", "simulated", "modelled", "measured"
  std::optional<double> attempt_s = {};
  std::optional<std::string> env_id = {};
  std::optional<std::string> experiment = {};
  std::optional<std::string> config_hash = {};
  VersionsPart versions = {};

  std::optional<MatrixPart> matrix = {};
  std::optional<MatrixPart> right = {};  // a sparse B that is a matrix of its own
  std::optional<PreparationPart> prep = {};
  std::optional<Json> advice = {};  // as run/advice.hpp writes it: kernel "auto"
  std::optional<Figures> analysis = {};
  std::optional<Figures> statistics = {};
  BackendFindings found = {};
  std::optional<double> gflops = {};
  std::optional<double> pool_gflops = {};
  std::optional<double> nnz_per_s = {};
  std::optional<std::int64_t> products = {};
  std::optional<std::int64_t> nnz_c = {};
  std::optional<double> compression = {};
  std::optional<std::map<std::string, double>> predicted_us = {};  // by kernel, of one that chooses
  std::variant<std::monostate, ProductCheck, PackingCheck> check = {};
  std::optional<BitComparison> bits = {};
};

Json to_json(const Record& record);
Json to_json(const Figures& figures);
Json to_json(const VersionsPart& versions);
Json to_json(const PreparationPart& prep);
Json to_json(const ProductCheck& check);
Json to_json(const BitComparison& bits);
Json to_json(const SkipPart& skip);
Json to_json(const NumberOrText& value);

/// These let a Json be initialised with a part (nlohmann's form of the functions above).
void to_json(Json& json, const Record& record);
void to_json(Json& json, const BitComparison& bits);

/// The inverse. Throws an Error that names the key for anything missing, unknown or ill-typed.
Record record_from_json(const Json& json);

/// Appends a reason to the record's, and makes the record "wrong". An empty one changes nothing.
void add_fault(Record& record, const std::string& reason);

}  // namespace tessera
