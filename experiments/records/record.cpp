// The JSON form of a record. Each part lists its keys once, in visit(); a Writer and a Reader go
// through the same list.
#include "experiments/records/record.hpp"

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"

namespace tessera {

template <class V>
void visit(V& v, MatrixPart& m) {
  v("name", m.name), v("hash", m.hash), v("source", m.source), v("values", m.values);
  v("rows", m.rows), v("cols", m.cols), v("nnz", m.nnz), v("synthetic", m.synthetic);
}

template <class V>
void visit(V& v, VersionsPart& versions) {
  v("reorder_version", versions.reorder);
  v("format_version", versions.format);
  v("kernel_version", versions.kernel);
  v("advisor_version", versions.advisor);
  if (versions.advisor) v("kernel_versions", versions.kernels);
}

template <class V>
void visit(V& v, PreparationPart& p) {
  v("load_s", p.load_s), v("load_from_cache", p.load_from_cache);
  v("reorder_s", p.reorder_s), v("reorder_threads", p.reorder_threads);
  v("reorder_from_cache", p.reorder_from_cache), v("reorder_cut_short", p.reorder_cut_short);
  v("reorder_peak_bytes", p.reorder_peak_bytes), v("reorder_peak_unknown", p.reorder_peak_unknown);
  v("reorder_chosen", p.reorder_chosen);
  v("apply_s", p.apply_s), v("advise_s", p.advise_s);
  v("pack_s", p.pack_s), v("pack_gpu_s", p.pack_gpu_s);
  v("footprint_bytes", p.footprint_bytes), v("index_bytes", p.index_bytes);
  v("value_bytes", p.value_bytes);
  v("tiles", p.tiles), v("mean_nnz_tc", p.mean_nnz_tc), v("tile_density", p.tile_density);
  v("padding_ratio", p.padding_ratio), v("arrays", p.arrays);
}

template <class V>
void visit(V& v, TimeSummary& t) {
  v("median_us", t.median), v("p5_us", t.p5), v("p95_us", t.p95), v("min_us", t.min);
  v("mean_us", t.mean), v("stddev_us", t.stddev);
  v("n", t.samples), v("launches_per_sample", t.launches_per_sample);
}

template <class V>
void visit(V& v, TimePart& t) {
  visit(v, t.summary);
  v("l2", t.l2), v("launch", t.launch), v("threads", t.threads);
  v("disturbed", t.disturbed), v("measurements", t.measurements);
}

/// Rows that have stayed are a median of 0 alone.
template <class V>
void visit(V& v, RestorePart& r) {
  if (v.reads() && v.contains("n")) r.summary.emplace();
  if (r.summary) visit(v, *r.summary);
  double none = 0;
  if (!r.summary) v("median_us", none);
  v("on", r.on), v("threads", r.threads);
}

template <class V>
void visit(V& v, GpuClocks& c) {
  v("sm_mhz", c.sm_mhz), v("memory_mhz", c.memory_mhz), v("throttle_reasons", c.throttle_reasons);
}

template <class V>
void visit(V& v, ClocksPart& c) {
  v("before", c.before), v("after", c.after);
}

template <class V>
void visit(V& v, PredictedPart& p) {
  v("name", p.name), v("time_us", p.time_us), v("reason", p.reason);
}

template <class V>
void visit(V& v, PredictionPart& p) {
  v("time_us", p.time_us), v("bound_by", p.bound_by), v("parts", p.parts);
}

template <class V>
void visit(V& v, SimulationPart& s) {
  v("parts", s.parts), v("warp_time", s.warp_time), v("waves", s.waves);
  v("resident_thread_blocks", s.resident_thread_blocks), v("occupancy_limit", s.occupancy_limit);
  v("sm_balance", s.sm_balance), v("longest_thread_block_us", s.longest_thread_block_us);
  v("seconds", s.seconds), v("sampled_share", s.sampled_share);
  v("time_error_pct", s.time_error_pct), v("l2_read_error_pct", s.l2_read_error_pct);
  v("dram_read_error_pct", s.dram_read_error_pct);
  v("dram_write_error_pct", s.dram_write_error_pct), v("counter_errors", s.counter_errors);
}

template <class V>
void visit(V& v, WorkPart& w) {
  v("mma", w.mma), v("fma", w.fma), v("a_bytes", w.a_bytes), v("b_bytes", w.b_bytes);
  v("c_bytes", w.c_bytes), v("thread_blocks", w.thread_blocks);
}

template <class V>
void visit(V& v, StagePart& s) {
  v("name", s.name), v("us", s.us);
}

/// {"peak_bytes": ..}
struct MemoryPart {
  std::int64_t peak_bytes = 0;
};

template <class V>
void visit(V& v, MemoryPart& m) {
  v("peak_bytes", m.peak_bytes);
}

template <class V>
void visit(V& v, BackendFindings& f) {
  v("time", f.time), v("time_pool", f.time_pool), v("time_again", f.time_again);
  v("unpermute", f.unpermute), v("clocks", f.clocks), v("emulate_s", f.emulate_s);
  v("prediction", f.prediction), v("simulation", f.simulation);
  v("work_description", f.work_description);
  v("winner", f.winner), v("candidates_us", f.candidates_us);
  v("counters", f.counters), v("counters_source", f.counters_source);
  v("counters_l2", f.counters_l2), v("counters_missing", f.counters_missing);
  std::optional<MemoryPart> memory;
  if (f.peak_bytes) memory = MemoryPart{*f.peak_bytes};
  v("memory", memory);
  if (memory) f.peak_bytes = memory->peak_bytes;
  v("stages", f.stages);
}

template <class V>
void visit(V& v, UlpHistogramPart& h) {
  v("upper_ulp", h.upper_ulp), v("count", h.count);
}

template <class V>
void visit(V& v, ConditionPart& c) {
  v("condition_from", c.condition_from), v("count", c.count), v("median_rel", c.median_rel);
  v("max_rel", c.max_rel), v("median_backward_error", c.median_backward_error);
}

template <class V>
void visit(V& v, WorstElementPart& w) {
  v("row", w.row), v("col", w.col), v("expected", w.expected), v("computed", w.computed);
  v("bound", w.bound), v("tile", w.tile);
}

template <class V>
void visit(V& v, ProductCheck& c) {
  v("smape_pct", c.smape_pct), v("smape_common_pct", c.smape_common_pct);
  v("smape_fp32_pct", c.smape_fp32_pct), v("relative_frobenius", c.relative_frobenius);
  v("max_rel", c.max_rel);
  v("backward_error_p50", c.backward_error.p50), v("backward_error_p95", c.backward_error.p95);
  v("backward_error_p99", c.backward_error.p99), v("backward_error", c.backward_error.max);
  v("backward_error_mean", c.backward_error_mean);
  v("normwise_backward_error", c.normwise_backward_error), v("signed_bias", c.signed_bias);
  v("max_ulp", c.max_ulp), v("ulp_histogram", c.ulp_histogram);
  v("condition_p50", c.condition.p50), v("condition_p95", c.condition.p95);
  v("condition_p99", c.condition.p99), v("condition_max", c.condition.max);
  v("condition_geomean", c.condition_geomean), v("by_condition", c.by_condition);
  v("bound_ratio", c.bound_ratio), v("compared", c.compared), v("beyond_bound", c.beyond_bound);
  v("non_finite", c.non_finite), v("overflows", c.overflows), v("underflows", c.underflows);
  v("worst", c.worst), v("missing", c.missing), v("extra", c.extra);
}

template <class V>
void visit(V& v, PackingCheck& c) {
  v("round_trip_exact", c.round_trip_exact), v("host_bytes", c.host_bytes);
}

template <class V>
void visit(V& v, DifferentElement& e) {
  v("row", e.row), v("col", e.col), v("computed", e.computed), v("expected", e.expected);
}

template <class V>
void visit(V& v, BitComparison& b) {
  v("compared", b.compared), v("different", b.different), v("first", b.first);
}

template <class V>
void visit(V& v, SkipPart& s) {
  v("part", s.part), v("name", s.name);
}

template <class V>
void visit(V& v, Record& r) {
  v("params", r.params), v("params_hash", r.params_hash), v("point_id", r.point_id);
  v("finished_at", r.finished_at), v("after", r.after);
  v("status", r.status), v("reason", r.reason);
  v("skip", r.skip);
  v("origin", r.origin), v("attempt_s", r.attempt_s), v("env_id", r.env_id);
  v("experiment", r.experiment), v("config_hash", r.config_hash);
  visit(v, r.versions);
  v("matrix", r.matrix), v("right", r.right), v("prep", r.prep), v("advice", r.advice);
  v("analysis", r.analysis), v("statistics", r.statistics);
  visit(v, r.found);
  v("gflops", r.gflops), v("pool_gflops", r.pool_gflops), v("nnz_per_s", r.nnz_per_s);
  v("products", r.products), v("nnz_c", r.nnz_c), v("compression", r.compression);
  v("predicted_us", r.predicted_us), v("check", r.check), v("bits", r.bits);
}

namespace {

class Writer {
 public:
  template <class T>
  void operator()(const char* key, T& value) {
    json_[key] = json_of(value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (value) json_[key] = json_of(*value);
  }
  void operator()(const char* key, decltype(Record::check)& check) {
    if (auto* product = std::get_if<ProductCheck>(&check)) json_[key] = json_of(*product);
    if (auto* packing = std::get_if<PackingCheck>(&check)) json_[key] = json_of(*packing);
  }

  static constexpr bool reads() { return false; }
  static bool contains(const char*) { return false; }
  Json take() { return std::move(json_); }

  template <class T>
  static Json json_of(T& value) {
    if constexpr (requires(Writer & writer) { visit(writer, value); }) {
      Writer writer;
      visit(writer, value);
      return writer.take();
    } else {
      return value;
    }
  }
  template <class... Ts>
  static Json json_of(std::variant<Ts...>& value) {
    return std::visit([](const auto& held) -> Json { return held; }, value);
  }
  template <class T>
  static Json json_of(std::vector<T>& values) {
    Json list = Json::array();
    for (T& value : values) list.push_back(json_of(value));
    return list;
  }
  static Json json_of(Figures& figures) {
    Json object = Json::object();
    for (auto& [name, value] : figures) object[name] = json_of(value);
    return object;
  }

 private:
  Json json_ = Json::object();
};

class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    require(json.is_object(), "{}: an object was expected, not {}", path_, json.type_name());
  }

