// The keys of a config as text for people.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/keys.hpp"

namespace tessera {
namespace {

constexpr const char* kOpening = R"(# Reference of experiment configs

This file is written by `tessera list keys --markdown`, from the table by which the program reads configs (`experiments/config/keys.cpp`).

A config is one TOML file: shipped in `experiments/configs/` and called by its name, or anywhere and called by its path. How to write a first one: [adding.md](adding.md#an-experiment). Every
unknown key or column, ill-typed value and unknown name is an error with file, line, column and the nearest known name, before any point runs. `--set table.key=value` overrides a key on the
command line. A `where` selects rows by the values of columns (`tessera list columns`); a list means "one of these". Rows go through `[[join]]`, `[[derive]]`, `[[unfold]]` and `[[reduce]]`, in
this order, before tables, figures and expectations take them.
)";

constexpr const char* kClosing = R"(
## Examples

`experiments/configs/quickstart.toml` (cases), `acc_spmm_ablation.toml` (ablation), `counters.toml` (join), `formats_table.toml` (packing), `smat_blocks_per_row.toml` (unfold),
`acc_spmm_fig10.toml` (reordering), `spgemm.toml` (sparse products) beside it.
)";

std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

/// "42 s", "required", "" for none.
std::string default_text(const ConfigKey& key) {
  const std::string fallback = key.fallback;
  if (fallback.empty() || fallback == "required") return fallback;
  if (fallback.starts_with('(')) return fallback.substr(1, fallback.size() - 2);
  return "`" + fallback + "`";
}

std::string row(const ConfigKey& key) {
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name, cell(type_text(key)),
                     cell(default_text(key)), key.unit, cell(key.meaning));
}

}  // namespace

std::string type_text(const ConfigKey& key) {
  if (key.choices != nullptr) return fmt::format("one of {}", fmt::join(key.choices(), ", "));
  switch (key.type) {
    case KeyType::kText:
      return "text";
    case KeyType::kTexts:
      return "list of texts";
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kInteger:
      return "integer";
    case KeyType::kNumber:
      return "number";
    case KeyType::kNumbers:
      return "list of numbers";
    case KeyType::kTable:
      return "table";
    case KeyType::kTables:
      return "list of tables";
    case KeyType::kWhere:
      return "where";
    case KeyType::kSetting:
      return "name";
  }
  return "";
}

std::string config_reference() {
  std::string text = kOpening;
  for (const ConfigTable& table : config_tables()) {
    text += fmt::format("\n## {}\n\n{}\n", table.name, table.meaning);
    if (!table.keys.empty()) {
      text += "\n| key | type | default | unit | meaning |\n|---|---|---|---|---|\n";
      for (const ConfigKey& key : table.keys) text += row(key);
    }
    if (*table.notes != '\0') text += fmt::format("\n{}", table.notes);
  }
  return text + kClosing;
}

}  // namespace tessera
