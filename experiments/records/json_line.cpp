// Takes apart only what dump() writes, so that a line has one meaning: what it refuses goes to the
// full parser. It follows RFC 8259 and, for UTF-8, RFC 3629.
#include "experiments/records/json_line.hpp"

#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "experiments/records/json_depth.hpp"
#include "experiments/records/json_pattern.hpp"
#include "formats/base/hash.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostPatterns = 256;

std::uint64_t structure_of(const std::vector<JsonLine::Value>& values) {
  std::string text;
  for (const JsonLine::Value& value : values) {
    text += value.key;
    text += static_cast<char>(value.kind);
  }
  return checksum(std::as_bytes(std::span(text)));
}

}  // namespace

/// A pattern of lines, and those of lines that followed them, the likelier one first.
struct JsonLine::Known {
  JsonPattern pattern;
  std::uint64_t structure = 0;
  std::array<Known*, 2> next = {};

  /// One that follows for the first time does not take the place of the first: it may be a rare
  /// exception.
  void follow(Known* follower) {
    if (next[0] == nullptr || next[0] == follower)
      next[0] = follower;
    else if (next[1] == follower)
      std::swap(next[0], next[1]);
    else
      next[1] = follower;
  }
};

JsonLine::JsonLine() = default;
JsonLine::~JsonLine() = default;
JsonLine::JsonLine(JsonLine&&) noexcept = default;
JsonLine& JsonLine::operator=(JsonLine&&) noexcept = default;

const std::vector<JsonLine::Value>& JsonLine::values() const {
  return current_ != nullptr ? current_->pattern.values() : values_;
}

std::uint64_t JsonLine::pattern() const {
  return current_ != nullptr ? current_->pattern.number() : 0;
}

std::uint64_t JsonLine::structure() const {
  return current_ != nullptr ? current_->structure : structure_of(values_);
}

bool JsonLine::read(std::string_view line, bool is_dumped) {
  is_dumped_ = is_dumped;
  is_plain_ = true;
  current_ = nullptr;
  // Records come in the order of a plan: what followed once follows again.
  if (last_ != nullptr)
    for (Known* known : last_->next)
      if (current_ == nullptr && known != nullptr && known->pattern.read(line)) current_ = known;
  if (current_ == nullptr) {
    if (!read_anew(line)) return false;
    if (is_plain_) learn(line);
  }
  if (current_ == nullptr) return true;
  if (last_ != nullptr) last_->follow(current_);
  last_ = current_;
  return true;
}

/// Finds the pattern of a line that has been taken apart, or makes one.
void JsonLine::learn(std::string_view line) {
  const std::uint64_t structure = structure_of(values_);
  const auto found = known_.find(structure);
  if (found != known_.end()) {
    if (found->second->pattern.read(line)) current_ = found->second.get();
  } else if (known_.size() < kMostPatterns) {
    std::unique_ptr<Known>& known = known_[structure];
    known.reset(new Known{JsonPattern(line, values_), structure});
    current_ = known.get();
    current_->pattern.read(line);
  }
}

bool JsonLine::read_anew(std::string_view line) {
  values_.clear();
  at_ = line.data();
  end_ = line.data() + line.size();
  return !line.empty() && line.front() == '{' && read_value({}, 1) && at_ == end_;
}

bool JsonLine::read_value(std::string_view key, int depth) {
  if (at_ == end_ || depth > kDeepestJson) return false;
  const std::size_t place = values_.size();
  const char* begin = at_;
  Kind kind = Kind::kNull;
  values_.push_back({key, {}, 0, kind});
  bool good = false;
  switch (*at_) {
    case '{':
      kind = Kind::kObject;
      good = read_members(depth);
      break;
    case '[':
      kind = Kind::kArray;
      good = read_elements(depth);
      break;
    case '"':
      kind = Kind::kText;
      good = read_text();
      break;
    case 't':
      kind = Kind::kBool;
      good = read_word("true");
      break;
    case 'f':
      kind = Kind::kBool;
      good = read_word("false");
      break;
    case 'n':
      good = read_word("null");
      break;
    default:
      good = read_number(kind);
  }
  Value& value = values_[place];
  value.text = {begin, static_cast<std::size_t>(at_ - begin)};
  value.end = static_cast<std::uint32_t>(values_.size());
  value.kind = kind;
  return good;
}

