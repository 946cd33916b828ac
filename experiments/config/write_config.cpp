#include "experiments/config/write_config.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "experiments/config/read_sweep.hpp"
#include "experiments/points/any_kernel.hpp"
#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/suggest.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/values/value_family.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr std::size_t kLinesFrom = 4;       // values of n that make a line
constexpr std::size_t kMostLinePanels = 6;  // matrices with a panel each

Json json_of(const ParamValue& value) {
  return std::visit([](const auto& held) -> Json { return held; }, value);
}

/// The values of the parameters that `given` names, in their declared types.
std::map<std::string, Json> typed(const Params& params, const Params::Given& given) {
  std::map<std::string, Json> values;
  for (const auto& [name, ignored] : given) values[name] = json_of(params.values().at(name));
  return values;
}

RequestedKernel requested_kernel(const std::string& text) {
  const Call call = parse_call(text);
  if (call.name == kAuto && call.given.empty()) return {kAuto};
  return {call.name, typed(resolve_kernel(call.name, call.given), call.given)};
}

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A number, a quoted text, or an inline table with the name first.
std::string toml(const Json& value) {
  if (!value.is_object()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text = fmt::format("{{ name = {}", toml(value.at("name")));
  for (const auto& [key, member] : value.items())
    if (key != "name") text += fmt::format(", {} = {}", key, toml(member));
  return text + " }";
}

std::string toml_list(const std::vector<Json>& values) {
  std::vector<std::string> texts;
  for (const Json& value : values) texts.push_back(toml(value));
  const std::string line = fmt::format("[{}]", fmt::join(texts, ", "));
  constexpr std::size_t kLongLine = 90;
  return line.size() <= kLongLine ? line : fmt::format("[\n  {},\n]", fmt::join(texts, ",\n  "));
}

Json json_of(const RequestedKernel& kernel) {
  if (kernel.parameters.empty()) return kernel.name;
  Json json{{"name", kernel.name}};
  for (const auto& [name, value] : kernel.parameters) json[name] = value;
  return json;
}

bool skips_kernel(const std::vector<Json>& skipped, const RequestedKernel& kernel) {
  return std::ranges::any_of(
      skipped, [&](const Json& value) { return value == kernel.name || value == kernel.label(); });
}

/// "best" and {"name": "best", ...} are named alike.
bool is_named(const Json& value, const Json& name) {
  return value == name || (value.is_object() && value.at("name") == name);
}

/// The next combination of values, the last axis fastest; false after the last one.
bool advance(const std::vector<const RequestedAxis*>& axes, std::vector<std::size_t>& place) {
  for (std::size_t a = axes.size(); a-- > 0; place[a] = 0)
    if (++place[a] < axes[a]->values.size()) return true;
  return false;
}

/// The axes that skips name, and the combinations of their values and a kernel that are left.
class Cases {
 public:
  explicit Cases(const SweepRequest& request) : request_(request) {
    for (const RequestedSkip& skip : request.skips)
      for (const auto& [axis, values] : skip)
        if (axis != "kernel") add_axis(axis, values);
  }

  bool has_axis(const std::string& name) const {
    return std::ranges::any_of(axes_,
                               [&](const RequestedAxis* axis) { return axis->name == name; });
  }

  std::string text() const {
    std::string text;
    std::vector<std::size_t> place(axes_.size(), 0);
    for (bool more = true; more; more = advance(axes_, place))
      for (const RequestedKernel& kernel : request_.kernels)
        if (!is_skipped(kernel, place)) text += case_text(kernel, place);
    require(!text.empty(), "--skip leaves no point");
    return text;
  }

 private:
  void add_axis(const std::string& name, const std::vector<Json>& values) {
    std::vector<std::string> known{"kernel"};
    for (const RequestedAxis& axis : request_.axes) known.push_back(axis.name);
    const auto axis = std::ranges::find(request_.axes, name, &RequestedAxis::name);
    require(axis != request_.axes.end(), "--skip: {}", unknown_name_message("axis", name, known));
    for (const Json& value : axis->values)
      require(!value.is_string() || !value.get_ref<const std::string&>().starts_with('@'),
              "--skip {}: {} is a set; name its matrices on the command line to skip one", name,
              plain_text(value));
    for (const Json& value : values) {
      std::vector<std::string> names;
      for (const Json& one : axis->values)
        names.push_back(plain_text(one.is_object() ? one.at("name") : one));
      require(std::ranges::find(names, plain_text(value)) != names.end(), "--skip {}: {}", name,
              unknown_name_message("value", plain_text(value), names));
    }
    if (!has_axis(name)) axes_.push_back(&*axis);
  }

  bool is_skipped(const RequestedKernel& kernel, const std::vector<std::size_t>& place) const {
    return std::ranges::any_of(request_.skips, [&](const RequestedSkip& skip) {
      return std::ranges::all_of(skip, [&](const auto& condition) {
        const auto& [axis, skipped] = condition;
        if (axis == "kernel") return skips_kernel(skipped, kernel);
        const auto found = std::ranges::find(axes_, axis, &RequestedAxis::name);
        const Json& value = (*found)->values[place[found - axes_.begin()]];
        return std::ranges::any_of(skipped,
                                   [&](const Json& name) { return is_named(value, name); });
      });
    });
  }

  std::string case_text(const RequestedKernel& kernel,
                        const std::vector<std::size_t>& place) const {
    std::string text = fmt::format("\n[[case]]\nname = {}\nkernel = {}\n", toml(kernel.label()),
                                   toml(json_of(kernel)));
    for (std::size_t a = 0; a < axes_.size(); ++a)
      text += fmt::format("{} = {}\n", axes_[a]->name, toml(axes_[a]->values[place[a]]));
    return text;
  }

  const SweepRequest& request_;
  std::vector<const RequestedAxis*> axes_;
};

/// The columns of a row in which the values of an axis differ.
std::vector<std::string> columns_of(const RequestedAxis& axis) {
  std::vector<std::string> columns{axis.name};
  for (const Json& value : axis.values) {
    if (!value.is_object()) continue;
    for (const auto& [key, member] : value.items())
      if (key != "name" && std::ranges::find(columns, axis.name + "." + key) == columns.end())
        columns.push_back(axis.name + "." + key);
  }
  return columns;
}

/// `where = { reorder = "rcm" }` for one value of each axis.
std::string where_text(const std::vector<std::pair<const RequestedAxis*, std::size_t>>& chosen) {
  std::vector<std::string> conditions;
  for (const auto& [axis, place] : chosen) {
    const Json& value = axis->values[place];
    conditions.push_back(
        fmt::format("{} = {}", axis->name, toml(value.is_object() ? value.at("name") : value)));
    if (!value.is_object()) continue;
    for (const auto& [key, member] : value.items())
      if (key != "name")
        conditions.push_back(fmt::format("\"{}.{}\" = {}", axis->name, key, toml(member)));
  }
  return conditions.empty() ? "" : fmt::format("where = {{ {} }}\n", fmt::join(conditions, ", "));
}

/// "n-32_reorder-rcm": part of a file name.
std::string file_part(const RequestedAxis& axis, std::size_t place) {
  const Json& value = axis.values[place];
  std::string part = axis.name + "-";
  part += value.is_object() ? fmt::format("{}{}", plain_text(value.at("name")), place)
                            : plain_text(value);
  std::ranges::replace_if(
      part, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
  return part;
}

/// One figure: matrices (or the widths of B) along x, a series for each kernel, a panel for each
/// value of one more axis; and such a figure for every combination of what else varies.
class Figures {
 public:
  Figures(const SweepRequest& request, std::string series)
      : request_(request), series_(std::move(series)) {
    const auto axis_of = [&](const char* name) -> const RequestedAxis* {
      const auto found = std::ranges::find(request.axes, name, &RequestedAxis::name);
      return found == request.axes.end() || found->values.size() < 2 ? nullptr : &*found;
    };
    const RequestedAxis *matrix = axis_of("matrix"), *n = axis_of("n");
    // A set stands for many matrices.
    const bool few_matrices =
        matrix == nullptr || (matrix->values.size() <= kMostLinePanels &&
                              std::ranges::none_of(matrix->values, [](const Json& value) {
                                return value.get_ref<const std::string&>().starts_with('@');
                              }));
    lines_ = n != nullptr && n->values.size() >= kLinesFrom && few_matrices;
    if (lines_) {
      panel_ = matrix;
    } else {
      panel_ = n;
      for (const RequestedAxis& axis : request.axes)
        if (panel_ == nullptr && axis.values.size() > 1 && axis.name != "matrix") panel_ = &axis;
    }
    for (const RequestedAxis& axis : request.axes)
      if (axis.values.size() > 1 && axis.name != "matrix" && &axis != panel_ &&
          !(lines_ && &axis == n))
        others_.push_back(&axis);
  }

  std::string text() const {
    std::string text;
    std::vector<std::size_t> place(others_.size(), 0);
    for (bool more = true; more; more = advance(others_, place)) text += figure(place);
    return text;
  }

 private:
  std::string figure(const std::vector<std::size_t>& place) const {
    std::string id = "sweep";
    std::vector<std::pair<const RequestedAxis*, std::size_t>> chosen;
    for (std::size_t a = 0; a < others_.size(); ++a) {
      chosen.emplace_back(others_[a], place[a]);
      id.append("_").append(file_part(*others_[a], place[a]));
    }
    std::string text =
        fmt::format("\n[[figure]]\nid = \"{}\"\nkind = \"{}\"\n", id, lines_ ? "lines" : "bars");
    text += fmt::format("x = \"{}\"\n{}y = \"{}\"\n", lines_ ? "n" : "matrix",
                        lines_ ? "x_scale = \"log\"\n" : "", request_.measures.front());
    text += fmt::format("series = \"{}\"\n", series_);
    if (panel_ != nullptr) text += fmt::format("panel = \"{}\"\n", panel_->name);
    if (!request_.baseline.empty())
      text += fmt::format(
          "normalise = {}\ny_label = {}\n", toml(request_.baseline),
          toml(fmt::format("{}, relative to {}", request_.measures.front(), request_.baseline)));
    return text + where_text(chosen);
  }

  const SweepRequest& request_;
  std::string series_;
  bool lines_ = false;
  const RequestedAxis* panel_ = nullptr;
  std::vector<const RequestedAxis*> others_;
};

/// [grid], [[case]] and the sections: what decides the points.
std::string points_text(const SweepRequest& request, bool has_cases) {
  const Cases cases(request);
  std::string text = "[grid]\n";
  for (const RequestedAxis& axis : request.axes)
    if (!cases.has_axis(axis.name))
      text += fmt::format("{} = {}\n", axis.name, toml_list(axis.values));
  std::vector<Json> names;
  for (const RequestedKernel& kernel : request.kernels) names.push_back(kernel.name);
  text += has_cases ? fmt::format("\n# Every kernel with its parameters.{}", cases.text())
                    : fmt::format("kernel = {}\n", toml_list(names));
  for (const auto& [section, keys] : request.sections) {
    text += fmt::format("\n[{}]\n", section);
    for (const auto& [key, value] : keys)
      text +=
          fmt::format("{} = {}\n", key,
                      value.is_array() ? toml_list(value.get<std::vector<Json>>()) : toml(value));
  }
  return text;
}

template <class T>
Json variant_json(const std::string& text) {
  const Call call = parse_call(text);
  const Params params = Registry<T>::instance().resolve(call.name, call.given);
  if (call.given.empty()) return call.name;
  Json json{{"name", call.name}};
  for (const auto& [name, value] : typed(params, call.given)) json[name] = value;
  return json;
}

}  // namespace

std::string RequestedKernel::label() const {
  std::vector<std::string> texts;
  for (const auto& [parameter, value] : parameters)
    texts.push_back(parameter + "=" + plain_text(value));
  return texts.empty() ? name : fmt::format("{}({})", name, fmt::join(texts, ", "));
}

WrittenConfig write_config(const SweepRequest& request) {
  const bool has_cases =
      !request.skips.empty() || std::ranges::any_of(request.kernels, [](const auto& kernel) {
        return !kernel.parameters.empty();
      });
  WrittenConfig written{.series = has_cases ? "case" : "kernel"};
  for (const RequestedAxis& axis : request.axes)
    if (axis.values.size() > 1 && axis.name != "matrix")
      for (const std::string& column : columns_of(axis)) written.settings.push_back(column);
  if (request.backends.size() > 1) written.settings.emplace_back("backend");

  const std::vector<Json> backends(request.backends.begin(), request.backends.end());
  const std::string points =
      fmt::format("backends = {}\n\n{}", toml_list(backends), points_text(request, has_cases));
  written.id = "sweep-" + hash_text(points).substr(0, 8);

  std::vector<Json> columns{"matrix"};
  for (const std::string& column : written.settings) columns.emplace_back(column);
  columns.emplace_back(written.series);
  for (const std::string& measure : request.measures) columns.emplace_back(measure);
  columns.emplace_back("origin");
  written.text = fmt::format(
      "# Products that were asked for with `tessera sweep`. `tessera run` on this file runs the "
      "same\n"
      "# points, and finds those that have a record in out/{0}.\n"
      "schema = 1\n\n[experiment]\nid = \"{0}\"\ntitle = \"Sweep\"\n{1}\n[table]\ncolumns = "
      "{2}\n{3}",
      written.id, points, toml_list(columns), Figures(request, written.series).text());
  return written;
}

std::vector<RequestedKernel> requested_kernels(const std::vector<std::string>& texts) {
  const std::vector<std::string> names = kernel_names();
  std::vector<RequestedKernel> kernels;
  const auto add = [&](RequestedKernel kernel) {
    if (std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(std::move(kernel));
  };
  for (const std::string& text : texts) {
    if (text.find_first_of("*?") == std::string::npos || text.find('(') != std::string::npos) {
      add(requested_kernel(text));
      continue;
    }
    const std::size_t before = kernels.size();
    bool matches = false;
    for (const std::string& name : names) {
      if (fnmatch(text.c_str(), name.c_str(), 0) != 0) continue;
      matches = true;
      add({name});
    }
    require(matches || kernels.size() > before, "no kernel matches {}; known: {}", text,
            fmt::join(names, ", "));
  }
  return kernels;
}

bool vary_parameter(const std::string& parameter, const std::vector<std::string>& values,
                    std::vector<RequestedKernel>& kernels) {
  bool taken = false;
  std::vector<RequestedKernel> varied;
  for (const RequestedKernel& kernel : kernels) {
    const bool has = kernel.name != kAuto &&
                     std::ranges::find(kernel_params(kernel.name), parameter, &ParamSpec::name) !=
                         kernel_params(kernel.name).end();
    taken |= has;
    if (!has || kernel.parameters.contains(parameter)) {
      varied.push_back(kernel);
      continue;
    }
    for (const std::string& value : values) {
      RequestedKernel& one = varied.emplace_back(kernel);
      const Params::Given given{{parameter, value}};
      one.parameters.merge(typed(resolve_kernel(kernel.name, given), given));
    }
  }
  kernels = std::move(varied);
  return taken;
}

Json requested_variant(const std::string& stage, const std::string& text) {
  if (stage == "reorder") return variant_json<Reordering>(text);
  if (stage == "values") return variant_json<ValueFamily>(text);
  require(stage == "model", "{} is no variant", stage);
  return variant_json<Model>(text);
}

}  // namespace tessera