  template <class T>
  void operator()(const char* key, T& value) {
    require(json_.contains(key), "{} needs '{}'", path_, key);
    read(key, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (!json_.contains(key)) return ignore(key);
    read(key, value.emplace());
  }
  void operator()(const char* key, decltype(Record::check)& check) {
    if (!json_.contains(key)) return ignore(key);
    if (json_.at(key).contains("round_trip_exact"))
      read(key, check.emplace<PackingCheck>());
    else
      read(key, check.emplace<ProductCheck>());
  }

  static constexpr bool reads() { return true; }
  bool contains(const char* key) const { return json_.contains(key); }

  void allow(const char* key) { known_.emplace_back(key); }
  void refuse_unknown() const {
    for (const auto& [key, value] : json_.items())
      require(std::ranges::find(known_, key) != known_.end(), "{}: {}", path_,
              unknown_name_message("key", key, known_));
  }

 private:
  void ignore(const char* key) { known_.emplace_back(key); }

  template <class T>
  void read(const char* key, T& value) {
    known_.emplace_back(key);
    const std::string path = path_ + "." + key;
    try {
      from(json_.at(key), path, value);
    } catch (const Json::exception& error) {
      throw Error(fmt::format("{}: {}", path, error.what()));
    }
  }

  template <class T>
  static void from(const Json& json, const std::string& path, T& value) {
    if constexpr (requires(Reader & reader) { visit(reader, value); }) {
      Reader reader(json, path);
      visit(reader, value);
      reader.refuse_unknown();
    } else {
      json.get_to(value);
    }
  }
  static void from(const Json& json, const std::string&, Json& value) { value = json; }
  /// A NaN is written as null.
  static void from(const Json& json, const std::string&, double& value) {
    value = json.is_null() ? std::nan("") : json.get<double>();
  }
  static void from(const Json& json, const std::string&, NumberOrText& value) {
    if (json.is_string())
      value = json.get<std::string>();
    else
      value = json.get<double>();
  }
  static void from(const Json& json, const std::string&, ParamValue& value) {
    if (json.is_boolean())
      value = json.get<bool>();
    else if (json.is_number_integer())
      value = json.get<std::int64_t>();
    else if (json.is_string())
      value = json.get<std::string>();
    else
      value = json.is_null() ? std::nan("") : json.get<double>();
  }
  template <class T>
  static void from(const Json& json, const std::string& path, std::vector<T>& values) {
    for (const Json& item : json) from(item, path, values.emplace_back());
  }
  template <class T>
  static void from(const Json& json, const std::string& path, std::map<std::string, T>& values) {
    for (const auto& [name, value] : json.items()) from(value, path + "." + name, values[name]);
  }

  const Json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

/// Written from a copy: one visit() serves both ways, and so takes a part that can be changed.
template <class Part>
Json written(Part part) {
  return Writer::json_of(part);
}

}  // namespace

Json to_json(const Record& record) {
  Json json = written(record);
  json["schema"] = kRecordSchema;
  json["type"] = "point";
  return json;
}

Json to_json(const Figures& figures) { return written(figures); }
Json to_json(const VersionsPart& versions) { return written(versions); }
Json to_json(const PreparationPart& prep) { return written(prep); }
Json to_json(const ProductCheck& check) { return written(check); }
Json to_json(const BitComparison& bits) { return written(bits); }
Json to_json(const SkipPart& skip) { return written(skip); }
Json to_json(const NumberOrText& value) { return written(value); }

void to_json(Json& json, const Record& record) { json = to_json(record); }
void to_json(Json& json, const BitComparison& bits) { json = to_json(bits); }

Record record_from_json(const Json& json) {
  Reader reader(json, "a record");
  const Json schema = json.value("schema", Json());
  require(schema == kRecordSchema, "a record of schema {}, this program reads schema {}",
          schema.dump(), kRecordSchema);
  require(json.value("type", "") == "point", "a record of type {}, not of a point",
          json.value("type", Json()).dump());
  reader.allow("schema");
  reader.allow("type");
  Record record;
  visit(reader, record);
  reader.refuse_unknown();
  return record;
}

void add_fault(Record& record, const std::string& reason) {
  if (reason.empty()) return;
  const std::string before = record.reason.value_or("");
  record.status = "wrong";
  record.reason = before + (before.empty() ? "" : "; ") + reason;
}

}  // namespace tessera
