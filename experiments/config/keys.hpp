// The keys of a config: the table from which TableReader reads them, `tessera list keys` prints
// them and experiments/config_reference.md is written.
//
// A key that is not here cannot be read, a key here that the reader of its table does not ask for
// is an error at the end of that table, and so is a default that differs from the one in the code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class KeyType {
  kText,
  kTexts,
  kFlag,
  kInteger,
  kNumber,
  kNumbers,
  kTable,
  kTables,
  kWhere,   // column -> the value it has to have, or a list of values of which it has to be one
  kSetting  // checked where points are resolved: a name, a number or a table with parameters
};

struct ConfigKey {
  const char* name;
  KeyType type;
  const char* fallback;  // as TOML; "required"; words in parentheses where it depends on other
                         // keys; empty where leaving the key out means none
  const char* unit;      // "s", "%", ...; empty for what has none
  const char* meaning;
  std::vector<std::string> (*choices)() = nullptr;  // of a text; null where any text will do
};

/// One table of a config, by the name that messages give it.
struct ConfigTable {
  const char* name;     // "[measure]"
  const char* meaning;  // one sentence
  std::span<const ConfigKey> keys;
  const char* notes;  // more for the reference, in Markdown; may be empty
};

/// All tables, in the order in which the reference has them.
std::span<const ConfigTable> config_tables();

/// Throws std::logic_error for a table or a key that is not documented.
const ConfigTable& config_table(std::string_view name);
const ConfigKey& config_key(const ConfigTable& table, std::string_view name);

/// "text", "list of numbers", "one of warm, flush": what the key takes, for people.
std::string type_text(const ConfigKey& key);

/// The whole of experiments/config_reference.md.
std::string config_reference();

}  // namespace tessera
