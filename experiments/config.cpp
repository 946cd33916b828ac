#include "experiments/config.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/toml_reader.hpp"
#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

toml::table parse_file(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                            error.source().begin.column, error.description()));
  }
}

/// Tables merge, lists of tables join, anything else of `over` takes the place of `under`.
void merge(toml::table& under, toml::table&& over) {
  for (auto&& [key, node] : over) {
    toml::node* there = under.get(key.str());
    if (there != nullptr && there->is_table() && node.is_table()) {
      merge(*there->as_table(), std::move(*node.as_table()));
    } else if (there != nullptr && there->is_array_of_tables() && node.is_array_of_tables()) {
      for (toml::node& element : *node.as_array())
        there->as_array()->push_back(std::move(*element.as_table()));
    } else {
      node.visit([&](auto& value) { under.insert_or_assign(key, std::move(value)); });
    }
  }
}

/// The file with everything it includes; `chain` are the files that led here.
toml::table read_with_includes(const std::string& path, std::vector<std::string> chain) {
  const std::string canonical = fs::weakly_canonical(path).string();
  if (std::ranges::find(chain, canonical) != chain.end()) {
    std::string circle;
    for (const std::string& file : chain) circle += file + " includes ";
    throw Error(fmt::format("{}: the includes go in a circle: {}{}", path, circle, canonical));
  }
  chain.push_back(canonical);
  toml::table file = parse_file(path);
  TomlReader reader(file, "the config");
  if (!reader.has("include")) return file;
  toml::table all;
  for (const std::string& include : reader.texts("include")) {
    const std::string from = (fs::path(path).parent_path() / include).string();
    require(fs::exists(from), "{}: the included file {} does not exist",
            place_of(*file.get("include")), from);
    merge(all, read_with_includes(from, chain));
  }
  file.erase("include");
  merge(all, std::move(file));
  return all;
}

/// "a.b=v": sets one key, creating the tables on the way.
void apply_set(toml::table& config, const std::string& set) {
  const auto equals = set.find('=');
  require(equals != std::string::npos && equals > 0, "--set {}: expected KEY=VALUE", set);
  const std::string value = set.substr(equals + 1);
  toml::table parsed;
  try {
    parsed = toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    parsed.insert("value", value);  // a bare word
  }
  toml::table* table = &config;
  std::stringstream path(set.substr(0, equals));
  std::vector<std::string> parts;
  for (std::string part; std::getline(path, part, '.');) parts.push_back(part);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!table->contains(parts[i])) table->insert(parts[i], toml::table{});
    require((*table)[parts[i]].is_table(), "--set {}: '{}' is not a table", set, parts[i]);
    table = (*table)[parts[i]].as_table();
  }
  toml::node& node = *parsed.get("value");
  // A list where the config sweeps one: "grid.n=32" is "grid.n=[32]".
  const toml::node* before = table->get(parts.back());
  if (before != nullptr && before->is_array() && !node.is_array()) {
    toml::array list;
    list.push_back(node);
    table->insert_or_assign(parts.back(), std::move(list));
  } else {
    table->insert_or_assign(parts.back(), node);
  }
}

std::vector<Axis> read_axes(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> keys;
  for (const auto& [key, node] : table) keys.emplace_back(&key, &node);
  // toml++ sorts by name; a plan follows the order written.
  std::ranges::stable_sort(keys, {}, [](const auto& entry) {
    const auto& at = entry.first->source().begin;
    return std::pair(at.line, at.column);
  });
  std::vector<Axis> axes;
  for (const auto& [key, node] : keys) {
    Axis axis{std::string(key->str()), {}, place_of(*key)};
    if (const toml::array* list = node->as_array()) {
      for (const toml::node& value : *list) axis.values.push_back(scalar_setting(value));
    } else {
      axis.values.push_back(scalar_setting(*node));
    }
    require(!axis.values.empty(), "{}: '{}' has no values", axis.place, axis.name);
    axes.push_back(std::move(axis));
  }
  return axes;
}

NamedSettings named_settings(const toml::table& table, const char* what) {
  TomlReader reader(table, what);
  return {reader.text("name"), settings_of(table, {"name"})};
}

