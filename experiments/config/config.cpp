#include "experiments/config/config.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>

#include "experiments/config/matrix_set.hpp"
#include "experiments/config/read_sweep.hpp"
#include "experiments/config/table_reader.hpp"
#include "experiments/counters/counter_source.hpp"
#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"
#include "model/simulator/sampling.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 200;  // a file system takes 255 with what is appended

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

/// Calls `read` for each table of [[key]].
template <class Read>
void read_tables(TableReader& root, const std::string& key, Read read) {
  const Node* node = root.find(key);
  if (node == nullptr) return;
  require(node->kind == Node::Kind::kArray, "{}: write [[{}]], a list of tables", node->place, key);
  for (const Node& item : node->items) {
    TableReader reader(item, "[[" + key + "]]");
    read(reader);
    reader.refuse_unknown();
  }
}

/// Calls `body`; an Error it throws gets the place in front.
template <class Body>
void at_place(const SourceLocation& place, Body body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", place, error.what()));
  }
}

/// Column -> the value it has to have, or a list of values of which it has to be one.
Settings read_where(TableReader& reader, const std::string& key) {
  const Node* node = reader.find(key);
  if (node == nullptr) return {};
  require(node->kind == Node::Kind::kTable, "{}: {} takes a table, not {}", node->place, key,
          node->describe());
  std::vector<std::string> lists;
  for (const Node& member : node->items)
    if (member.kind == Node::Kind::kArray) lists.push_back(member.key);
  Settings where = read_settings(*node, lists);
  for (const std::string& column : lists) {
    const Node& list = *node->find(column);
    require(!list.items.empty() &&
                std::ranges::all_of(
                    list.items, [](const Node& item) { return item.kind == Node::Kind::kScalar; }),
            "{}: {} takes a value or a list of values", list.place, column);
    where[column] = {list.to_json(), list.place};
  }
  return where;
}

/// Refuses a name that could leave the folder of the files that are called by it.
void check_file_name(const std::string& what, const std::string& name,
                     const SourceLocation& place) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  require(std::ranges::all_of(name, is_plain) && name[0] != '.' && name.size() <= kLongestName,
          "{}: the {} '{}' names files: it may hold up to {} letters, digits, '.', '_' and '-', "
          "and no '.' in front",
          place, what, name, kLongestName);
}

void read_experiment(TableReader& reader, Config& config) {
  config.id = reader.text("id");
  check_file_name("id", config.id, reader.place());
  config.title = config.id;
  reader.read("title", config.title);
  reader.read("question", config.question);
  reader.read("paper", config.paper);
  reader.read("figure", config.figure);
  reader.read("minutes", config.minutes);
  require(config.minutes >= 0, "{}: minutes takes 0 or more, not {}", reader.place(),
          config.minutes);
  reader.read("gpu_only", config.gpu_only);
  auto seed = static_cast<std::int64_t>(config.seed);
  reader.read("seed", seed);
  require(seed >= 0, "{}: seed takes 0 or more, not {}", reader.place(), seed);
  config.seed = static_cast<std::uint64_t>(seed);
  reader.read("timeout_s", config.timeout_s);
  require(config.timeout_s > 0, "{}: timeout_s takes more than 0, not {}", reader.place(),
          config.timeout_s);
  reader.read("launch_timeout_s", config.launch_timeout_s);
  require(config.launch_timeout_s > 0, "{}: launch_timeout_s takes more than 0, not {}",
          reader.place(), config.launch_timeout_s);
  config.backends = reader.texts("backends");
  for (const Node& item : reader.find("backends")->items)
    at_place(item.place, [&] { backend_traits(item.scalar.get_ref<const std::string&>()); });
}

void read_measure(TableReader& reader, Config& config) {
  MeasureRule& rule = config.measure;
  reader.read("unpermute", config.unpermute);
  reader.read("l2", rule.l2);
  reader.read("launch", rule.launch);
  reader.read("warmup", rule.warmup);
  reader.read("min_samples", rule.min_samples);
  reader.read("max_samples", rule.max_samples);
  reader.read("noise", rule.noise);
  reader.read("max_seconds", rule.max_seconds);
  at_place(reader.place(), [&] { validate(rule); });
}

