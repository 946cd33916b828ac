#include "experiments/plan.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "experiments/backend.hpp"
#include "experiments/toml_reader.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/io/source.hpp"
#include "model/device.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kPointKeys{"matrix", "n",      "seed",  "values", "reorder",
                                          "format", "kernel", "model", "device", "l2"};

[[noreturn]] void fail(const Place& place, const std::string& what) {
  throw Error(place.empty() ? what : place + ": " + what);
}

/// Runs `body`; errors it throws get the place in front.
template <class Body>
auto at(const Place& place, Body body) {
  try {
    return body();
  } catch (const Unsupported&) {
    throw;
  } catch (const Error& error) {
    fail(place, error.what());
  }
}

/// Turns settings into points, and remembers which of them have had an effect.
class Resolver {
 public:
  explicit Resolver(const Config& config) : config_(config) {}

  PlanEntry resolve(const Settings& settings, const std::string& backend) {
    PlanEntry entry;
    Point& point = entry.point;
    point.backend = backend;
    point.seed = config_.seed;
    point.check = config_.check;
    point.measure = config_.measure;
    name_matrix(settings, entry);
    point.n = integer(settings, "n", 128, 1);
    point.seed = static_cast<std::uint64_t>(
        integer(settings, "seed", static_cast<std::int64_t>(config_.seed), 0));
    point.values = choice(settings, "values", {"auto", "stored", "random"}, "auto");
    point.measure.l2 = choice(settings, "l2", {"warm", "flush"}, config_.measure.l2);

    point.kernel = variant<SpmmKernel>(settings, "kernel", "");
    const auto kernel =
        Registry<SpmmKernel>::instance().make(point.kernel.name, point.kernel.params);
    point.format = variant<Format>(settings, "format", kernel->format());
    if (point.format.name != kernel->format())
      fail(settings.at("format").place, fmt::format("kernel {} reads {}, not {}", point.kernel.name,
                                                    kernel->format(), point.format.name));
    point.reorder = variant<Reordering>(settings, "reorder", "none");
    point.model = variant<Model>(settings, "model", "roofline");
    point.device = device(settings);
    check_unambiguous(settings, point);
    entry.hash = params_hash(point);
    return entry;
  }

  /// Throws for a setting that no point had a use for: a misspelt parameter.
  void check_all_used(const std::vector<const Settings*>& all) const {
    for (const Settings* settings : all) {
      for (const auto& [name, setting] : *settings) {
        if (std::ranges::find(kPointKeys, name) != kPointKeys.end() || used_.contains(name))
          continue;
        std::vector<std::string> known(declared_.begin(), declared_.end());
        known.insert(known.end(), kPointKeys.begin(), kPointKeys.end());
        fail(setting.place, unknown_name_message("setting", name, known));
      }
    }
  }

 private:
  template <class T>
  Variant variant(const Settings& settings, const std::string& stage, const std::string& fallback) {
    const auto found = settings.find(stage);
    if (found == settings.end() && fallback.empty())
      throw Error(fmt::format("{}: no {} is given: name one in [grid], a [[case]] or the ablation",
                              config_.path, stage));
    if (found == settings.end()) return resolve_variant<T>(settings, stage, fallback, "");
    if (!found->second.value.is_string())
      fail(found->second.place, fmt::format("'{}' has to be a name", stage));
    return resolve_variant<T>(settings, stage, found->second.value.get<std::string>(),
                              found->second.place);
  }

  template <class T>
  Variant resolve_variant(const Settings& settings, const std::string& stage,
                          const std::string& name, const Place& place) {
    const auto& specs = at(place, [&]() -> const std::vector<ParamSpec>& {
      return Registry<T>::instance().find(name).params;
    });
    Params::Given given;
    Place given_at = place;
    for (const ParamSpec& spec : specs) {
      declared_.insert(spec.name);
      declared_.insert(stage + "." + spec.name);
      const auto qualified = settings.find(stage + "." + spec.name);
      const auto flat = settings.find(spec.name);
      for (const auto& setting : {flat, qualified}) {
        if (setting == settings.end() || is_point_key(setting->first)) continue;
        used_.insert(setting->first);
        given[spec.name] = param_value(setting->second);
        given_at = setting->second.place;
      }
    }
    return at(given_at, [&] {
      return Variant{name, Registry<T>::instance().resolve(name, given)};
    });
  }

  /// A flat parameter two of the point's variants declare is ambiguous.
  void check_unambiguous(const Settings& settings, const Point& point) const {
    for (const auto& [name, setting] : settings) {
      std::vector<std::string> owners;
      for (const auto& [stage, variant] :
           {std::pair("reorder", &point.reorder), std::pair("format", &point.format),
            std::pair("kernel", &point.kernel), std::pair("model", &point.model)})
        if (variant->params.values().contains(name) && !is_point_key(name))
          owners.push_back(fmt::format("{}.{}", stage, name));
      if (owners.size() > 1)
        fail(setting.place,
             fmt::format("'{}' could be {}: write which", name, fmt::join(owners, " or ")));
    }
  }

