// Takes apart only what dump() writes, so that a line has one meaning: what it refuses goes to the
// full parser. It follows RFC 8259 and, for UTF-8, RFC 3629.
#include "experiments/records/json_line.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "experiments/records/json_depth.hpp"

namespace tessera {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// True for the bytes of a text that stand for themselves and are ASCII.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7f; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

/// True for the digits of an integer that 64 bits hold.
bool fits(std::string_view digits, bool negative) {
  constexpr std::string_view kLeast = "9223372036854775808", kMost = "18446744073709551615";
  const std::string_view limit = negative ? kLeast : kMost;
  return digits.size() < limit.size() || (digits.size() == limit.size() && digits <= limit);
}

}  // namespace

bool JsonLine::read(std::string_view line, bool is_dumped) {
  values_.clear();
  is_dumped_ = is_dumped;
  is_plain_ = true;
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
    while (at_ != end_ && kPlain[static_cast<unsigned char>(*at_)]) ++at_;
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

int JsonLine::read_digits() {
  const char* begin = at_;
  while (at_ != end_ && is_digit(*at_)) ++at_;
  return static_cast<int>(at_ - begin);
}

bool JsonLine::read_number(Kind& kind) {
  const char* begin = at_;
  const bool negative = take('-');
  const char* first = at_;
  const int digits = read_digits();
  if (digits == 0 || (*first == '0' && digits > 1)) return false;
  const bool has_fraction = take('.');
  if (has_fraction && read_digits() == 0) return false;
  const bool has_exponent = take('e') || take('E');
  bool small_exponent = true;
  if (has_exponent) {
    const bool shrinks = take('-');
    if (!shrinks) take('+');
    const int exponent_digits = read_digits();
    if (exponent_digits == 0) return false;
    small_exponent = shrinks || exponent_digits < 3;
  }
  kind = has_fraction || has_exponent ? Kind::kFloat : Kind::kInteger;
  if (kind == Kind::kInteger) {
    const std::string_view text(first, static_cast<std::size_t>(digits));
    return fits(text, negative) && !(negative && text == "0");
  }
  if (small_exponent && digits < 200) return true;
  return std::isfinite(std::strtod(std::string(begin, at_).c_str(), nullptr));
}

bool JsonLine::read_word(std::string_view word) {
  if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

const JsonLine::Value* JsonLine::find(const Value& object, std::string_view key) const {
  if (object.kind != Kind::kObject) return nullptr;
  std::size_t i = &object - values_.data() + 1;
  // Escapes change the order of keys.
  const auto is_before = [&](std::string_view other) {
    return is_dumped_ ? other != key : precedes(other, key);
  };
  while (i < object.end && is_before(values_[i].key)) i = values_[i].end;
  return i < object.end && values_[i].key == key ? &values_[i] : nullptr;
}

const JsonLine::Value* JsonLine::find(std::initializer_list<std::string_view> path) const {
  const Value* value = &values_.front();
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
    if (const Value* value = find(values_.front(), key)) object[std::string(key)] = to_json(*value);
  return object;
}

}  // namespace tessera