/// Reads the sampling of a simulation: "off", "auto", or a number of stretches.
void read_simulate(TableReader& reader, Config& config) {
  const Node* sample = reader.find("sample");
  if (sample == nullptr) return;
  config.sample = "off";
  if (sample->kind == Node::Kind::kScalar && sample->scalar.is_number_integer())
    config.sample = sample->scalar.dump();
  else
    reader.read("sample", config.sample);
  at_place(sample->place, [&] {
    if (simulator::sampling_of(config.sample).stretches == 0) config.sample.clear();
  });
}

/// The section without keys requests the default metrics from the first source that works.
void read_counters(TableReader& reader, Config& config) {
  CounterRule rule{"auto", default_metrics()};
  reader.read("source", rule.source);
  if (reader.find("metrics") != nullptr) rule.metrics = reader.texts("metrics");
  if (rule.source == "none") return;
  at_place(reader.place(), [&] { validate(rule); });
  config.counters = rule;
}

Join read_join(TableReader& reader) {
  Join join{.name = reader.text("name"),
            .on = {"matrix", "right", "mask", "n", "seed", "values", "reorder", "format", "kernel",
                   "step", "case"},
            .columns = reader.texts("columns"),
            .from = read_where(reader, "from"),
            .place = reader.place()};
  reader.read("on", join.on);
  require(!join.from.empty(),
          "{}: 'from' says which rows are joined to the others, as in "
          "{{ backend = \"simulate\" }}",
          join.place);
  return join;
}

Derive read_derive(TableReader& reader) {
  Derive derive;
  derive.place = reader.place();
  derive.name = reader.text("name");
  reader.read("expr", derive.expr);
  reader.read("of", derive.of);
  reader.read("bins", derive.bins);
  reader.read("labels", derive.labels);
  const bool binned = !derive.of.empty() || !derive.bins.empty() || !derive.labels.empty();
  require(binned != !derive.expr.empty(),
          "{}: a derived column has either 'expr' or 'of', 'bins' and 'labels'", derive.place);
  if (!binned) return derive;
  require(!derive.of.empty(), "{}: 'of' says which column the bins are of", derive.place);
  require(derive.labels.size() == derive.bins.size() + 1,
          "{}: {} bins have {} labels, one more than limits; there are {}", derive.place,
          derive.bins.size(), derive.bins.size() + 1, derive.labels.size());
  require(std::ranges::adjacent_find(derive.bins, std::greater_equal<>()) == derive.bins.end(),
          "{}: the limits in bins have to ascend", derive.place);
  return derive;
}

Reduce read_reduce(TableReader& reader) {
  Reduce reduce{.name = reader.text("name"),
                .column = "kernel",
                .keep = {"matrix", "right", "mask", "n", "origin", "device"},
                .by = "time_us",
                .largest = false,
                .where = read_where(reader, "where"),
                .place = reader.place()};
  reader.read("column", reduce.column);
  reader.read("keep", reduce.keep);
  reader.read("by", reduce.by);
  std::string best = "min";
  reader.read("best", best);
  reduce.largest = best == "max";
  return reduce;
}

Figure read_figure(TableReader& reader) {
  Figure figure;
  figure.place = reader.place();
  figure.kind = figure.id = reader.text("kind");
  // Where the scripts are not installed, nothing else holds the kind against them.
  check_file_name("kind", figure.kind, reader.place());
  if (const Node* id = reader.find("id")) {
    figure.id = reader.text("id");
    check_file_name("id", figure.id, id->place);
  }
  reader.read("title", figure.title);
  reader.read("caption", figure.caption);
  figure.x = reader.text("x");
  figure.y = reader.text("y");
  figure.series = reader.text("series");
  reader.read("panel", figure.panel);
  reader.read("low", figure.low);
  reader.read("high", figure.high);
  reader.read("bound", figure.bound);
  require(figure.bound.empty() || figure.kind == "lines",
          "{}: bounds are drawn by lines, not by {}", figure.place, figure.kind);
  reader.read("x_label", figure.x_label);
  reader.read("y_label", figure.y_label);
  reader.read("x_scale", figure.x_scale);
  figure.y_scale = "linear";
  reader.read("y_scale", figure.y_scale);
  reader.read("normalise", figure.normalise);
  figure.relative_to = read_where(reader, "relative_to");
  require(figure.normalise.empty() || figure.relative_to.empty(),
          "{}: a figure has 'normalise' or 'relative_to', not both", figure.place);
  reader.read("statistic", figure.statistic);
  require(figure.statistic.empty() || figure.low.empty(),
          "{}: the whiskers of a statistic are not those of its rows", figure.place);
  reader.read("reference_label", figure.reference_label);
  if (const Node* reference = reader.find("reference")) {
    reader.read("reference", figure.reference.emplace());
    require(!figure.reference_label.empty(), "{}: [[figure]] needs 'reference_label'",
            reference->place);
    require(figure.normalise.empty(), "{}: a normalised figure has its reference already: 1",
            reference->place);
    require(figure.y_scale != "log" || *figure.reference > 0,
            "{}: reference = {} is not on a log axis", reference->place, *figure.reference);
  }
  figure.where = read_where(reader, "where");
  return figure;
}