  static bool is_point_key(const std::string& name) {
    return std::ranges::find(kPointKeys, name) != kPointKeys.end();
  }

  static ParamValue param_value(const Setting& setting) {
    if (setting.value.is_boolean()) return setting.value.get<bool>();
    if (setting.value.is_number_integer()) return setting.value.get<std::int64_t>();
    if (setting.value.is_number()) return setting.value.get<double>();
    return setting.value.get<std::string>();
  }

  std::int64_t integer(const Settings& settings, const std::string& key, std::int64_t fallback,
                       std::int64_t least) const {
    const auto found = settings.find(key);
    if (found == settings.end()) return fallback;
    const Json& value = found->second.value;
    if (!value.is_number_integer() || value.get<std::int64_t>() < least)
      fail(found->second.place, fmt::format("'{}' has to be an integer of at least {}, not {}", key,
                                            least, value.dump()));
    return value.get<std::int64_t>();
  }

  std::string text(const Settings& settings, const std::string& key, const std::string& fallback,
                   Place& place) const {
    const auto found = settings.find(key);
    if (found == settings.end()) return fallback;
    place = found->second.place;
    if (!found->second.value.is_string()) fail(place, fmt::format("'{}' has to be text", key));
    return found->second.value.get<std::string>();
  }

  std::string choice(const Settings& settings, const std::string& key,
                     const std::vector<std::string>& choices, const std::string& fallback) const {
    Place place;
    const std::string value = text(settings, key, fallback, place);
    if (std::ranges::find(choices, value) == choices.end())
      fail(place, unknown_name_message(key, value, choices));
    return value;
  }

  std::string device(const Settings& settings) const {
    Place place;
    const std::string name = text(settings, "device", "h200", place);
    return at(place, [&] { return find_device(name).name; });
  }

  void name_matrix(const Settings& settings, PlanEntry& entry) const {
    Place place;
    const std::string name = text(settings, "matrix", "", place);
    if (name.empty())
      throw Error(
          fmt::format("{}: no matrix is given: list some under matrix in [grid]", config_.path));
    entry.matrix = entry.point.matrix = name;
    try {
      const MatrixSource source = find_matrix(name);
      entry.matrix = source.name;
      entry.point.matrix = source.canonical;
    } catch (const Unsupported&) {
      // Not on this machine: the point says so when it runs.
    } catch (const Error& error) {
      fail(place, error.what());
    }
  }

  const Config& config_;
  std::set<std::string> used_;
  std::set<std::string> declared_;
};

/// Replaces "@name" by the matrices of experiments/configs/sets/name.toml, beside the config or
/// shipped.
void expand_set(const std::string& config_path, const Setting& reference, std::vector<Setting>& out,
                int depth = 0) {
  if (depth > 8) fail(reference.place, "the matrix sets go in a circle");
  const std::string text = reference.value.is_string() ? reference.value.get<std::string>() : "";
  if (!text.starts_with("@")) {
    out.push_back(reference);
    return;
  }
  const std::string file = "sets/" + text.substr(1) + ".toml";
  const fs::path beside = fs::path(config_path).parent_path() / file;
  const std::string path = fs::exists(beside) ? beside.string() : at(reference.place, [&] {
    return shipped_path("experiments/configs/" + file);
  });
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail(fmt::format("{}:{}:{}", path, error.source().begin.line, error.source().begin.column),
         std::string(error.description()));
  }
  TomlReader reader(table, "the matrix set");
  reader.integer("schema", 1, 1);
  reader.text("title", "");
  const toml::node* list = table.get("matrix");
  if (list == nullptr || !list->is_array())
    fail(path + ":1:1", "a matrix set needs 'matrix = [...]'");
  reader.texts("matrix");
  reader.done();
  for (const toml::node& element : *list->as_array())
    expand_set(path, scalar_setting(element), out, depth + 1);
}

/// Settings on top of settings.
Settings over(Settings below, const Settings& above) {
  for (const auto& [name, setting] : above) below[name] = setting;
  return below;
}

struct Labelled {
  Settings settings;
  std::map<std::string, std::string> labels;
};

std::vector<Labelled> ablation_variants(const Ablation& ablation) {
  std::vector<Labelled> variants;
  const auto add = [&](const std::string& step, Settings settings) {
    variants.push_back({std::move(settings), {{"step", step}}});
  };
  const auto& steps = ablation.steps;
  switch (ablation.mode) {
    case Ablation::Mode::kCumulative: {
      Settings sum = ablation.base.settings;
      add(ablation.base.name, sum);
      for (const NamedSettings& step : steps) add(step.name, sum = over(sum, step.settings));
      break;
    }
    case Ablation::Mode::kOneAtATime:
      add(ablation.base.name, ablation.base.settings);
      for (const NamedSettings& step : steps)
        add(step.name, over(ablation.base.settings, step.settings));
      break;
    case Ablation::Mode::kLeaveOneOut:
      for (std::size_t left_out = steps.size() + 1; left_out-- > 0;) {
        Settings sum = ablation.base.settings;
        for (std::size_t i = 0; i < steps.size(); ++i)
          if (i != left_out) sum = over(sum, steps[i].settings);
        if (left_out == steps.size())
          variants.insert(variants.begin(), {sum, {{"step", "all"}}});
        else
          variants.insert(variants.begin() + 1,
                          {sum, {{"step", "without " + steps[left_out].name}}});
      }
      break;
  }
  return variants;
}

