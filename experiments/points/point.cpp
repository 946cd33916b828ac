#include "experiments/points/point.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/points/any_kernel.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/values/value_family.hpp"
#include "model/model.hpp"
#include "model/simulator/sampling.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

const std::vector<BackendTraits>& all_backend_traits() {
  static const std::vector<BackendTraits> traits{
      {.name = "emulate", .computes_c = true, .needs_device = true},
      {.name = "gpu", .computes_c = true, .measures = true, .counts = true, .needs_gpu = true},
      {.name = "model", .needs_device = true, .predicts = true},
      {.name = "simulate", .needs_device = true, .simulates = true},
      {.name = "pack", .task = Task::kPack},
      {.name = "pack_gpu", .task = Task::kPack, .measures = true, .needs_gpu = true},
      {.name = "reorder", .task = Task::kReorder}};
  return traits;
}

Json variant_json(const Variant& variant) {
  Json json{{"name", variant.name}};
  for (const auto& [name, value] : variant.params.values())
    std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

/// An object of the JSON form: every key has to be asked for, and of the type asked for.
class ObjectReader {
 public:
  ObjectReader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    require(json.is_object(), "{}: an object was expected, not {}",
            path_.empty() ? "a point" : path_, json.type_name());
  }

  const Json& at(const std::string& key) {
    known_.push_back(key);
    require(json_.contains(key), "a point needs '{}'", name(key));
    return json_.at(key);
  }
  std::string text(const std::string& key) {
    return typed(key, at(key).is_string(), "text").get<std::string>();
  }
  bool flag(const std::string& key) {
    return typed(key, at(key).is_boolean(), "true or false").get<bool>();
  }
  /// A flag that is there only when it is true.
  bool wish(const std::string& key) {
    if (!json_.contains(key)) return false;
    require(flag(key), "{}: a point has it only when it is true", name(key));
    return true;
  }
  double number(const std::string& key) {
    return typed(key, at(key).is_number(), "a number").get<double>();
  }
  std::int64_t integer(const std::string& key) {
    const Json& value = typed(key, at(key).is_number_integer(), "an integer");
    const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX;
    return typed(key, fits, "a signed 64-bit integer").get<std::int64_t>();
  }
  std::uint64_t unsigned_integer(const std::string& key) {
    const Json& value = typed(key, at(key).is_number_integer(), "an integer");
    const bool fits = value.is_number_unsigned() || value.get<std::int64_t>() >= 0;
    return typed(key, fits, "an integer of at least 0").get<std::uint64_t>();
  }
  std::string choice(const std::string& key, const std::vector<std::string>& choices) {
    const std::string value = text(key);
    require(std::ranges::find(choices, value) != choices.end(), "{}: {}", name(key),
            unknown_name_message("value", value, choices));
    return value;
  }

  void refuse_unknown() const {
    for (const auto& [key, value] : json_.items())
      require(std::ranges::find(known_, key) != known_.end(), "{}",
              unknown_name_message("key of a point", name(key), known_));
  }

 private:
  std::string name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  const Json& typed(const std::string& key, bool holds, const char* expected) {
    require(holds, "{}: {} was expected, not {}", name(key), expected, json_.at(key).dump());
    return json_.at(key);
  }

  const Json& json_;
  std::string path_;
  std::vector<std::string> known_;
};

Params::Given read_params(const Json& json, ObjectReader& reader) {
  Params::Given given;
  for (const auto& [name, value] : json.items()) {
    if (name == "name") continue;
    if (value.is_boolean())
      given[name] = value.get<bool>();
    else if (value.is_number_integer())
      given[name] = reader.integer(name);
    else if (value.is_number_float())
      given[name] = value.get<double>();
    else
      given[name] = reader.text(name);
  }
  return given;
}

/// The registered variants of a kind, or of several.
struct Kind {
  const std::vector<ParamSpec>& (*params)(const std::string& name);
  Params (*resolve)(const std::string& name, const Params::Given& given);
};

template <class T>
Kind registered() {
  return {[](const std::string& name) -> const std::vector<ParamSpec>& {
            return Registry<T>::instance().find(name).params;
          },
          [](const std::string& name, const Params::Given& given) {
            return Registry<T>::instance().resolve(name, given);
          }};
}

/// The JSON form holds every parameter, so one that is missing is an error here and no default.
Variant read_variant(const Json& json, const std::string& key, const Kind& kind) {
  ObjectReader reader(json, key);
  Variant variant{reader.text("name"), {}};
  variant.params = kind.resolve(variant.name, read_params(json, reader));
  for (const ParamSpec& spec : kind.params(variant.name)) reader.at(spec.name);
  return variant;
}

bool is_auto(const Json& json) { return json == Json{{"name", kAuto}}; }