Table read_result_table(TableReader& reader) {
  Table table{reader.texts("columns"), read_where(reader, "where"), {}, reader.place()};
  for (const auto& [column, direction] : read_where(reader, "best")) {
    require(direction.value == "min" || direction.value == "max",
            "{}: the best of a column is its \"min\" or its \"max\"", direction.place);
    table.best[column] = direction;
  }
  return table;
}

Expect read_expect(TableReader& reader) {
  Expect expect;
  expect.place = reader.place();
  expect.name = reader.text("name");
  expect.source = reader.text("source");
  expect.column = reader.text("column");
  expect.statistic = "geomean";
  reader.read("statistic", expect.statistic);
  reader.read("with", expect.with);
  expect.where = read_where(reader, "where");
  expect.relative_to = read_where(reader, "relative_to");
  const bool correlates = expect.statistic == "rank_correlation";
  require(correlates != expect.with.empty(),
          "{}: a rank_correlation, and nothing else, takes the other column in 'with'",
          expect.place);
  require(!correlates || expect.relative_to.empty(),
          "{}: a rank_correlation is of two columns, not relative_to other rows", expect.place);
  require(reader.find("value") != nullptr, "{}: [[expect]] needs 'value'", expect.place);
  reader.read("value", expect.value);
  expect.tolerance = 0.1;
  reader.read("tolerance", expect.tolerance);
  require(expect.tolerance >= 0, "{}: tolerance takes 0 or more, not {}", expect.place,
          expect.tolerance);
  if (const Node* matrices = reader.find("matrices")) {
    reader.read("matrices", expect.matrices.emplace());
    require(*expect.matrices >= 1, "{}: matrices takes 1 or more, not {}", matrices->place,
            *expect.matrices);
  }
  expect.trend = "within";
  reader.read("trend", expect.trend);
  return expect;
}

/// Figures are files: no two may have one id.
void check_figure_ids(const std::vector<Figure>& figures) {
  std::vector<std::string> ids;
  for (const Figure& figure : figures) {
    require(std::ranges::find(ids, figure.id) == ids.end(),
            "{}: another figure has the id '{}' already", figure.place, figure.id);
    ids.push_back(figure.id);
  }
}

void read_analysis(TableReader& root, Config& config) {
  read_tables(root, "join",
              [&](TableReader& reader) { config.joins.push_back(read_join(reader)); });
  read_tables(root, "derive",
              [&](TableReader& reader) { config.derives.push_back(read_derive(reader)); });
  read_tables(root, "unfold", [&](TableReader& reader) {
    config.unfolds.push_back({reader.text("name"), reader.text("of"), reader.place()});
  });
  read_tables(root, "reduce",
              [&](TableReader& reader) { config.reduces.push_back(read_reduce(reader)); });
  read_table(root, "table",
             [&](TableReader& reader) { config.table.push_back(read_result_table(reader)); });
  read_tables(root, "figure",
              [&](TableReader& reader) { config.figures.push_back(read_figure(reader)); });
  check_figure_ids(config.figures);
  read_tables(root, "expect",
              [&](TableReader& reader) { config.expects.push_back(read_expect(reader)); });
}

/// The backend whose rows stand for those of a backend that needs a GPU: one that simulates, else
/// one that predicts, else the first.
std::string stand_in(const std::vector<std::string>& backends) {
  const auto first = [&](auto is_one) { return std::ranges::find_if(backends, is_one); };
  auto found = first([](const auto& name) { return backend_traits(name).simulates; });
  if (found == backends.end())
    found = first([](const auto& name) { return backend_traits(name).predicts; });
  return found == backends.end() ? backends.front() : *found;
}

