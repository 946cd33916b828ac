#include "experiments/machine/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"

namespace tessera {
namespace {

constexpr int kUsualWidth = 100;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const char* code_of(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "\033[32m";
    case Tone::kWarning:
      return "\033[33m";
    case Tone::kError:
      return "\033[1;31m";
    case Tone::kStrong:
      return "\033[1m";
    case Tone::kFaint:
      return "\033[2m";
    case Tone::kPlain:
      break;
  }
  return "";
}

template <std::size_t n>
bool is_one_of(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

constexpr std::array<std::string_view, 9> kGoodWords{"ok",    "right",  "equal", "met",  "works",
                                                     "found", "faster", "pass",  "exact"};
constexpr std::array<std::string_view, 5> kWarningWords{"skipped", "differs", "ambiguous",
                                                        "not judged", "tie"};
constexpr std::array<std::string_view, 9> kErrorWords{
    "wrong", "WRONG", "failed", "NOT met", "timeout", "oom", "missing", "slower", "FAILED"};

}  // namespace

bool takes_colours(std::FILE* stream) {
  if (!variable("NO_COLOR").empty()) return false;
  if (const auto force = variable("CLICOLOR_FORCE"); !force.empty() && force != "0") return true;
  return isatty(fileno(stream)) != 0 && variable("CLICOLOR") != "0" && variable("TERM") != "dumb" &&
         !variable("TERM").empty();
}

std::string toned(Tone tone, std::string_view text, std::FILE* stream) {
  if (tone == Tone::kPlain || text.empty() || !takes_colours(stream)) return std::string(text);
  return fmt::format("{}{}\033[0m", code_of(tone), text);
}

Tone tone_of(std::string_view verdict) {
  if (is_one_of(kGoodWords, verdict)) return Tone::kGood;
  if (is_one_of(kWarningWords, verdict)) return Tone::kWarning;
  return is_one_of(kErrorWords, verdict) ? Tone::kError : Tone::kPlain;
}

std::string verdict_text(std::string_view verdict, std::FILE* stream) {
  return toned(tone_of(verdict), verdict, stream);
}

void say_error(std::string_view message) {
  fmt::print(stderr, "{} {}\n", toned(Tone::kError, "error:", stderr), escaped_lines(message));
}

void say_warning(std::string_view message) {
  fmt::print(stderr, "{} {}\n", toned(Tone::kWarning, "warning:", stderr), escaped_lines(message));
}

int width_of(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

void finish_stdout() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int cause = errno;
  require(flushed && std::ferror(stdout) == 0, "stdout cannot be written: {}",
          cause == 0 ? "an earlier write failed" : std::strerror(cause));
}

}  // namespace tessera
