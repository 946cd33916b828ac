#include "experiments/config/read_sweep.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

bool is_variant_key(const std::string& key) {
  return std::ranges::find(variant_keys(), key) != variant_keys().end();
}

void add_setting(Settings& settings, const std::string& key, const Node& node) {
  require(node.kind == Node::Kind::kScalar,
          "{}: {} takes a single value here, not {}: lists go into [grid] or [[zip]]", node.place,
          key, node.describe());
  for (const auto& [part, setting] : take_apart(key, {node.scalar, node.place})) {
    const bool is_new = settings.try_emplace(part, setting).second;
    require(is_new, "{}: {} is given twice", node.place, part);
  }
}

/// One value of `key`; kernel = { name = ..., precision = ... } gives several settings.
void add_settings(Settings& settings, const std::string& key, const Node& node) {
  if (node.kind != Node::Kind::kTable) return add_setting(settings, key, node);
  require(is_variant_key(key), "{}: {} takes a plain value, not a table", node.place, key);
  for (const Node& member : node.items)
    add_setting(settings, member.key == "name" ? key : key + "." + member.key, member);
}

/// The values of one key of [grid] or [[zip]], sets of matrices taken apart.
std::vector<Settings> read_choices(const std::string& key, const Node& node, MatrixSets& sets) {
  const bool is_list = node.kind == Node::Kind::kArray;
  require(!is_list || !node.items.empty(), "{}: {} is an empty list: nothing would run", node.place,
          key);
  std::vector<Settings> choices;
  const auto add = [&](const Node& item) {
    Settings choice;
    add_settings(choice, key, item);
    if (key != "matrix") return choices.push_back(std::move(choice));
    for (const Setting& matrix : sets.expand(choice.at(key))) choices.push_back({{key, matrix}});
  };
  if (!is_list) add(node);
  for (const Node& item : is_list ? node.items : std::vector<Node>{}) add(item);
  return choices;
}

std::vector<Axis> read_grid(const Node& table, MatrixSets& sets) {
  std::vector<Axis> axes;
  for (const Node& member : table.items) {
    // kernel.precision = [...] without quotes is a table too, but one that names no kernel.
    const bool parameters_only = member.kind == Node::Kind::kTable && is_variant_key(member.key) &&
                                 member.find("name") == nullptr;
    if (!parameters_only) {
      axes.push_back({member.key, read_choices(member.key, member, sets), member.key_place});
      continue;
    }
    for (const Node& parameter : member.items) {
      const std::string key = member.key + "." + parameter.key;
      axes.push_back({key, read_choices(key, parameter, sets), parameter.key_place});
    }
  }
  return axes;
}

Axis read_zip(const Node& table, MatrixSets& sets) {
  TableReader reader(table, "[[zip]]");
  const std::vector<Axis> columns = read_grid(table, sets);
  require(!columns.empty(), "{}: a [[zip]] needs at least one list", reader.place());
  Axis axis{"zip", std::vector<Settings>(columns[0].choices.size()), table.place};
  for (const Axis& column : columns) {
    require(column.choices.size() == axis.choices.size(),
            "{}: the lists of a [[zip]] are of one length, but {} has {} values and {} has {}",
            column.place, column.name, column.choices.size(), columns[0].name, axis.choices.size());
    for (std::size_t i = 0; i < axis.choices.size(); ++i)
      axis.choices[i].insert(column.choices[i].begin(), column.choices[i].end());
  }
  return axis;
}

/// A [[case]], the base or a step: a name and settings.
NamedSettings read_named(const Node& table, const std::string& what) {
  TableReader reader(table, what);
  NamedSettings named{reader.text("name"), read_settings(table, {"name"})};
  const auto matrix = named.settings.find("matrix");
  const bool is_set = matrix != named.settings.end() && matrix->second.value.is_string() &&
                      matrix->second.value.get<std::string>().starts_with('@');
  require(!is_set, "{}: a set of matrices goes into [grid] or [[zip]], {} takes one matrix",
          is_set ? matrix->second.place : "", what);
  return named;
}

Ablation read_ablation(const Node& table) {
  TableReader reader(table, "[ablation]");
  Ablation ablation;
  std::string mode = "cumulative";
  reader.read("mode", mode);
  if (mode == "leave_one_out") ablation.mode = Ablation::Mode::kLeaveOneOut;
  if (mode == "one_at_a_time") ablation.mode = Ablation::Mode::kOneAtATime;

  const Node* base = reader.find("base");
  require(base != nullptr, "{}: [ablation] needs 'base'", reader.place());
  ablation.base = read_named(*base, "base");

  const Node* steps = reader.find("step");
  require(steps != nullptr && steps->kind == Node::Kind::kArray && !steps->items.empty(),
          "{}: [ablation] needs 'step', a list of tables", reader.place());
  std::vector<std::string> names{ablation.base.name};
  for (const Node& item : steps->items) {
    NamedSettings step = read_named(item, "step");
    // "RO" and "+RO" would both be left out as "-RO".
    const std::string bare = step.name.substr(step.name.starts_with('+') ? 1 : 0);
    require(std::ranges::find(names, bare) == names.end(),
            "{}: the name '{}' is taken by an earlier step", item.place, step.name);
    names.push_back(bare);
    ablation.steps.push_back(std::move(step));
  }
  reader.refuse_unknown();
  return ablation;
}

const std::vector<Node>& tables(TableReader& root, const std::string& key) {
  static const std::vector<Node> none;
  const Node* node = root.find(key);
  if (node == nullptr) return none;
  require(node->kind == Node::Kind::kArray, "{}: write [[{}]], a list of tables", node->place, key);
  return node->items;
}

}  // namespace

const std::vector<std::string>& variant_keys() {
  static const std::vector<std::string> keys{"reorder", "format", "kernel", "model", "values"};
  return keys;
}

Settings take_apart(const std::string& key, const Setting& setting) {
  const bool is_call = key == "values" && setting.value.is_string() &&
                       setting.value.get_ref<const std::string&>().find('(') != std::string::npos;
  if (!is_call) return {{key, setting}};
  try {
    const Call call = parse_call(setting.value.get<std::string>());
    const Params params = Registry<ValueFamily>::instance().resolve(call.name, call.given);
    Settings parts{{key, {call.name, setting.place}}};
    for (const auto& given : call.given)
      std::visit(
          [&](const auto& value) {
            parts[key + "." + given.first] = {value, setting.place};
          },
          params.values().find(given.first)->second);
    return parts;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", setting.place, error.what()));
  }
}

Settings read_settings(const Node& table, const std::vector<std::string>& except) {
  Settings settings;
  for (const Node& member : table.items)
    if (std::ranges::find(except, member.key) == except.end())
      add_settings(settings, member.key, member);
  return settings;
}

void read_sweeps(TableReader& root, MatrixSets& sets, Config& config) {
  if (const Node* grid = root.find("grid")) {
    TableReader checked(*grid, "[grid]");
    config.grid = read_grid(*grid, sets);
  }
  for (const Node& table : tables(root, "zip")) config.zips.push_back(read_zip(table, sets));
  for (const Node& table : tables(root, "case"))
    config.cases.push_back(read_named(table, "[[case]]"));
  const Node* ablation = root.find("ablation");
  if (ablation == nullptr) return;
  require(config.cases.empty(), "{}: a config has [[case]] or [ablation], not both",
          ablation->place);
  config.ablation.push_back(read_ablation(*ablation));
}

}  // namespace tessera
