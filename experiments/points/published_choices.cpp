#include "experiments/points/published_choices.hpp"

#include <map>

#include "experiments/points/any_kernel.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "kernels/published.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

/// The choices of each stage, "" for its variant: {"kernel": {"mma": "m16n8k4"}, ...}.
using Choices = std::map<std::string, std::map<std::string, ParamValue>>;

Choices by_stage(const Published& system) {
  Choices stages;
  for (const Published::Choice& choice : system.choices) {
    const std::size_t dot = choice.key.find('.');
    const std::string param = dot == std::string::npos ? "" : choice.key.substr(dot + 1);
    stages[choice.key.substr(0, dot)][param] = choice.value;
  }
  return stages;
}

/// True when the JSON form of a variant has this name and exactly these parameters.
bool is_variant(const Json& variant, const std::string& name, const Params& params) {
  if (variant.value("name", "") != name) return false;
  if (variant.size() != params.values().size() + 1) return false;
  for (const auto& [key, value] : params.values()) {
    const Json wanted = std::visit([](const auto& v) { return Json(v); }, value);
    if (!variant.contains(key) || variant[key] != wanted) return false;
  }
  return true;
}

Params::Given parameters(const std::map<std::string, ParamValue>& choices) {
  Params::Given given;
  for (const auto& [param, value] : choices)
    if (!param.empty()) given[param] = value;
  return given;
}

/// True when kernel and format are those of `choices`, and the defaults where it has none.
bool is_product(const Json& params, const std::string& kernel, Choices& choices) {
  const Params wanted = resolve_kernel(kernel, parameters(choices["kernel"]));
  if (!is_variant(params["kernel"], kernel, wanted)) return false;
  if (is_sparse_product(kernel)) return true;
  std::string format = format_read_by(kernel);
  if (const auto chosen = choices["kernel"].find("format"); chosen != choices["kernel"].end())
    format = to_text(chosen->second);
  const Params of_format =
      Registry<Format>::instance().resolve(format, parameters(choices["format"]));
  return params.contains("format") && is_variant(params["format"], format, of_format);
}

/// True when the paper has no order, or this one.
bool is_order(const Json& params, const Choices& choices) {
  const auto found = choices.find("reorder");
  if (found == choices.end()) return true;
  const std::string name = to_text(found->second.at(""));
  const Params order = Registry<Reordering>::instance().resolve(name, parameters(found->second));
  return params.contains("reorder") && is_variant(params["reorder"], name, order);
}

}  // namespace

std::string choices_of(const Json& params) {
  if (!params.contains("kernel")) return "";
  const std::string kernel = params["kernel"].value("name", "");
  const auto& systems = Registry<Published>::instance();
  if (!systems.contains(kernel)) return "";
  Choices published = by_stage(*systems.make(kernel));
  if (is_product(params, kernel, published) && is_order(params, published)) return kAsPublished;
  Choices none;
  return is_product(params, kernel, none) ? kAsDefault : "other";
}

}  // namespace tessera
