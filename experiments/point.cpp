#include "experiments/point.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

Json variant_json(const Variant& variant) {
  Json json{{"name", variant.name}};
  for (const auto& [name, value] : variant.params.values())
    std::visit([&](const auto& v) { json[name] = v; }, value);
  return json;
}

const Json& field(const Json& json, const char* key) {
  require(json.is_object() && json.contains(key), "the point has no '{}'", key);
  return json.at(key);
}

template <class T>
T typed(const Json& json, const char* key) {
  try {
    return field(json, key).get<T>();
  } catch (const Json::exception&) {
    throw Error(fmt::format("the point's '{}' cannot be {}", key, field(json, key).dump()));
  }
}

ParamValue param_value(const std::string& name, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  require(value.is_string(), "parameter {} cannot be {}", name, value.dump());
  return value.get<std::string>();
}

template <class T>
Variant variant_from_json(const Json& json, const char* key) {
  const Json& object = field(json, key);
  Variant variant{typed<std::string>(object, "name"), {}};
  Params::Given given;
  for (const auto& [name, value] : object.items())
    if (name != "name") given[name] = param_value(name, value);
  variant.params = Registry<T>::instance().resolve(variant.name, given);
  return variant;
}

Json measure_json(const MeasureRule& rule) {
  return {{"l2", rule.l2},
          {"warmup", rule.warmup},
          {"min_samples", rule.min_samples},
          {"max_samples", rule.max_samples},
          {"noise", rule.noise},
          {"max_seconds", rule.max_seconds}};
}

MeasureRule measure_from_json(const Json& json) {
  return {typed<std::string>(json, "l2"),
          typed<std::int64_t>(json, "warmup"),
          typed<std::int64_t>(json, "min_samples"),
          typed<std::int64_t>(json, "max_samples"),
          typed<double>(json, "noise"),
          typed<double>(json, "max_seconds")};
}

void check_keys(const Json& json) {
  const std::vector<std::string> known{"backend", "matrix", "values", "n",      "seed",  "reorder",
                                       "format",  "kernel", "model",  "device", "check", "measure"};
  for (const auto& [key, value] : json.items())
    require(std::ranges::find(known, key) != known.end(), "{}",
            unknown_name_message("key of a point", key, known));
}

}  // namespace

Json to_json(const Point& point) {
  Json json{{"backend", point.backend},
            {"matrix", point.matrix},
            {"values", point.values},
            {"n", point.n},
            {"seed", point.seed},
            {"reorder", variant_json(point.reorder)},
            {"format", variant_json(point.format)},
            {"kernel", variant_json(point.kernel)}};
  if (point.backend != "model") json["check"] = point.check;
  if (point.backend == "model") json["model"] = variant_json(point.model);
  if (point.backend == "gpu")
    json["measure"] = measure_json(point.measure);
  else
    json["device"] = point.device;
  return json;
}

Point point_from_json(const Json& json) {
  require(json.is_object(), "a point is a JSON object, not {}", json.dump());
  check_keys(json);
  Point point;
  point.backend = typed<std::string>(json, "backend");
  point.matrix = typed<std::string>(json, "matrix");
  point.values = typed<std::string>(json, "values");
  point.n = typed<std::int64_t>(json, "n");
  point.seed = typed<std::uint64_t>(json, "seed");
  point.reorder = variant_from_json<Reordering>(json, "reorder");
  point.format = variant_from_json<Format>(json, "format");
  point.kernel = variant_from_json<SpmmKernel>(json, "kernel");
  if (point.backend != "model") point.check = typed<bool>(json, "check");
  if (point.backend == "model") point.model = variant_from_json<Model>(json, "model");
  if (point.backend == "gpu")
    point.measure = measure_from_json(field(json, "measure"));
  else
    point.device = typed<std::string>(json, "device");
  return point;
}

std::string params_hash(const Point& point) { return hash_text(to_json(point).dump()); }

}  // namespace tessera
