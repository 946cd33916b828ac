// Configs that would leave their folders, the stack or the memory, and what refuses them.
#include "experiments/config/config.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/planted_records.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const std::string kHead = "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n";

void load(const TemporaryFolder& folder, const std::string& text,
          const std::vector<std::string>& sets = {}) {
  write_text(folder / "c.toml", text);
  load_config(folder / "c.toml", sets);
}

/// The fault of a config that goes on after kHead: four lines, the last of them in [experiment].
std::string error_after_head(const std::string& rest, const std::vector<std::string>& sets = {}) {
  const TemporaryFolder folder;
  return error_of([&] { load(folder, kHead + rest, sets); });
}

TEST_CASE("a figure's id and kind stay in their folders") {
  const auto figure = [](const std::string& kind, const std::string& id) {
    return "[[figure]]\nkind = \"" + kind + "\"\nid = \"" + id +
           "\"\nx = \"n\"\ny = \"n\"\nseries = \"n\"\n";
  };
  CHECK(error_after_head(figure("bars", "a-b_c.2")) == "no error");
  for (const char* id : {"../x", "a/b", "/tmp/x", "..", ".hidden", "a b", "a\\u0000b"}) {
    CAPTURE(id);
    CHECK(error_after_head(figure("bars", id)).starts_with("c.toml:7:6: the id '"));
  }
  CHECK(
      error_after_head(figure("bars", std::string(300, 'a'))).starts_with("c.toml:7:6: the id '"));
  CHECK(error_after_head(figure("bars", "")) == "c.toml:7:6: id is empty");
  CHECK(error_after_head(figure("../../x/evil", "f"))
            .starts_with("c.toml:6:8: unknown value for kind '../../x/evil'"));

  // An installation without the scripts knows no kinds.
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "home/notebooks");
  const EnvironmentVariable home("TESSERA_HOME", folder / "home");
  CHECK(error_after_head(figure("bars", "f")) == "no error");
  CHECK(error_after_head(figure("../../x/evil", "f"))
            .starts_with("c.toml:5:1: the kind '../../x/evil' names files"));
}

}  // namespace
}  // namespace tessera
