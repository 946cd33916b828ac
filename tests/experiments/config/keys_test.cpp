// The keys of configs are read from one table, which is the reference too.
#include "experiments/config/keys.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "experiments/config/table_reader.hpp"
#include "formats/base/shipped_files.hpp"

namespace tessera {
namespace {

const Node kEmpty{};

/// What a reader of [check] says after these calls.
template <class Read>
std::string fault(Read read) {
  TableReader reader(kEmpty, "[check]");
  try {
    read(reader);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

void read_all(TableReader& reader) {
  bool enabled = true, against_fp32 = false, overflow_fails = true;
  reader.read("enabled", enabled);
  reader.read("against_fp32", against_fp32);
  reader.read("overflow_fails", overflow_fails);
  reader.refuse_unknown();
}

TEST_CASE("only documented tables and keys can be read, with their type and default") {
  CHECK(fault(read_all).empty());
  CHECK(fault([](TableReader& reader) { reader.find("enable"); }) ==
        "undocumented key in [check]: enable");
  CHECK(fault([](TableReader&) { TableReader(kEmpty, "[chekc]"); }) ==
        "undocumented table of a config: [chekc]");
  CHECK(fault([](TableReader& reader) {
          bool enabled = false;
          reader.read("enabled", enabled);
        }) == "the type or the default of enabled in [check] is not the documented one: false");
  CHECK(fault([](TableReader& reader) {
          std::string enabled;
          reader.read("enabled", enabled);
        }).starts_with("the type or the default of enabled"));
}

TEST_CASE("a documented key that no one reads is a fault of the program") {
  CHECK(fault([](TableReader& reader) {
          reader.find("enabled");
          reader.refuse_unknown();
        }) == "no one reads the key against_fp32 of [check]");
}

TEST_CASE("every key has a sentence, and none is documented twice") {
  std::set<std::string> tables;
  for (const ConfigTable& table : config_tables()) {
    CAPTURE(table.name);
    CHECK(tables.insert(table.name).second);
    CHECK(std::string(table.meaning).ends_with('.'));
    std::set<std::string> keys;
    for (const ConfigKey& key : table.keys) {
      CAPTURE(key.name);
      CHECK(keys.insert(key.name).second);
      CHECK(std::string(key.meaning).size() > 4);
      CHECK_FALSE(type_text(key).empty());
    }
  }
  CHECK(tables.size() > 20);
}

TEST_CASE("the reference of config keys is the one that the program prints") {
  std::ifstream file(shipped_path("experiments/config_reference.md"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};

  // `tessera list keys --markdown > experiments/config_reference.md` writes it.
  CHECK(text == config_reference());
  CHECK(text.find("| `noise` | number | `0.01` |") != std::string::npos);
}

}  // namespace
}  // namespace tessera
