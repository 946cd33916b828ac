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
  for (const char* id : {"../x", "a/b", "/tmp/x", "..", ".hidden", "a b"}) {
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

TEST_CASE("a key of very many parts is refused, and dots in texts and numbers are none") {
  const auto dotted = [](int parts) {
    std::string key = "a";
    for (int i = 1; i < parts; ++i) key += i % 2 == 0 ? ".a" : ".\"a\"";
    return key;
  };
  for (const auto& [head, tail] :
       {std::pair("", " = 1\n"), {"[", "]\n"}, {"[[", "]]\n"}, {"x = { ", " = 1 }\n"}}) {
    CAPTURE(head);
    CHECK(error_after_head(head + dotted(40'000) + tail) ==
          "c.toml:5: a key has at most 100 parts");
    CHECK(error_after_head(head + dotted(101) + tail) == "c.toml:5: a key has at most 100 parts");
    CHECK(error_after_head(head + dotted(100) + tail).find("parts") == std::string::npos);
  }
  const std::string dots(1000, '.');
  CHECK(error_after_head("title = \"" + dots + " \\\" " + dots + "\" # " + dots + "\nquestion = '" +
                         dots + "'\npaper = \"\"\"" + dots + "\n\" " + dots +
                         "\"\"\"\nfigure = '''\n" + dots + "'''\n") == "no error");
  const TemporaryFolder folder;
  CHECK_THROWS_AS(load(folder, kHead, {dotted(40'000) + "=1"}), Error);
}

TEST_CASE("files that include each other without end are refused") {
  const TemporaryFolder folder;
  for (int i = 0; i < 150; ++i)
    write_text(folder / fmt::format("{}.toml", i),
               fmt::format("schema = 1\ninclude = [\"{}.toml\"]\n", i + 1));
  write_text(folder / "150.toml", kHead);

  CHECK(error_of([&] { load_config(folder / "100.toml"); }) == "no error");
  CHECK(error_of([&] { load_config(folder / "0.toml"); }) ==
        folder / "99.toml:2:12: include: more than 100 files include each other");
}

TEST_CASE("sets that double at every step are refused before they are expanded") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sets");
  for (int i = 0; i <= 200; ++i)
    for (const bool doubles : {true, false}) {
      const std::string name = fmt::format("{}{}", doubles ? 'd' : 's', i);
      const std::string inner = fmt::format("\"@{}{}\"", doubles ? 'd' : 's', i - 1);
      write_text(folder / ("sets/" + name + ".toml"),
                 "schema = 1\n[set]\nname = \"" + name + "\"\nmatrix = [" +
                     (i == 0 ? "\"absent_a\"" : inner + (doubles ? ", " + inner : "")) + "]\n");
    }
  const auto error = [&](const std::string& set) {
    return error_of([&] { load(folder, kHead + "[grid]\nmatrix = \"@" + set + "\"\n"); });
  };

  CHECK(error("d5") == "no error");
  CHECK(error("s99") == "no error");
  CHECK(error("d30").ends_with("the sets of matrices have more than 100000 members in all"));
  CHECK(error("s200").ends_with("more than 100 sets of matrices within each other"));
}

}  // namespace
}  // namespace tessera
