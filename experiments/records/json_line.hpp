// A JSON object in one line of text, taken apart without a tree of values.
//
// A tree takes ten times the memory of its text. Building it takes most of the time when a few
// values of a million records are needed. Here a value is a piece of the line, and all values lie
// in one list that the next line uses again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "experiments/records/json_value.hpp"

namespace tessera {

/// As a < b. Keys differ early, so that a loop takes less time than a call of memcmp.
inline bool precedes(std::string_view a, std::string_view b) {
  const std::size_t size = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]);
  return a.size() < b.size();
}

class JsonLine {
 public:
  using Kind = JsonKind;
  using Value = JsonValue;

  JsonLine();
  ~JsonLine();
  JsonLine(JsonLine&&) noexcept;
  JsonLine& operator=(JsonLine&&) noexcept;

  /// Takes an object apart that is written as nlohmann's dump() writes it: no blanks, keys in
  /// ascending order and each once, UTF-8. Numbers may have more digits than they need. False for
  /// every other text, JSON or not. The values point into `line` and into this. Keys with escapes
  /// are refused, since they could hide that two are one, unless `is_dumped`: the line is from
  /// dump() itself. A line with the keys of one before, as most are in a file of records, takes
  /// least time.
  bool read(std::string_view line, bool is_dumped = false);

  /// True when its texts are ASCII without control characters and escapes.
  bool is_plain() const { return is_plain_; }

  std::string_view line() const { return values().front().text; }

  /// The first is the object itself; the others are in the order of the line.
  const std::vector<Value>& values() const;

  /// The same for lines that this has read with equal keys and kinds of values, and different for
  /// all other lines; 0 for a line without equals.
  std::uint64_t pattern() const;

  /// A hash of the keys and of the kinds of values, which depends on nothing else.
  std::uint64_t structure() const;

  /// The value at a path of keys; null when there is none.
  const Value* find(std::initializer_list<std::string_view> path) const;
  /// The member of that object, a value of this line; null when there is none.
  const Value* find(const Value& object, std::string_view key) const;

  /// A text without quotes and escapes; empty for a value of another kind, and for none.
  static std::string text_of(const Value* value);
  /// The same of a value's text, which is one.
  static std::string text_of(std::string_view quoted);
  std::string text_at(std::initializer_list<std::string_view> path) const {
    return text_of(find(path));
  }

  /// A number; 0 for a value of another kind, and for none.
  static double number_of(const Value* value);

  /// The value as a tree.
  static nlohmann::json to_json(const Value& value) { return nlohmann::json::parse(value.text); }
  /// An object of the line's members with these keys.
  nlohmann::json members(std::initializer_list<std::string_view> keys) const;

 private:
  struct Known;

  bool read_anew(std::string_view line);
  void learn(std::string_view line);
  bool read_value(std::string_view key, int depth);
  bool read_members(int depth);
  bool read_elements(int depth);
  bool read_text(bool* is_escaped = nullptr);
  bool read_escape();
  bool read_utf8();
  bool read_number(Kind& kind);
  bool read_word(std::string_view word);
  bool take(char c) { return at_ != end_ && *at_ == c && (++at_, true); }

  std::vector<Value> values_;                                        // of a line without a pattern
  std::unordered_map<std::uint64_t, std::unique_ptr<Known>> known_;  // patterns, by structure()
  Known* current_ = nullptr;                                         // the line's; null without one
  Known* last_ = nullptr;  // of the last line that had one
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool is_plain_ = true;
  bool is_dumped_ = false;
};

}  // namespace tessera
