#include "formats/io/call_syntax.hpp"

#include <algorithm>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr std::string_view kBlanks = " \t";

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Call call() {
    Call call;
    call.name = word("a name");
    if (!at_end()) {
      expect('(');
      if (!accept(')')) {
        do parameter(call);
        while (accept(','));
        expect(')', "',' or ')'");
      }
    }
    if (!at_end()) fail(place_, "nothing after the closing ')'");
    return call;
  }

 private:
  void parameter(Call& call) {
    skip_blanks();
    const std::size_t start = place_;
    const std::string name = word("a parameter name");
    if (!accept('=')) fail(place_, fmt::format("'=' and a value after '{}'", name));
    skip_blanks();
    const std::string value = peek() == '"' ? quoted() : bare();
    if (!call.given.emplace(name, value).second) fail(start, fmt::format("'{}' only once", name));
  }

  std::string word(std::string_view what) {
    skip_blanks();
    const std::size_t start = place_;
    while (place_ < text_.size() && std::string_view("(),=\" \t").find(peek()) == text_.npos)
      ++place_;
    if (place_ == start) fail(start, what);
    return std::string(text_.substr(start, place_ - start));
  }

  std::string quoted() {
    const std::size_t start = place_++;
    std::string value;
    for (; peek() != '"'; ++place_) {
      if (peek() == '\\') ++place_;
      if (place_ >= text_.size()) fail(start, "a closing '\"' for the one here");
      value += text_[place_];
    }
    ++place_;
    return value;
  }

  std::string bare() {
    const std::size_t start = place_;
    std::size_t last_open = place_;
    int depth = 0;
    for (; place_ < text_.size(); ++place_) {
      const char c = text_[place_];
      if (depth == 0 && (c == ',' || c == ')')) break;
      if (c == '"') {
        quoted();
        --place_;
      }
      if (c == '(') last_open = place_;
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (depth > 0) fail(last_open, "a closing ')' for the one here");
    std::string_view value = text_.substr(start, place_ - start);
    const std::size_t last = value.find_last_not_of(kBlanks);
    if (last == value.npos) fail(start, "a value");
    return std::string(value.substr(0, last + 1));
  }

  char peek() const { return place_ < text_.size() ? text_[place_] : '\0'; }
  void skip_blanks() { place_ = std::min(text_.find_first_not_of(kBlanks, place_), text_.size()); }
  bool at_end() {
    skip_blanks();
    return place_ == text_.size();
  }
  bool accept(char c) {
    skip_blanks();
    if (peek() != c) return false;
    ++place_;
    return true;
  }
  void expect(char c, std::string_view what = "'('") {
    if (!accept(c)) fail(place_, what);
  }

  [[noreturn]] void fail(std::size_t place, std::string_view expected) const {
    const std::string found =
        place < text_.size() ? fmt::format("'{}'", text_[place]) : std::string("the end");
    throw Error(
        fmt::format("'{}', character {} ({}): expected {}", text_, place + 1, found, expected));
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

}  // namespace

Call parse_call(std::string_view text) { return Parser(text).call(); }

std::string quote_value(std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of("(),\"\\") == value.npos &&
                     kBlanks.find(value.front()) == kBlanks.npos &&
                     kBlanks.find(value.back()) == kBlanks.npos;
  if (plain) return std::string(value);
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace tessera