Ablation read_ablation(const toml::table& table) {
  TomlReader reader(table, "[ablation]");
  Ablation ablation;
  const std::string mode =
      reader.choice("mode", {"cumulative", "leave_one_out", "one_at_a_time"}, "cumulative");
  if (mode == "leave_one_out") ablation.mode = Ablation::Mode::kLeaveOneOut;
  if (mode == "one_at_a_time") ablation.mode = Ablation::Mode::kOneAtATime;
  const toml::table* base = reader.table("base");
  require(base != nullptr, "{}: [ablation] needs 'base'", reader.place());
  ablation.base = named_settings(*base, "ablation.base");
  for (const toml::table* step : reader.tables("step"))
    ablation.steps.push_back(named_settings(*step, "ablation.step"));
  require(!ablation.steps.empty(), "{}: [ablation] needs at least one 'step'", reader.place());
  reader.done();
  return ablation;
}

Derive read_derive(const toml::table& table) {
  TomlReader reader(table, "[[derive]]");
  Derive derive{reader.text("name"),    reader.text("expr", ""), reader.text("of", ""),
                reader.numbers("bins"), reader.texts("labels"),  reader.place()};
  reader.done();
  const bool cuts = !derive.of.empty();
  require(cuts != !derive.expr.empty(), "{}: [[derive]] needs either 'expr' or 'of'", derive.place);
  require(!cuts || derive.labels.size() == derive.bins.size() + 1,
          "{}: {} bins make {} classes, but there are {} labels", derive.place, derive.bins.size(),
          derive.bins.size() + 1, derive.labels.size());
  require(std::ranges::is_sorted(derive.bins), "{}: bins have to ascend", derive.place);
  return derive;
}

Reduce read_reduce(const toml::table& table) {
  TomlReader reader(table, "[[reduce]]");
  Reduce reduce{reader.text("name"),
                reader.text("column", "kernel"),
                reader.texts("keep"),
                reader.text("by", "time_us"),
                reader.choice("best", {"min", "max"}, "min") == "max",
                reader.settings("where"),
                reader.place()};
  if (reduce.keep.empty()) reduce.keep = {"matrix", "n", "origin", "device"};
  reader.done();
  return reduce;
}

Figure read_figure(const toml::table& table) {
  TomlReader reader(table, "[[figure]]");
  Figure figure;
  figure.kind = reader.text("kind");
  figure.id = reader.text("id", figure.kind);
  figure.title = reader.text("title", "");
  figure.caption = reader.text("caption", "");
  figure.x = reader.text("x");
  figure.y = reader.text("y");
  figure.series = reader.text("series");
  figure.panel = reader.text("panel", "");
  figure.low = reader.text("low", "");
  figure.high = reader.text("high", "");
  figure.x_label = reader.text("x_label", figure.x);
  figure.y_label = reader.text("y_label", figure.y);
  figure.x_scale = reader.choice("x_scale", {"category", "linear", "log"}, "category");
  figure.y_scale = reader.choice("y_scale", {"linear", "log"}, "linear");
  figure.normalise = reader.text("normalise", "");
  figure.where = reader.settings("where");
  figure.place = reader.place();
  reader.done();
  return figure;
}

Expect read_expect(const toml::table& table) {
  TomlReader reader(table, "[[expect]]");
  Expect expect;
  expect.name = reader.text("name");
  expect.source = reader.text("source");
  expect.column = reader.text("column");
  expect.statistic =
      reader.choice("statistic", {"geomean", "mean", "median", "min", "max"}, "geomean");
  expect.where = reader.settings("where");
  expect.relative_to = reader.settings("relative_to");
  require(reader.has("value"), "{}: [[expect]] needs 'value'", reader.place());
  expect.value = reader.number("value", 0);
  expect.tolerance = reader.number("tolerance", 0.1);
  expect.trend = reader.choice("trend", {"at_least", "at_most", "within"}, "within");
  expect.place = reader.place();
  reader.done();
  return expect;
}

MeasureRule read_measure(const toml::table& table) {
  TomlReader reader(table, "[measure]");
  MeasureRule rule;
  rule.l2 = reader.choice("l2", {"warm", "flush"}, rule.l2);
  rule.warmup = reader.integer("warmup", rule.warmup, 0);
  rule.min_samples = reader.integer("min_samples", rule.min_samples, 2);
  rule.max_samples = reader.integer("max_samples", rule.max_samples, 2);
  rule.noise = reader.number("noise", rule.noise);
  rule.max_seconds = reader.number("max_seconds", rule.max_seconds);
  reader.done();
  return rule;
}