bool JsonLine::read_members(int depth) {
  ++at_;
  if (take('}')) return true;
  std::string_view last;
  for (bool first = true;; first = false) {
    const char* begin = at_;
    bool is_escaped = false;
    if (at_ == end_ || *at_ != '"' || !read_text(&is_escaped)) return false;
    const std::string_view key(begin + 1, static_cast<std::size_t>(at_ - begin) - 2);
    // Escapes could hide that two keys are one, or their order.
    if (!is_dumped_ && (is_escaped || (!first && !precedes(last, key)))) return false;
    last = key;
    if (!take(':') || !read_value(key, depth + 1)) return false;
    if (take('}')) return true;
    if (!take(',')) return false;
  }
}

bool JsonLine::read_elements(int depth) {
  ++at_;
  if (take(']')) return true;
  while (read_value({}, depth + 1)) {
    if (take(']')) return true;
    if (!take(',')) return false;
  }
  return false;
}

bool JsonLine::read_text(bool* is_escaped) {
  ++at_;
  while (true) {
    at_ = skip_plain(at_, end_);
    if (at_ == end_) return false;
    if (take('"')) return true;
    is_plain_ = false;
    if (is_escaped != nullptr) *is_escaped |= *at_ == '\\';
    if (*at_ == '\\' ? !read_escape() : !read_utf8()) return false;
  }
}

/// An escape as dump() writes it: \u only where there is no shorter one.
bool JsonLine::read_escape() {
  ++at_;
  if (at_ == end_) return false;
  const char c = *at_++;
  if (std::string_view("\"\\bfnrt").find(c) != std::string_view::npos) return true;
  if (c != 'u' || end_ - at_ < 4) return false;
  const std::string_view digits(at_, 4);
  at_ += 4;
  if (!digits.starts_with("000") && !digits.starts_with("001")) return false;
  if (std::string_view("0123456789abcdef").find(digits[3]) == std::string_view::npos) return false;
  const std::string_view shorter = "89acd";  // \b \t \n \f \r
  return digits[2] == '1' || shorter.find(digits[3]) == std::string_view::npos;
}

bool JsonLine::read_utf8() {
  const auto byte = [&](int i) { return static_cast<unsigned char>(at_[i]); };
  const unsigned char lead = byte(0);
  if (lead == 0x7f) return ++at_, true;
  const int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || end_ - at_ < length) return false;
  for (int i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return false;
  // Longer than needed, a surrogate, or beyond U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return false;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return false;
  at_ += length;
  return true;
}

bool JsonLine::read_number(Kind& kind) {
  const char* behind = skip_number(at_, end_, kind);
  if (behind != nullptr) at_ = behind;
  return behind != nullptr;
}

bool JsonLine::read_word(std::string_view word) {
  const char* behind = skip_word(at_, end_, word);
  if (behind != nullptr) at_ = behind;
  return behind != nullptr;
}

const JsonLine::Value* JsonLine::find(const Value& object, std::string_view key) const {
  if (object.kind != Kind::kObject) return nullptr;
  const std::vector<Value>& all = values();
  std::size_t i = &object - all.data() + 1;
  // Escapes change the order of keys.
  const auto is_before = [&](std::string_view other) {
    return is_dumped_ ? other != key : precedes(other, key);
  };
  while (i < object.end && is_before(all[i].key)) i = all[i].end;
  return i < object.end && all[i].key == key ? &all[i] : nullptr;
}

const JsonLine::Value* JsonLine::find(std::initializer_list<std::string_view> path) const {
  const Value* value = &values().front();
  for (const std::string_view key : path)
    if (value != nullptr) value = find(*value, key);
  return value;
}

std::string JsonLine::text_of(const Value* value) {
  return value == nullptr || value->kind != Kind::kText ? "" : text_of(value->text);
}

std::string JsonLine::text_of(std::string_view quoted) {
  if (quoted.find('\\') == quoted.npos) return std::string(quoted.substr(1, quoted.size() - 2));
  return nlohmann::json::parse(quoted).get<std::string>();
}

double JsonLine::number_of(const Value* value) {
  double number = 0;
  if (value != nullptr && (value->kind == Kind::kInteger || value->kind == Kind::kFloat))
    std::from_chars(value->text.data(), value->text.data() + value->text.size(), number);
  return number;
}

nlohmann::json JsonLine::members(std::initializer_list<std::string_view> keys) const {
  auto object = nlohmann::json::object();
  for (const std::string_view key : keys)
    if (const Value* value = find(values().front(), key))
      object[std::string(key)] = to_json(*value);
  return object;
}

}  // namespace tessera