/// Leaves out the backends that need a GPU; where nothing else is left, "simulate" or "pack" runs.
void leave_out_gpu(Config& config) {
  const auto needs_gpu = [](const std::string& name) { return backend_traits(name).needs_gpu; };
  if (std::ranges::none_of(config.backends, needs_gpu)) return;
  const bool packs = backend_traits(config.backends.front()).activity == Activity::kPack;
  std::erase_if(config.backends, needs_gpu);
  if (config.backends.empty()) config.backends.push_back(packs ? "pack" : "simulate");

  const std::string other = stand_in(config.backends);
  const auto is_gone = [&](const Json& name) {
    return name.is_string() &&
           Registry<BackendTraits>::instance().contains(name.get<std::string>()) && needs_gpu(name);
  };
  const auto replace = [&](Settings& where) {
    const auto backend = where.find("backend");
    if (backend == where.end() || backend->second.place.starts_with("--set")) return;
    Json& wanted = backend->second.value;
    if (is_gone(wanted)) wanted = other;
    if (!wanted.is_array()) return;
    Json kept = Json::array();
    std::ranges::remove_copy_if(wanted, std::back_inserter(kept), is_gone);
    wanted = kept.empty() ? Json(other) : kept;
  };
  for (Table& table : config.table) replace(table.where);
  for (Figure& figure : config.figures) replace(figure.where);
}

std::vector<fs::path> shipped_paths() {
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(shipped_path("experiments/configs")))
    if (file.path().extension() == ".toml") paths.push_back(file.path());
  std::ranges::sort(paths);
  return paths;
}

std::string find_config(const std::string& name_or_path) {
  if (fs::is_regular_file(name_or_path)) return name_or_path;
  std::vector<std::string> shipped;
  for (const fs::path& path : shipped_paths()) shipped.push_back(path.stem().string());
  require(name_or_path.find('/') == std::string::npos && !name_or_path.ends_with(".toml"),
          "{}: there is no such config file", name_or_path);
  require(std::ranges::find(shipped, name_or_path) != shipped.end(), "{}",
          unknown_name_message("experiment", name_or_path, shipped));
  return shipped_path("experiments/configs/" + name_or_path + ".toml");
}

/// The folders of a config's sets: beside the config, beside its folder, and the shipped ones.
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
  for (const fs::path& path : shipped_paths()) names.push_back(path.stem().string());
  return names;
}

Config load_config(const std::string& name_or_path, const std::vector<std::string>& sets,
                   const Without& without) {
  Config config;
  config.path = find_config(name_or_path);
  Document document = load_document(config.path);
  if (without.gpu) apply_without(document.root, "gpu");
  if (without.data) apply_without(document.root, "data");
  for (const std::string& set : sets) apply_set(document.root, set);
  MatrixSets matrix_sets(document.sets, set_folders(config.path), without.data);

  TableReader root(document.root, "the config");
  const Node* schema = root.find("schema");
  require(schema->scalar == Json(1), "{}: schema has to be 1, not {}", schema->place,
          schema->describe());
  root.find("include");  // load_document() has read it
  read_table(root, "without", [](TableReader& reader) {
    for (const char* lack : {"gpu", "data"}) reader.find(lack);  // apply_without() reads them
  });
  require(root.find("experiment") != nullptr, "{}:1:1: the config needs an [experiment]",
          config.path);
  read_table(root, "experiment", [&](TableReader& reader) { read_experiment(reader, config); });
  read_sweeps(root, matrix_sets, config);
  read_table(root, "check", [&](TableReader& reader) {
    reader.read("enabled", config.check);
    reader.read("against_fp32", config.against_fp32);
    reader.read("overflow_fails", config.overflow_fails);
  });
  read_table(root, "statistics",
             [&](TableReader& reader) { reader.read("square", config.square); });
  read_table(root, "measure", [&](TableReader& reader) { read_measure(reader, config); });
  read_table(root, "simulate", [&](TableReader& reader) { read_simulate(reader, config); });
  read_table(root, "counters", [&](TableReader& reader) { read_counters(reader, config); });
  read_analysis(root, config);
  root.refuse_unknown();
  if (without.gpu && config.gpu_only.empty()) leave_out_gpu(config);

  Json resolved = document.root.to_json();
  resolved.erase("without");
  resolved["sets"] = matrix_sets.used();
  config.matrix_sets = matrix_sets.used();
  config.counted_sets = matrix_sets.counted();
  config.hash = hash_text(resolved.dump());
  return config;
}

}  // namespace tessera
