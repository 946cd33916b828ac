// tessera list: the names that configs and the command line accept.

#include <set>

#include "experiments/config/keys.hpp"
#include "experiments/config/needs.hpp"
#include "experiments/points/traits.hpp"
#include "experiments/tables/rows.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/published.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

Json params_json(const std::vector<ParamSpec>& specs) {
  Json list = Json::array();
  for (const ParamSpec& spec : specs) {
    Json json{{"name", spec.name}, {"default", to_text(spec.fallback)}, {"help", spec.help}};
    if (!spec.choices.empty()) json["choices"] = spec.choices;
    list.push_back(std::move(json));
  }
  return list;
}

template <class T>
Json registered() {
  Json list = Json::array();
  for (const auto& [name, entry] : Registry<T>::instance().entries())
    list.push_back(
        {{"name", name}, {"summary", entry.summary}, {"params", params_json(entry.params)}});
  return list;
}

/// The choices of a published system with their sources, then what our code does otherwise.
Json published_json(const Published& system) {
  Json list = Json::array();
  for (const Published::Choice& choice : system.choices)
    list.push_back({{"name", choice.key},
                    {"default", to_text(choice.value)},
                    {"help", fmt::format("{}, {}", system.paper, choice.source)}});
  for (const std::string& departure : system.departures)
    list.push_back({{"name", "otherwise"}, {"default", ""}, {"help", departure}});
  return list;
}

/// The kernels of all kinds, those for a dense B first; "b": that of C = A B, or "sampled" for
/// S = X Y^T at the nonzeros of A; "published": of as = "published".
Json kernels() {
  Json list = Json::array();
  const auto& systems = Registry<Published>::instance();
  const auto add = [&](const char* b, Json of_kind) {
    for (Json& kernel : of_kind) {
      kernel["b"] = b;
      const std::string name = kernel["name"];
      if (systems.contains(name)) kernel["published"] = published_json(*systems.make(name));
      list.push_back(std::move(kernel));
    }
  };
  add("dense", registered<SpmmKernel>());
  add("sparse", registered<SpgemmKernel>());
  add("sampled", registered<SddmmKernel>());
  return list;
}

Json devices() {
  Json list = Json::array();
  for (const std::string& name : device_names()) {
    const Device& device = find_device(name);
    Json numbers = Json::object();
    for (const auto* section : {&device.datasheet, &device.measured})
      for (const auto& [quantity, found] : *section)
        numbers[section == &device.measured ? "measured" : "datasheet"][quantity] = {
            {"value", found.value}, {"unit", found.unit}, {"source", found.source}};
    list.push_back({{"name", name},
                    {"summary", fmt::format("{} ({}, compute capability {})", device.title,
                                            device.generation, device.compute_capability)},
                    {"quantities", numbers}});
  }
  return list;
}

/// The shipped experiments, as they are written.
Json experiments() {
  Json list = Json::array();
  for (const std::string& name : shipped_configs()) {
    const Config config = load_config(name);
    const Needs needs = needs_of(config);
    list.push_back({{"name", name},
                    {"summary", config.title},
                    {"question", config.question},
                    {"paper", config.paper},
                    {"figure", config.figure},
                    {"minutes", config.minutes},
                    {"needs", to_text(needs, config)},
                    {"needs_gpu", !config.gpu_only.empty()},
                    {"measures_on_gpu", needs.gpu},
                    {"files", needs.files}});
  }
  return list;
}

/// The keys of configs, table by table.
Json keys() {
  Json list = Json::array();
  for (const ConfigTable& table : config_tables())
    for (const ConfigKey& key : table.keys)
      list.push_back({{"table", table.name},
                      {"name", key.name},
                      {"type", type_text(key)},
                      {"default", key.fallback},
                      {"unit", key.unit},
                      {"summary", key.meaning}});
  return list;
}

/// The columns of the kinds that have more than a name and a summary.
const std::map<std::string, std::vector<std::string>>& table_columns() {
  static const std::map<std::string, std::vector<std::string>> all{
      {"experiments", {"name", "minutes", "needs", "paper", "figure", "question"}},
      {"keys", {"table", "name", "type", "default", "unit", "summary"}}};
  return all;
}

Json named(const std::map<std::string, std::string>& all) {
  Json list = Json::array();
  for (const auto& [name, summary] : all) list.push_back({{"name", name}, {"summary", summary}});
  return list;
}

class ListVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    std::set<std::string> names;
    for (const auto& [name, make] : kinds()) names.insert(name);
    app.add_option("KIND", kind_, "kind of things to list")
        ->required()
        ->check(CLI::IsMember(names));
    app.add_flag("--json", json_, "print JSON with parameters");
    app.add_flag("--markdown", markdown_, "print the reference of the keys of configs");
    app.example("tessera list kernels", "names, meanings and parameters");
  }

  int run() override {
    require(!markdown_ || kind_ == "keys", "--markdown prints the keys: `list keys --markdown`");
    if (markdown_) {
      fmt::print("{}", config_reference());
      return kOk;
    }
    const Json list = kinds().at(kind_)();
    if (json_) {
      print_json(list);
      return kOk;
    }
    if (const auto columns = table_columns().find(kind_); columns != table_columns().end()) {
      fmt::print("{}", text_table(list.get<std::vector<Row>>(), columns->second));
      return kOk;
    }
    for (const Json& item : list) {
      fmt::print("{:16} {}\n", item["name"].get<std::string>(), item["summary"].get<std::string>());
      if (!item.contains("params")) continue;
      for (const Json& param : item["params"])
        fmt::print("{:16}   {}={}  {}\n", "", param["name"].get<std::string>(),
                   param["default"].get<std::string>(), param["help"].get<std::string>());
      if (item.contains("published")) print_published(item["published"]);
    }
    return kOk;
  }

 private:
  static void print_published(const Json& choices) {
    fmt::print("{:16}   as = \"published\":\n", "");
    for (const Json& one : choices) {
      const std::string value = one["default"];
      fmt::print("{:16}     {}{}  {}\n", "", one["name"].get<std::string>(),
                 value.empty() ? ":" : "=" + value, one["help"].get<std::string>());
    }
  }

  static const std::map<std::string, Json (*)()>& kinds() {
    static const std::map<std::string, Json (*)()> all{
        {"formats", registered<Format>},
        {"reorderings", registered<Reordering>},
        {"kernels", kernels},
        {"models", registered<Model>},
        {"microbenchmarks", registered<Microbenchmark>},
        {"generators", registered<Generator>},
        {"values", registered<ValueFamily>},
        {"backends", registered<BackendTraits>},
        {"counters", registered<CounterSourceTraits>},
        {"files", registered<MatrixFile>},
        {"devices", devices},
        {"experiments", experiments},
        {"keys", keys},
        {"columns", [] { return named(row_columns()); }}};
    return all;
  }

  std::string kind_;
  bool json_ = false;
  bool markdown_ = false;
};

const Register<Verb> entry{{
    .name = "list",
    .summary =
        "formats, reorderings, kernels, models, devices, generators, values, experiments, ...",
    .make = [](const Params&) { return std::make_unique<ListVerb>(); },
}};

}  // namespace
}  // namespace tessera