void read_experiment(const toml::table& table, Config& config) {
  TomlReader reader(table, "[experiment]");
  config.id = reader.text("id");
  config.title = reader.text("title", config.id);
  config.paper = reader.text("paper", "");
  config.seed = static_cast<std::uint64_t>(reader.integer("seed", 42, 0));
  config.timeout_s = reader.number("timeout_s", config.timeout_s);
  config.backends = reader.texts("backends");
  require(!config.backends.empty(), "{}: [experiment] needs 'backends'", reader.place());
  reader.done();
}

Config read_config(const std::string& path, const toml::table& table) {
  Config config;
  config.path = path;
  TomlReader reader(table, "the config");
  require(reader.has("schema"), "{}:1:1: the config needs 'schema = 1'", path);
  require(reader.integer("schema", 0, 1) == 1, "{}: this program reads schema 1",
          place_of(*table.get("schema")));
  const toml::table* experiment = reader.table("experiment");
  require(experiment != nullptr, "{}:1:1: the config needs an [experiment]", path);
  read_experiment(*experiment, config);
  if (const toml::table* grid = reader.table("grid")) config.grid = read_axes(*grid);
  for (const toml::table* zip : reader.tables("zip")) {
    config.zips.push_back(read_axes(*zip));
    for (const Axis& axis : config.zips.back())
      require(axis.values.size() == config.zips.back().front().values.size(),
              "{}: the lists of a [[zip]] have to be of one length; '{}' has {} values, '{}' {}",
              axis.place, config.zips.back().front().name, config.zips.back().front().values.size(),
              axis.name, axis.values.size());
  }
  for (const toml::table* one : reader.tables("case"))
    config.cases.push_back(named_settings(*one, "[[case]]"));
  if (const toml::table* ablation = reader.table("ablation"))
    config.ablation.push_back(read_ablation(*ablation));
  if (const toml::table* check = reader.table("check")) {
    TomlReader fields(*check, "[check]");
    config.check = fields.flag("enabled", true);
    fields.done();
  }
  if (const toml::table* measure = reader.table("measure")) config.measure = read_measure(*measure);
  for (const toml::table* derive : reader.tables("derive"))
    config.derives.push_back(read_derive(*derive));
  for (const toml::table* reduce : reader.tables("reduce"))
    config.reduces.push_back(read_reduce(*reduce));
  if (const toml::table* columns = reader.table("table")) {
    TomlReader fields(*columns, "[table]");
    config.table.push_back({fields.texts("columns"), fields.settings("where"), fields.place()});
    require(!config.table[0].columns.empty(), "{}: [table] needs 'columns'", fields.place());
    fields.done();
  }
  for (const toml::table* figure : reader.tables("figure"))
    config.figures.push_back(read_figure(*figure));
  for (const toml::table* expect : reader.tables("expect"))
    config.expects.push_back(read_expect(*expect));
  reader.done();
  return config;
}

std::string find_config(const std::string& name_or_path) {
  if (fs::is_regular_file(name_or_path)) return name_or_path;
  require(name_or_path.find('/') == std::string::npos && !name_or_path.ends_with(".toml"),
          "{}: there is no such config file", name_or_path);
  const auto shipped = shipped_configs();
  std::vector<std::string> names;
  for (const auto& [name, title] : shipped) names.push_back(name);
  require(shipped.contains(name_or_path), "{}",
          unknown_name_message("experiment", name_or_path, names));
  return shipped_path("experiments/configs/" + name_or_path + ".toml");
}

}  // namespace

Config load_config(const std::string& name_or_path, const std::vector<std::string>& sets) {
  const std::string path = find_config(name_or_path);
  toml::table table = read_with_includes(path, {});
  for (const std::string& set : sets) apply_set(table, set);
  Config config = read_config(path, table);
  std::ostringstream text;
  text << toml::json_formatter(table);
  config.hash = hash_text(text.str());
  return config;
}

std::map<std::string, std::string> shipped_configs() {
  std::map<std::string, std::string> configs;
  for (const auto& entry : fs::directory_iterator(shipped_path("experiments/configs"))) {
    if (entry.path().extension() != ".toml") continue;
    const toml::table table = parse_file(entry.path().string());
    configs[entry.path().stem().string()] = table["experiment"]["title"].value_or(std::string(""));
  }
  return configs;
}

}  // namespace tessera
