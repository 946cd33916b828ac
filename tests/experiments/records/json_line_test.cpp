// Lines of JSON taken apart: the same values as the full parser's, and never a text that it
// refuses.
#include "experiments/records/json_line.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace tessera {
namespace {

using Json = nlohmann::json;

/// Random values, with what is hard to write and to read.
class RandomJson {
 public:
  explicit RandomJson(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  Json object(int depth) {
    Json object = Json::object();
    for (std::uint64_t members = below(6); members > 0; --members)
      object[text(false)] = value(depth - 1);
    return object;
  }

  /// Escapes and characters of one to four bytes.
  std::string text(bool with_escapes = true) {
    static const std::vector<std::string> plain{"a",  "time_us", "/", "é",    "×",
                                                "漢", "😀",       " ", "\x7f", "z"};
    static const std::vector<std::string> escaped{"\"", "\\", "\n", "\t", "\x01", "\x1f", "\b"};
    std::string text;
    for (std::uint64_t length = below(5); length > 0; --length)
      text += with_escapes && below(4) == 0 ? escaped[below(escaped.size())]
                                            : plain[below(plain.size())];
    return text;
  }

  Json value(int depth) {
    switch (below(depth > 0 ? 9 : 7)) {
      case 0:
        return Json();
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<std::int64_t>(random_());
      case 3:
        return random_();
      case 4:
        return std::ldexp(static_cast<double>(random_()), static_cast<int>(below(400)) - 300);
      case 5:
        return text();
      case 6:
        return below(2) == 0 ? Json(1e300) : Json(-0.0);
      case 7:
        return object(depth);
      default: {
        Json list = Json::array();
        for (std::uint64_t items = below(4); items > 0; --items) list.push_back(value(depth - 1));
        return list;
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

/// The text of an object as JsonLine has it: what is around its keys and its numbers, which may
/// have more digits than needed.
bool has_one_meaning(const std::string& text) {
  const Json parsed = Json::parse(text, nullptr, false);
  JsonLine line;
  if (!line.read(text)) return true;
  if (!parsed.is_object()) return false;
  const std::string dumped = parsed.dump();
  JsonLine again;
  if (!again.read(dumped) || again.values().size() != line.values().size()) return false;
  for (std::size_t i = 0; i < line.values().size(); ++i) {
    const auto &a = line.values()[i], &b = again.values()[i];
    if (a.key != b.key || a.kind != b.kind || a.end != b.end) return false;
    if (a.kind != JsonLine::Kind::kFloat && a.kind != JsonLine::Kind::kObject &&
        a.kind != JsonLine::Kind::kArray && a.text != b.text)
      return false;
  }
  return JsonLine::to_json(line.values().front()) == parsed;
}

TEST_CASE("every object that is dumped is taken apart into its values") {
  RandomJson random(30);
  JsonLine line;
  for (int i = 0; i < 20'000; ++i) {
    const Json object = random.object(4);
    const std::string text = object.dump();
    CAPTURE(text);
    REQUIRE(line.read(text));
    REQUIRE(line.line() == text);
    REQUIRE(JsonLine::to_json(line.values().front()) == object);
    std::size_t place = 1;
    for (const auto& [key, value] : object.items()) {
      const JsonLine::Value* found = line.find({key});
      REQUIRE(found == &line.values()[place]);
      REQUIRE(JsonLine::to_json(*found) == value);
      if (value.is_string()) REQUIRE(JsonLine::text_of(found) == value.get<std::string>());
      if (value.is_number()) REQUIRE(JsonLine::number_of(found) == value.get<double>());
      place = found->end;
    }
    REQUIRE(place == line.values().size());
  }
}

/// Replaces, inserts or removes up to three bytes.
std::string damaged(std::string text, RandomJson& random) {
  const std::string bytes = "{}[]\",:\\0123456789.eE+-truefalsn \x01\x80\xc3\xed\xf4u";
  for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
    const std::size_t at = random.below(text.size());
    const char byte = bytes[random.below(bytes.size())];
    switch (random.below(3)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text.erase(at, 1);
    }
    if (text.empty()) text.push_back('{');
  }
  return text;
}

TEST_CASE("a damaged text is refused, or means what the full parser reads") {
  RandomJson random(31);
  int taken = 0;
  JsonLine line;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = damaged(random.object(3).dump(), random);
    taken += line.read(text) ? 1 : 0;
    CAPTURE(text);
    REQUIRE(has_one_meaning(text));
  }
  CHECK(taken > 1000);  // it is not that all are refused
}

/// Lines of a few forms, as those of a set of records.
std::string line_of_form(std::uint64_t form, RandomJson& random) {
  const auto number = [&] { return std::ldexp(1.0, static_cast<int>(random.below(60)) - 30); };
  Json line{{"id", std::string(random.below(20), static_cast<char>('a' + random.below(26)))},
            {"n", random.below(3) == 0 ? Json(-5) : Json(random.below(1000))},
            {"params", {{"kernel", {{"name", "a kernel"}}}, {"wide", random.below(2) == 0}}}};
  if (form % 2 == 1) line["time"] = {{"mean", number()}, {"median", number()}};
  if (form % 4 > 1) line["parts"] = {Json::array(), Json::object(), {{"us", number()}}, nullptr};
  if (form > 3) line["zero"] = Json::array({random.below(2) == 0 ? Json(1) : Json(number())});
  // What has no form of its own: characters and escapes.
  if (random.below(50) == 0) line["reason"] = random.text();
  return line.dump();
}

TEST_CASE("a line is read as if no other had been read before") {
  RandomJson random(32);
  JsonLine line;
  int taken = 0, patterned = 0, refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string whole = line_of_form(random.below(8), random);
    const std::string text = random.below(2) == 0 ? whole : damaged(whole, random);
    CAPTURE(text);
    JsonLine fresh;
    const bool is_read = line.read(text);
    REQUIRE(is_read == fresh.read(text));
    taken += is_read ? 1 : 0;
    refused += is_read ? 0 : 1;
    if (!is_read) continue;
    patterned += line.pattern() != 0 ? 1 : 0;
    REQUIRE(line.is_plain() == fresh.is_plain());
    REQUIRE(line.structure() == fresh.structure());
    REQUIRE(line.values().size() == fresh.values().size());
    for (std::size_t v = 0; v < line.values().size(); ++v) {
      const auto &a = line.values()[v], &b = fresh.values()[v];
      REQUIRE(a.key == b.key);
      REQUIRE(a.kind == b.kind);
      REQUIRE(a.end == b.end);
      REQUIRE(a.text == b.text);
      REQUIRE(a.text.data() >= text.data());
      REQUIRE(a.text.data() + a.text.size() <= text.data() + text.size());
    }
  }
  CHECK(taken > 50'000);
  CHECK(patterned > 40'000);
  CHECK(refused > 10'000);
}

TEST_CASE("lines have one pattern exactly when their keys and kinds of values are the same") {
  JsonLine line;
  const auto pattern = [&line](const std::string& text) {
    REQUIRE(line.read(text));
    return line.pattern();
  };
  const std::uint64_t first = pattern(R"({"a":1,"b":["x",{}]})");
  CHECK(first != 0);
  CHECK(pattern(R"({"a":-27,"b":["",{}]})") == first);
  for (const char* other :
       {R"({"a":1.5,"b":["x",{}]})", R"({"a":1,"b":[null,{}]})", R"({"a":1,"c":["x",{}]})",
        R"({"a":1,"b":["x",[]]})", R"({"a":1,"b":["x",{}],"c":true})", R"({"a":1,"b":["x"]})"}) {
    CAPTURE(other);
    const std::uint64_t number = pattern(other);
    CHECK(number != 0);
    CHECK(number != first);
    CHECK(pattern(R"({"a":3,"b":["yz",{}]})") == first);
  }
  // Alike but for what is inside of what; and a text with an escape.
  const std::uint64_t flat = pattern(R"({"a":{"b":1},"c":2})");
  const std::string deep = R"({"a":{"b":1,"c":2}})";
  CHECK(pattern(deep) != flat);
  CHECK(line.find({"a", "c"}) != nullptr);
  CHECK(pattern(R"({"a":1,"b":["\n",{}]})") == 0);
}

TEST_CASE("a text that dump() does not write is refused") {
  JsonLine line;
  CHECK(line.read(R"({"a":1,"b":{"a":[1.50,-2,1e5,"\u001f\n"]}})"));
  for (const char* text : {"",
                           "1",
                           "[]",
                           "null",
                           "{",
                           "{}}",
                           "{} ",
                           " {}",
                           R"({"a" :1})",
                           R"({"a":1,})",
                           R"({"b":1,"a":2})",
                           R"({"a":1,"a":2})",
                           R"({"a\n":1})",
                           R"({"a":01})",
                           R"({"a":-0})",
                           R"({"a":+1})",
                           R"({"a":.5})",
                           R"({"a":1.})",
                           R"({"a":1e})",
                           R"({"a":1e999})",
                           R"({"a":18446744073709551616})",
                           R"({"a":-9223372036854775809})",
                           R"({"a":NaN})",
                           R"({"a":tru})",
                           R"({"a":"\u0041"})",
                           R"({"a":"\u001F"})",
                           R"({"a":"\u000a"})",
                           R"({"a":"\/"})",
                           R"({"a":"\x"})",
                           "{\"a\":\"\x01\"}",
                           "{\"a\":\"\x80\"}",
                           "{\"a\":\"\xc0\x80\"}",
                           "{\"a\":\"\xed\xa0\x80\"}",
                           "{\"a\":\"\xf5\x80\x80\x80\"}",
                           "{\"a\":\"\xe2\x82\"}",
                           "{\"a\":\"",
                           "{\"a\":[1,2",
                           "{\"a\""}) {
    CAPTURE(text);
    CHECK_FALSE(line.read(text));
  }
}

TEST_CASE("numbers at the ends of their types are taken as the full parser does") {
  JsonLine line;
  for (const char* number : {"18446744073709551615", "-9223372036854775808", "0", "-1",
                             "1.7976931348623157e+308", "5e-324", "1e-400", "-0.0"}) {
    const std::string text = fmt::format("{{\"a\":{}}}", number);
    CAPTURE(text);
    REQUIRE(line.read(text));
    CHECK(JsonLine::to_json(*line.find({"a"})) == Json::parse(number));
  }
}

TEST_CASE("a text nests a hundred levels deep at most") {
  JsonLine line;
  for (const auto& [levels, allowed] : {std::pair(99, true), {100, false}, {1'000'000, false}}) {
    CAPTURE(levels);
    const std::string text =
        fmt::format("{{\"a\":{}{}}}", std::string(levels, '['), std::string(levels, ']'));
    CHECK(line.read(text) == allowed);
  }
}

TEST_CASE("members become an object of those that are there") {
  JsonLine line;
  REQUIRE(line.read(R"({"a":1,"b":{"c":"x"},"d":null})"));
  CHECK(line.members({"b", "d", "e"}) == Json{{"b", {{"c", "x"}}}, {"d", nullptr}});
  CHECK(line.text_at({"b", "c"}) == "x");
  CHECK(line.text_at({"a", "c"}).empty());
  CHECK(line.find({"b", "e"}) == nullptr);
}

}  // namespace
}  // namespace tessera
