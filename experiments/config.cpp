#include "experiments/config.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "experiments/matrix_set.hpp"
#include "experiments/read_sweep.hpp"
#include "experiments/table_reader.hpp"
#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Calls read(TableReader&) on the table `key` of `root`, when there is one, and refuses what that
/// left over.
template <class Read>
void read_table(TableReader& root, const std::string& key, Read read) {
  const Node* node = root.find(key);
  if (node == nullptr) return;
  TableReader reader(*node, "[" + key + "]");
  read(reader);
  reader.refuse_unknown();
}

/// The same for each of [[key]], with its place.
template <class Read>
void read_tables(TableReader& root, const std::string& key, Read read) {
  const Node* node = root.find(key);
  if (node == nullptr) return;
  require(node->kind == Node::Kind::kArray, "{}: write [[{}]], a list of tables",
          node->place.text(), key);
  for (const Node& item : node->items) {
    TableReader reader(item, "[[" + key + "]]");
    read(reader, item.place);
    reader.refuse_unknown();
  }
}

Settings read_where(TableReader& reader, const std::string& key = "where") {
  const Node* node = reader.find(key);
  if (node == nullptr) return {};
  TableReader checked(*node, key);
  return read_settings(*node);
}

void read_experiment(TableReader& reader, Config& config) {
  reader.read("id", config.id);
  reader.read("title", config.title);
  reader.read("paper", config.paper);
  auto seed = static_cast<std::int64_t>(config.seed);
  reader.read("seed", seed);
  require(seed >= 0, "{}: seed takes 0 or more, not {}", reader.place(), seed);
  config.seed = static_cast<std::uint64_t>(seed);

  reader.read("backends", config.backends);
  const Node* backends = reader.find("backends");
  for (const Node& item : backends == nullptr ? std::vector<Node>{} : backends->items) {
    try {
      backend_traits(item.scalar.get_ref<const std::string&>());
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", item.place.text(), error.what()));
    }
  }
}

void read_measure(TableReader& reader, MeasureRule& rule) {
  reader.read_choice("l2", rule.l2, l2_choices());
  reader.read("warmup", rule.warmup);
  reader.read("min_samples", rule.min_samples);
  reader.read("max_samples", rule.max_samples);
  reader.read("noise", rule.noise);
  reader.read("max_seconds", rule.max_seconds);
  try {
    validate(rule);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", reader.place(), error.what()));
  }
}

Derive read_derive(TableReader& reader, const Place& place) {
  Derive derive;
  derive.place = place;
  derive.name = reader.text("name");
  reader.read("expr", derive.expr);
  reader.read("of", derive.of);
  reader.read("bins", derive.bins);
  reader.read("labels", derive.labels);
  const bool binned = !derive.of.empty() || !derive.bins.empty() || !derive.labels.empty();
  require(binned != !derive.expr.empty(),
          "{}: a derived column has either 'expr' or 'of', 'bins' and 'labels'", place.text());
  if (!binned) return derive;
  require(!derive.of.empty(), "{}: 'of' says which column the bins are of", place.text());
  require(derive.labels.size() == derive.bins.size() + 1,
          "{}: {} bins have {} labels, one more than limits; there are {}", place.text(),
          derive.bins.size(), derive.bins.size() + 1, derive.labels.size());
  require(std::ranges::adjacent_find(derive.bins, std::greater_equal<>()) == derive.bins.end(),
          "{}: the limits in bins have to ascend", place.text());
  return derive;
}

Reduce read_reduce(TableReader& reader, const Place& place) {
  Reduce reduce;
  reduce.place = place;
  reduce.name = reader.text("name");
  reader.read("into", reduce.into);
  reduce.over = reader.texts("over");
  reader.read("by", reduce.by);
  std::string best = "min";
  reader.read_choice("best", best, {"min", "max"});
  reduce.largest = best == "max";
  reduce.where = read_where(reader);
  return reduce;
}

void read_result_table(TableReader& reader, Table& table) {
  table.present = true;
  table.columns = reader.texts("columns");
  reader.read("sort", table.sort);
  table.where = read_where(reader);
}

Figure read_figure(TableReader& reader, const Place& place) {
  Figure figure;
  figure.place = place;
  reader.read("id", figure.id);
  figure.kind = reader.text("kind");
  reader.read("title", figure.title);
  reader.read("caption", figure.caption);
  figure.x = reader.text("x");
  figure.y = reader.text("y");
  reader.read("series", figure.series);
  reader.read("low", figure.low);
  reader.read("high", figure.high);
  reader.read("x_label", figure.x_label);
  reader.read("y_label", figure.y_label);
  reader.read_choice("x_scale", figure.x_scale, {"linear", "log"});
  reader.read_choice("y_scale", figure.y_scale, {"linear", "log"});
  reader.read("panel", figure.panel);
  reader.read("normalise", figure.normalise);
  figure.where = read_where(reader);
  return figure;
}

