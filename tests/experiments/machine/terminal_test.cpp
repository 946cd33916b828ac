// Colours: where they are and where not. Terminals themselves are tested by program_test.py.
#include "experiments/machine/terminal.hpp"

#include <doctest/doctest.h>

#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("a file has no colours unless they are forced, and NO_COLOR has the last word") {
  TemporaryFolder folder;
  std::FILE* file = std::fopen((folder / "out").c_str(), "w");
  REQUIRE(file != nullptr);
  {
    EnvironmentVariable none("NO_COLOR", ""), unforced("CLICOLOR_FORCE", "");
    CHECK_FALSE(takes_colours(file));
    CHECK(toned(Tone::kError, "text", file) == "text");
    EnvironmentVariable zero("CLICOLOR_FORCE", "0");
    CHECK_FALSE(takes_colours(file));
    EnvironmentVariable forced("CLICOLOR_FORCE", "1");
    CHECK(takes_colours(file));
    CHECK(toned(Tone::kError, "text", file) == "\033[1;31mtext\033[0m");
    CHECK(toned(Tone::kPlain, "text", file) == "text");
    EnvironmentVariable refused("NO_COLOR", "1");
    CHECK_FALSE(takes_colours(file));
  }
  std::fclose(file);
}

TEST_CASE("an error shows the control characters of a name and does not send them") {
  const Outcome outcome = in_child([] {
    say_error("'a\x1b[2J.mtx':\n  there is none");
    say_warning("\r\xff");
  });
  const std::string said = "error: 'a\\x1b[2J.mtx':\n  there is none\nwarning: \\x0d\\xff\n";
  CHECK(outcome.output.find(said) != std::string::npos);
}

TEST_CASE("verdict words have the tone of what they say") {
  CHECK(tone_of("ok") == Tone::kGood);
  CHECK(tone_of("met") == Tone::kGood);
  CHECK(tone_of("skipped") == Tone::kWarning);
  CHECK(tone_of("NOT met") == Tone::kError);
  CHECK(tone_of("acc_spmm") == Tone::kPlain);
}

}  // namespace
}  // namespace tessera
