#include "formats/base/amounts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>

namespace tessera {
namespace {

/// A number from 1 to 1000, as 1.23, 12.3 or 123.
std::string three_digits(double number) {
  if (std::abs(number) < 9.995) return fmt::format("{:.2f}", number);
  return fmt::format("{:.{}f}", number, std::abs(number) < 99.95 ? 1 : 0);
}

/// The amount in the first unit in which it has at most three digits before the point. The units
/// are a factor of 1000 apart.
std::string in_unit(double amount, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (std::abs(amount) >= 999.5 && unit + 1 != units.end()) {
    amount /= 1000;
    ++unit;
  }
  return three_digits(amount) + " " + *unit;
}

}  // namespace

std::string bytes_text(double bytes) {
  if (std::abs(bytes) < 999.5) return fmt::format("{:.0f} B", bytes);
  return in_unit(bytes / 1000, {"kB", "MB", "GB", "TB", "PB"});
}

std::string time_text(double us) {
  if (us == 0) return "0 us";
  if (!std::isfinite(us)) return fmt::format("{} us", us);
  if (std::abs(us) < 0.9995) return in_unit(1000 * us, {"ns"});
  return in_unit(us, {"us", "ms", "s"});
}

std::string number_text(double number) {
  if (number != std::round(number) || std::abs(number) >= 1e15)
    return std::abs(number) >= 1000 && std::abs(number) < 1e15 ? fmt::format("{:.0f}", number)
                                                               : fmt::format("{:.3g}", number);
  const std::string digits = fmt::format("{:.0f}", std::abs(number));
  std::string grouped = number < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string counted(std::int64_t count, std::string_view singular, std::string_view plural) {
  const std::string noun = count == 1       ? std::string(singular)
                           : plural.empty() ? std::string(singular) + "s"
                                            : std::string(plural);
  return fmt::format("{} {}", number_text(static_cast<double>(count)), noun);
}

}  // namespace tessera