Expect read_expect(TableReader& reader, const Place& place) {
  Expect expect;
  expect.place = place;
  expect.name = reader.text("name");
  reader.read("source", expect.source);
  expect.column = reader.text("column");
  reader.read_choice("statistic", expect.statistic,
                     {"geomean", "mean", "median", "min", "max", "count"});
  expect.where = read_where(reader);
  expect.relative_to = read_where(reader, "relative_to");
  require(reader.find("value") != nullptr, "{}: [[expect]] needs 'value'", place.text());
  reader.read("value", expect.value);
  reader.read("tolerance", expect.tolerance);
  reader.read_choice("trend", expect.trend, {"at_least", "at_most"});
  require(expect.tolerance >= 0, "{}: tolerance takes 0 or more, not {}", place.text(),
          expect.tolerance);
  return expect;
}

/// Figures without an id get the experiment's, numbered when there are several figures.
void name_figures(Config& config) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < config.figures.size(); ++i) {
    Figure& figure = config.figures[i];
    if (figure.id.empty())
      figure.id = config.figures.size() == 1 ? config.id : fmt::format("{}_{}", config.id, i + 1);
    require(std::ranges::find(ids, figure.id) == ids.end(), "{}: two figures have the id '{}'",
            figure.place.text(), figure.id);
    ids.push_back(figure.id);
  }
}

void read_analysis(TableReader& root, Config& config) {
  read_tables(root, "derive", [&](TableReader& reader, const Place& place) {
    config.derives.push_back(read_derive(reader, place));
  });
  read_tables(root, "reduce", [&](TableReader& reader, const Place& place) {
    config.reduces.push_back(read_reduce(reader, place));
  });
  read_table(root, "table", [&](TableReader& reader) { read_result_table(reader, config.table); });
  if (const Node* table = root.find("table")) config.table.place = table->place;
  read_tables(root, "figure", [&](TableReader& reader, const Place& place) {
    config.figures.push_back(read_figure(reader, place));
  });
  read_tables(root, "expect", [&](TableReader& reader, const Place& place) {
    config.expects.push_back(read_expect(reader, place));
  });
}

std::string find_config(const std::string& path) {
  if (fs::is_regular_file(path)) return path;
  const std::vector<std::string> shipped = shipped_configs();
  if (std::ranges::find(shipped, path) != shipped.end())
    return shipped_path("experiments/configs/" + path + ".toml");
  throw Error(fmt::format("{}: there is no such file; {}", path,
                          unknown_name_message("shipped config", path, shipped)));
}

/// Where a config's sets are: beside it, beside its folder, and those that come with the program.
std::vector<std::string> set_folders(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  std::vector<std::string> folders{(folder / "sets").string(),
                                   (folder.parent_path() / "sets").string()};
  try {
    folders.push_back(shipped_path("experiments/configs/sets"));
  } catch (const Error&) {
    // A build without shipped sets: the others may be enough.
  }
  return folders;
}

}  // namespace

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  try {
    for (const auto& file : fs::directory_iterator(shipped_path("experiments/configs")))
      if (file.path().extension() == ".toml") names.push_back(file.path().stem().string());
  } catch (const Error&) {
    // Nothing is shipped with this build.
  }
  std::ranges::sort(names);
  return names;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets) {
  Config config;
  config.path = find_config(path);
  Document document = load_document(config.path);
  for (const std::string& set : sets) apply_set(document.root, set);
  MatrixSets matrix_sets(document.sets, set_folders(config.path));

  TableReader root(document.root, "a config");
  std::int64_t schema = 1;
  root.read("schema", schema);
  require(schema == 1, "schema has to be 1, not {}", schema);
  config.id = fs::path(config.path).stem().string();
  read_table(root, "experiment", [&](TableReader& reader) { read_experiment(reader, config); });
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  require(!config.id.empty() && std::ranges::all_of(config.id, is_plain) && config.id[0] != '.',
          "{}: the id '{}' names files: it may hold letters, digits, '.', '_' and '-'", config.path,
          config.id);
  if (config.title.empty()) config.title = config.id;
  read_sweeps(root, matrix_sets, config);
  read_table(root, "check", [&](TableReader& reader) { reader.read("enabled", config.check); });
  read_table(root, "measure", [&](TableReader& reader) { read_measure(reader, config.measure); });
  read_table(root, "counters",
             [&](TableReader& reader) { config.counters = reader.texts("names"); });
  read_table(root, "run", [&](TableReader& reader) {
    reader.read("timeout_s", config.timeout_s);
    require(config.timeout_s > 0, "{}: timeout_s takes more than 0, not {}", reader.place(),
            config.timeout_s);
  });
  read_analysis(root, config);
  name_figures(config);
  root.refuse_unknown();

  config.resolved = document.root.to_json();
  if (!matrix_sets.used().empty()) config.resolved["sets"] = matrix_sets.used();
  return config;
}

}  // namespace tessera