Variant read_format(const Json& json) { return read_variant(json, "format", registered<Format>()); }

Variant read_kernel(const Json& json) {
  return is_auto(json) ? Variant{kAuto, {}}
                       : read_variant(json, "kernel", {kernel_params, resolve_kernel});
}

void read_dense_product(ObjectReader& reader, Point& point) {
  const Json& format = reader.at("format");
  point.format = is_auto(format) ? Variant{kAuto, {}} : read_format(format);
  point.n = reader.integer("n");
  require(point.n >= 1, "n: at least 1 column was expected, not {}", point.n);
  require((point.kernel.name == kAuto) == (point.format.name == kAuto),
          "kernel {} with format {}: both are {} or neither", point.kernel.name, point.format.name,
          kAuto);
}

/// Text, in the one form that it has in a point: hashes are over it.
Variant read_values(const std::string& text) {
  Variant values = parse_values(text);
  require(text == to_text(values), "values: '{}' is '{}' in a point", text, to_text(values));
  return values;
}

MeasureRule read_measure(const Json& json) {
  ObjectReader reader(json, "measure");
  MeasureRule rule{.l2 = reader.choice("l2", l2_choices()),
                   .warmup = reader.integer("warmup"),
                   .min_samples = reader.integer("min_samples"),
                   .max_samples = reader.integer("max_samples"),
                   .noise = reader.number("noise"),
                   .max_seconds = reader.number("max_seconds")};
  reader.refuse_unknown();
  validate(rule);
  return rule;
}

CounterRule read_counters(const Json& json) {
  ObjectReader reader(json, "counters");
  CounterRule rule{reader.text("source"), {}};
  require(reader.at("metrics").is_array(), "counters.metrics: a list was expected, not {}",
          reader.at("metrics").dump());
  for (const Json& metric : reader.at("metrics")) {
    require(metric.is_string(), "counters.metrics: a name was expected, not {}", metric.dump());
    rule.metrics.push_back(metric);
  }
  reader.refuse_unknown();
  validate(rule);
  return rule;
}

}  // namespace

std::string to_text(const Variant& variant) {
  if (variant.params.values().empty()) return variant.name;
  std::vector<std::string> params;
  for (const auto& [name, value] : variant.params.values())
    params.push_back(fmt::format("{}={}", name, quote_value(to_text(value))));
  return fmt::format("{}({})", variant.name, fmt::join(params, ", "));
}

std::string task_text(const Point& point) {
  switch (task_of(point)) {
    case Task::kReorder:
      return point.threads == 0
                 ? to_text(point.reorder)
                 : fmt::format("{} threads={}", to_text(point.reorder), point.threads);
    case Task::kPack:
      return fmt::format("{} {}", point.reorder.name, to_text(point.format));
    case Task::kSparseProduct:
      return fmt::format("x {} {} {}", point.right, point.reorder.name, point.kernel.name);
    case Task::kMultiply:
      break;
  }
  return fmt::format("n={} {} {}", point.n, point.reorder.name, point.kernel.name);
}

Variant parse_values(std::string_view text) {
  const Call call = parse_call(text);
  return {call.name, Registry<ValueFamily>::instance().resolve(call.name, call.given)};
}

const std::vector<std::string>& l2_choices() {
  static const std::vector<std::string> choices{"warm", "flush"};
  return choices;
}

const std::vector<std::string>& counter_sources() {
  static const std::vector<std::string> names{"none", "auto", "cupti", "ncu", "external"};
  return names;
}

const BackendTraits& backend_traits(std::string_view backend) {
  std::vector<std::string> names;
  for (const BackendTraits& traits : all_backend_traits()) {
    if (traits.name == backend) return traits;
    names.push_back(traits.name);
  }
  throw Error(unknown_name_message("backend", backend, names));
}

Task task_of(const BackendTraits& backend, std::string_view kernel) {
  return backend.task == Task::kMultiply && is_sparse_product(kernel) ? Task::kSparseProduct
                                                                      : backend.task;
}

Task task_of(const Point& point) {
  return task_of(backend_traits(point.backend), point.kernel.name);
}

void validate(const MeasureRule& rule) {
  require(rule.warmup >= 0, "measure.warmup = {}: it takes 0 or more launches", rule.warmup);
  require(rule.min_samples >= 1, "measure.min_samples = {}: it takes at least 1", rule.min_samples);
  require(rule.max_samples >= rule.min_samples,
          "measure.max_samples = {} is below measure.min_samples = {}", rule.max_samples,
          rule.min_samples);
  require(rule.noise >= 0 && std::isfinite(rule.noise), "measure.noise = {}: it takes 0 or more",
          rule.noise);
  require(rule.max_seconds > 0 && std::isfinite(rule.max_seconds),
          "measure.max_seconds = {}: it takes more than 0", rule.max_seconds);
}

