#include "experiments/records/json_value.hpp"

#include <cmath>
#include <cstdlib>
#include <string>

namespace tessera {
namespace {

/// True for the digits of an integer that 64 bits hold.
bool fits(std::string_view digits, bool negative) {
  constexpr std::string_view kLeast = "9223372036854775808", kMost = "18446744073709551615";
  const std::string_view limit = negative ? kLeast : kMost;
  return digits.size() < limit.size() || (digits.size() == limit.size() && digits <= limit);
}

/// Behind the digits that follow, of which there may be none.
const char* skip_digits(const char* at, const char* end) {
  while (at != end && *at >= '0' && *at <= '9') ++at;
  return at;
}

}  // namespace

const char* skip_number(const char* begin, const char* end, JsonKind& kind) {
  const char* at = begin;
  const auto take = [&](char c) { return at != end && *at == c && (++at, true); };
  const auto digits = [&] {
    const char* first = at;
    at = skip_digits(at, end);
    return at - first;
  };
  const bool negative = take('-');
  const char* first = at;
  const std::ptrdiff_t count = digits();
  if (count == 0 || (*first == '0' && count > 1)) return nullptr;
  const bool has_fraction = take('.');
  if (has_fraction && digits() == 0) return nullptr;
  const bool has_exponent = take('e') || take('E');
  bool small_exponent = true;
  if (has_exponent) {
    const bool shrinks = take('-');
    if (!shrinks) take('+');
    const std::ptrdiff_t exponent = digits();
    if (exponent == 0) return nullptr;
    small_exponent = shrinks || exponent < 3;
  }
  kind = has_fraction || has_exponent ? JsonKind::kFloat : JsonKind::kInteger;
  if (kind == JsonKind::kInteger) {
    const std::string_view text(first, static_cast<std::size_t>(count));
    return fits(text, negative) && !(negative && text == "0") ? at : nullptr;
  }
  const bool is_finite = (small_exponent && count < 200) ||
                         std::isfinite(std::strtod(std::string(begin, at).c_str(), nullptr));
  return is_finite ? at : nullptr;
}

}  // namespace tessera