/// All combinations, the first axis outermost; a zip moves its axes together.
std::vector<Labelled> combinations(const Config& config) {
  std::vector<std::vector<Axis>> dimensions;
  for (const Axis& axis : config.grid) dimensions.push_back({axis});
  for (const auto& zip : config.zips) dimensions.push_back(zip);
  for (auto& dimension : dimensions) {
    for (Axis& axis : dimension) {
      if (axis.name != "matrix") continue;
      std::vector<Setting> expanded;
      for (const Setting& value : axis.values) expand_set(config.path, value, expanded);
      if (dimension.size() > 1 && expanded.size() != axis.values.size())
        fail(axis.place, "a matrix set has no place in a [[zip]]");
      axis.values = std::move(expanded);
    }
  }
  // The matrix outermost: what is loaded and packed serves all its points.
  std::ranges::stable_partition(dimensions, [](const std::vector<Axis>& dimension) {
    return std::ranges::any_of(dimension, [](const Axis& a) { return a.name == "matrix"; });
  });

  std::vector<Labelled> all{{}};
  for (const auto& dimension : dimensions) {
    std::vector<Labelled> longer;
    for (const Labelled& start : all) {
      for (std::size_t i = 0; i < dimension.front().values.size(); ++i) {
        Labelled next = start;
        for (const Axis& axis : dimension) next.settings[axis.name] = axis.values[i];
        longer.push_back(std::move(next));
      }
    }
    all = std::move(longer);
  }

  std::vector<Labelled> variants;
  for (const NamedSettings& one : config.cases)
    variants.push_back({one.settings, {{"case", one.name}}});
  for (const Ablation& ablation : config.ablation)
    for (Labelled& variant : ablation_variants(ablation)) variants.push_back(std::move(variant));
  if (variants.empty()) return all;
  std::vector<Labelled> product;
  for (const Labelled& start : all)
    for (const Labelled& variant : variants)
      product.push_back({over(start.settings, variant.settings), variant.labels});
  return product;
}

}  // namespace

Plan make_plan(const Config& config, const std::vector<std::string>& backends) {
  const auto& chosen = backends.empty() ? config.backends : backends;
  for (const std::string& backend : chosen)
    at(config.path, [&] { return find_backend(backend).missing; });

  Plan plan;
  Resolver resolver(config);
  std::map<std::string, std::set<std::string>> seen;  // params hash -> labels
  const std::vector<Labelled> all = combinations(config);
  std::size_t merged = 0;
  for (const Labelled& one : all) {
    for (const std::string& backend : chosen) {
      PlanEntry entry = resolver.resolve(one.settings, backend);
      entry.labels = one.labels;
      if (seen[entry.hash].insert(Json(entry.labels).dump()).second)
        plan.entries.push_back(std::move(entry));
      else
        ++merged;
    }
  }
  std::vector<const Settings*> settings;
  for (const Labelled& one : all) settings.push_back(&one.settings);
  resolver.check_all_used(settings);
  if (merged > 0)
    plan.notes.push_back(fmt::format(
        "{} combinations differ only in settings that do not apply to them, and were merged",
        merged));
  return plan;
}

double estimated_cost(const PlanEntry& entry) {
  std::error_code unknown;
  const auto bytes = fs::file_size(entry.point.matrix, unknown);
  return (unknown ? 1e6 : static_cast<double>(bytes)) * static_cast<double>(entry.point.n);
}

Plan shard(const Plan& plan, int index, int count) {
  require(count >= 1 && index >= 1 && index <= count,
          "shard {}/{}: the first number has to be from 1 to the second", index, count);
  std::map<std::string, double> cost;
  std::vector<std::string> matrices;
  for (const PlanEntry& entry : plan.entries) {
    const auto [found, is_new] = cost.try_emplace(entry.point.matrix, 0);
    if (is_new) matrices.push_back(entry.point.matrix);
    found->second += estimated_cost(entry);
  }
  std::ranges::stable_sort(matrices, std::greater{}, [&](const auto& m) { return cost[m]; });
  std::vector<double> load(count, 0);
  std::set<std::string> mine;
  for (const std::string& matrix : matrices) {
    const auto least = std::ranges::min_element(load) - load.begin();
    load[least] += cost[matrix];
    if (least == index - 1) mine.insert(matrix);
  }
  Plan part{{}, plan.notes};
  for (const PlanEntry& entry : plan.entries)
    if (mine.contains(entry.point.matrix)) part.entries.push_back(entry);
  return part;
}

}  // namespace tessera
