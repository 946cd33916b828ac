// The JSON form of a point, both ways. One pair of functions per task and per rule.
#include <algorithm>

#include "experiments/points/any_kernel.hpp"
#include "experiments/points/point.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/values/value_family.hpp"
#include "model/model.hpp"
#include "model/simulator/sampling.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

Json variant_json(const Variant& variant) {
  Json json{{"name", variant.name}};
  for (const auto& [name, value] : variant.params.values())
    std::visit([&, &key = name](const auto& v) { json[key] = v; }, value);
  return json;
}

/// An object of the JSON form. Each key has to be read by one of these functions, with its type.
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
  /// A flag that is present only when it is true.
  bool optional_flag(const std::string& key) {
    if (!json_.contains(key)) return false;
    require(flag(key), "{}: a point has it only when it is true", name(key));
    return true;
  }
  /// A text that is present only when it is not empty.
  std::string optional_text(const std::string& key) {
    if (!json_.contains(key)) return "";
    std::string found = text(key);
    require(!found.empty(), "{}: a point has it only when it is not empty", name(key));
    return found;
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

Variant read_format(ObjectReader& reader) {
  return read_variant(reader.at("format"), "format", registered<Format>());
}

Variant read_kernel(const Json& json) {
  return is_auto(json) ? Variant{kAuto, {}}
                       : read_variant(json, "kernel", {kernel_params, resolve_kernel});
}

/// Text in the one form that it has in a point, since hashes cover it.
Variant read_values(const std::string& text) {
  Variant values = parse_values(text);
  require(text == to_text(values), "values: '{}' is '{}' in a point", text, to_text(values));
  return values;
}

MeasureRule read_measure(const Json& json) {
  ObjectReader reader(json, "measure");
  MeasureRule rule{.l2 = reader.choice("l2", l2_choices()),
                   .launch = json.contains("launch") ? reader.choice("launch", launch_choices())
                                                     : MeasureRule{}.launch,
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

void write_operands(const OperandValues& operands, Json& json) {
  json["values"] = to_text(operands.values);
  json["seed"] = operands.seed;
}

void read_operands(ObjectReader& reader, OperandValues& operands) {
  operands.values = read_values(reader.text("values"));
  operands.seed = reader.unsigned_integer("seed");
}

/// A product of `n` columns with a packed A.
template <class Product>
void write_dense_columns(const Product& product, Json& json) {
  write_operands(product, json);
  json["format"] = variant_json(product.format);
  json["n"] = product.n;
  json["kernel"] = variant_json(product.kernel);
}

template <class Product>
Product read_dense_columns(ObjectReader& reader, Variant kernel) {
  Product product;
  read_operands(reader, product);
  product.kernel = std::move(kernel);
  product.format = is_auto(reader.at("format")) ? Variant{kAuto, {}} : read_format(reader);
  product.n = reader.integer("n");
  require(product.n >= 1, "n: at least 1 column was expected, not {}", product.n);
  require((product.kernel.name == kAuto) == (product.format.name == kAuto),
          "kernel {} with format {}: both are {} or neither", product.kernel.name,
          product.format.name, kAuto);
  return product;
}

void write_task(const DenseProduct& product, Json& json) {
  write_dense_columns(product, json);
  if (product.unpermute) json["unpermute"] = true;
}

void write_task(const SampledProduct& product, Json& json) { write_dense_columns(product, json); }

void write_task(const SparseProduct& product, Json& json) {
  write_operands(product, json);
  json["right"] = product.right;
  json["kernel"] = variant_json(product.kernel);
  if (!product.mask.empty()) json["mask"] = product.mask;
}

void write_task(const Packing& packing, Json& json) {
  write_operands(packing, json);
  json["format"] = variant_json(packing.format);
  if (packing.square) json["square"] = true;
}

void write_task(const Ordering& ordering, Json& json) { json["threads"] = ordering.threads; }

DenseProduct read_dense_product(ObjectReader& reader, Variant kernel, bool computes_c) {
  auto product = read_dense_columns<DenseProduct>(reader, std::move(kernel));
  if (computes_c) product.unpermute = reader.optional_flag("unpermute");
  return product;
}

SparseProduct read_sparse_product(ObjectReader& reader, Variant kernel) {
  SparseProduct product;
  read_operands(reader, product);
  product.kernel = std::move(kernel);
  product.right = reader.text("right");
  product.mask = reader.optional_text("mask");
  return product;
}

Packing read_packing(ObjectReader& reader) {
  Packing packing;
  read_operands(reader, packing);
  packing.format = read_format(reader);
  packing.square = reader.optional_flag("square");
  return packing;
}

Ordering read_ordering(ObjectReader& reader) {
  const Ordering ordering{.threads = reader.integer("threads")};
  require(ordering.threads >= 0, "threads: at least 0, for all, was expected, not {}",
          ordering.threads);
  return ordering;
}

/// The kernel decides which of the three products it is.
Task read_task(ObjectReader& reader, const BackendTraits& backend) {
  if (backend.activity == Activity::kReorder) return read_ordering(reader);
  if (backend.activity == Activity::kPack) return read_packing(reader);
  Variant kernel = read_kernel(reader.at("kernel"));
  if (is_sparse_product(kernel.name)) return read_sparse_product(reader, std::move(kernel));
  if (is_sampled_product(kernel.name))
    return read_dense_columns<SampledProduct>(reader, std::move(kernel));
  return read_dense_product(reader, std::move(kernel), backend.computes_c);
}

Json measure_json(const MeasureRule& rule) {
  Json json{{"l2", rule.l2},
            {"warmup", rule.warmup},
            {"min_samples", rule.min_samples},
            {"max_samples", rule.max_samples},
            {"noise", rule.noise},
            {"max_seconds", rule.max_seconds}};
  if (rule.launch != MeasureRule{}.launch) json["launch"] = rule.launch;
  return json;
}

bool counts(const BackendTraits& backend, const Task& task) {
  return backend.counts && std::holds_alternative<DenseProduct>(task);
}

/// The state of the L2 cache and the sampling of a simulation.
void read_simulation(ObjectReader& reader, bool is_sampled, Point& point) {
  ObjectReader measure(reader.at("measure"), "measure");
  point.measure.l2 = measure.choice("l2", l2_choices());
  measure.refuse_unknown();
  if (!is_sampled) return;
  point.sample = reader.text("sample");
  require(simulator::sampling_of(point.sample).stretches > 0,
          "sample: a point has it only when it is not {}", point.sample);
}

Activity activity_of(const Task& task) {
  if (std::holds_alternative<Packing>(task)) return Activity::kPack;
  return std::holds_alternative<Ordering>(task) ? Activity::kReorder : Activity::kMultiply;
}

}  // namespace

Json to_json(const Point& point) {
  const BackendTraits backend = backend_traits(point.backend);
  require(activity_of(point.task) == backend.activity, "backend {} does not do this: {}",
          point.backend, task_text(point));
  Json json{{"backend", point.backend},
            {"matrix", point.matrix},
            {"reorder", variant_json(point.reorder)}};
  std::visit([&](const auto& task) { write_task(task, json); }, point.task);
  if (backend.predicts) json["model"] = variant_json(point.model);
  if (backend.needs_device) json["device"] = point.device;
  if (backend.computes_c) json["check"] = point.check.enabled;
  if (backend.computes_c && point.check.against_fp32) json["against_fp32"] = true;
  if (backend.measures) json["measure"] = measure_json(point.measure);
  if (backend.simulates) json["measure"] = {{"l2", point.measure.l2}};
  if (backend.simulates && !point.sample.empty()) json["sample"] = point.sample;
  if (counts(backend, point.task) && !point.counters.source.empty())
    json["counters"] = {{"source", point.counters.source}, {"metrics", point.counters.metrics}};
  return json;
}

Point point_from_json(const Json& json) {
  ObjectReader reader(json, "");
  Point point{.backend = reader.text("backend")};
  const BackendTraits backend = backend_traits(point.backend);
  point.matrix = reader.text("matrix");
  point.reorder = read_variant(reader.at("reorder"), "reorder", registered<Reordering>());
  point.task = read_task(reader, backend);
  if (backend.predicts)
    point.model = read_variant(reader.at("model"), "model", registered<Model>());
  if (backend.needs_device) point.device = reader.text("device");
  if (backend.computes_c)
    point.check = {reader.flag("check"), reader.optional_flag("against_fp32")};
  if (backend.measures) point.measure = read_measure(reader.at("measure"));
  if (backend.simulates) read_simulation(reader, json.contains("sample"), point);
  if (counts(backend, point.task) && json.contains("counters"))
    point.counters = read_counters(reader.at("counters"));
  reader.refuse_unknown();
  return point;
}

std::string params_hash(const Point& point) { return hash_text(to_json(point).dump()); }

HashByMatrix::HashByMatrix(const Point& point) {
  std::string* text = &before_;
  const Json json = to_json(point);
  for (const auto& [key, value] : json.items()) {
    text->append(1, key == json.begin().key() ? '{' : ',').append(Json(key).dump()).append(1, ':');
    if (key == "matrix")
      text = &after_;
    else
      *text += value.dump();
  }
  after_ += "}";
}

std::string HashByMatrix::of(const std::string& quoted_matrix) const {
  std::string text;
  text.reserve(before_.size() + quoted_matrix.size() + after_.size());
  return hash_text(text.append(before_).append(quoted_matrix).append(after_));
}

}  // namespace tessera