void validate(const CounterRule& rule) {
  const auto& sources = counter_sources();
  require(std::ranges::find(sources, rule.source) != sources.end() && rule.source != "none",
          "counters.source: {}", unknown_name_message("source", rule.source, sources));
  require(!rule.metrics.empty(), "counters.metrics: at least one metric was expected");
  std::set<std::string> seen;
  for (const std::string& metric : rule.metrics)
    require(seen.insert(metric).second, "counters.metrics: {} is there twice", metric);
}

Json to_json(const Point& point) {
  const BackendTraits& backend = backend_traits(point.backend);
  const Task task = task_of(point);
  const bool by_dense = task == Task::kMultiply;
  Json json{{"backend", point.backend},
            {"matrix", point.matrix},
            {"reorder", variant_json(point.reorder)}};
  if (task == Task::kReorder) {
    json["threads"] = point.threads;
  } else {
    json["values"] = to_text(point.values);
    json["seed"] = point.seed;
  }
  if (by_dense || task == Task::kPack) json["format"] = variant_json(point.format);
  if (by_dense) json["n"] = point.n;
  if (task == Task::kSparseProduct) json["right"] = point.right;
  if (by_dense || task == Task::kSparseProduct) json["kernel"] = variant_json(point.kernel);
  if (backend.predicts) json["model"] = variant_json(point.model);
  if (backend.needs_device) json["device"] = point.device;
  if (backend.computes_c) json["check"] = point.check;
  if (backend.computes_c && point.against_fp32) json["against_fp32"] = true;
  if (backend.computes_c && by_dense && point.unpermute) json["unpermute"] = true;
  if (task == Task::kPack && point.square) json["square"] = true;
  if (backend.measures)
    json["measure"] = {{"l2", point.measure.l2},
                       {"warmup", point.measure.warmup},
                       {"min_samples", point.measure.min_samples},
                       {"max_samples", point.measure.max_samples},
                       {"noise", point.measure.noise},
                       {"max_seconds", point.measure.max_seconds}};
  if (backend.simulates) json["measure"] = {{"l2", point.measure.l2}};
  if (backend.simulates && !point.sample.empty()) json["sample"] = point.sample;
  if (backend.counts && by_dense && !point.counters.source.empty())
    json["counters"] = {{"source", point.counters.source}, {"metrics", point.counters.metrics}};
  return json;
}

Point point_from_json(const Json& json) {
  ObjectReader reader(json, "");
  Point point;
  point.backend = reader.text("backend");
  const BackendTraits& backend = backend_traits(point.backend);
  point.matrix = reader.text("matrix");
  point.reorder = read_variant(reader.at("reorder"), "reorder", registered<Reordering>());
  if (backend.task == Task::kMultiply) point.kernel = read_kernel(reader.at("kernel"));
  const Task task = task_of(point);
  const bool by_dense = task == Task::kMultiply;
  if (task == Task::kReorder) {
    point.values = parse_values(kPatternAlone);
    point.threads = reader.integer("threads");
    require(point.threads >= 0, "threads: at least 0, for all, was expected, not {}",
            point.threads);
  } else {
    point.values = read_values(reader.text("values"));
    point.seed = reader.unsigned_integer("seed");
  }
  if (task == Task::kPack) point.format = read_format(reader.at("format"));
  if (by_dense) read_dense_product(reader, point);
  if (task == Task::kSparseProduct) point.right = reader.text("right");
  if (backend.predicts)
    point.model = read_variant(reader.at("model"), "model", registered<Model>());
  if (backend.needs_device) point.device = reader.text("device");
  if (backend.computes_c) point.check = reader.flag("check");
  if (backend.computes_c) {
    point.against_fp32 = reader.wish("against_fp32");
    if (by_dense) point.unpermute = reader.wish("unpermute");
  }
  if (task == Task::kPack) point.square = reader.wish("square");
  if (backend.measures) point.measure = read_measure(reader.at("measure"));
  if (backend.simulates) {
    ObjectReader measure(reader.at("measure"), "measure");
    point.measure.l2 = measure.choice("l2", l2_choices());
    measure.refuse_unknown();
    if (json.contains("sample")) {
      point.sample = reader.text("sample");
      require(simulator::sampling_of(point.sample).stretches > 0,
              "sample: a point has it only when it is not {}", point.sample);
    }
  }
  if (backend.counts && by_dense && json.contains("counters"))
    point.counters = read_counters(reader.at("counters"));
  reader.refuse_unknown();
  return point;
}

std::string params_hash(const Point& point) { return hash_text(to_json(point).dump()); }

}  // namespace tessera
