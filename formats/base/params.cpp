#include "formats/base/params.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

const char* type_name(const ParamValue& value) {
  static constexpr const char* kNames[] = {"true or false", "an integer", "a number", "a word"};
  return kNames[value.index()];
}

template <class T>
bool parse_whole(const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// `given` as the type of `like`, or nothing when it cannot be read so.
bool convert(const ParamValue& given, const ParamValue& like, ParamValue& out) {
  if (given.index() == like.index()) {
    out = given;
    return true;
  }
  if (std::holds_alternative<double>(like) && std::holds_alternative<std::int64_t>(given)) {
    out = static_cast<double>(std::get<std::int64_t>(given));
    return true;
  }
  const auto* text = std::get_if<std::string>(&given);
  if (text == nullptr) return false;
  if (std::holds_alternative<bool>(like)) {
    out = *text == "true";
    return *text == "true" || *text == "false";
  }
  if (std::holds_alternative<std::int64_t>(like)) {
    std::int64_t value = 0;
    const bool ok = parse_whole(*text, value);
    out = value;
    return ok;
  }
  double value = 0;
  const bool ok = parse_whole(*text, value);
  out = value;
  return ok;
}

void check_allowed(std::string_view owner, const ParamSpec& spec, const ParamValue& value) {
  if (!spec.choices.empty()) {
    const std::string text = to_text(value);
    require(std::ranges::find(spec.choices, text) != spec.choices.end(), "{}: {}", owner,
            unknown_name_message("value for " + spec.name, text, spec.choices));
    return;
  }
  if (std::holds_alternative<std::string>(value) || std::holds_alternative<bool>(value)) return;
  const double number = std::holds_alternative<double>(value)
                            ? std::get<double>(value)
                            : static_cast<double>(std::get<std::int64_t>(value));
  require(std::isfinite(number) && number >= spec.min && number <= spec.max,
          "{}: {} = {} is outside [{}, {}]", owner, spec.name, to_text(value), spec.min, spec.max);
}

}  // namespace

std::string to_text(const ParamValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  return fmt::format("{}", std::get<double>(value));
}

Params Params::resolve(std::string_view owner, const std::vector<ParamSpec>& specs,
                       const Given& given) {
  Params params;
  for (const ParamSpec& spec : specs) params.values_[spec.name] = spec.fallback;
  for (const auto& [name, value] : given) {
    const auto spec = std::ranges::find(specs, name, &ParamSpec::name);
    if (spec == specs.end()) {
      std::vector<std::string> known;
      for (const ParamSpec& s : specs) known.push_back(s.name);
      throw Error(fmt::format("{}: {}", owner, unknown_name_message("parameter", name, known)));
    }
    ParamValue& slot = params.values_[name];
    require(convert(value, spec->fallback, slot), "{}: {} takes {}, not '{}'", owner, name,
            type_name(spec->fallback), to_text(value));
    check_allowed(owner, *spec, slot);
  }
  return params;
}

template <class T>
const T& Params::get(std::string_view name) const {
  const auto found = values_.find(name);
  assert(found != values_.end() && "a variant reads a parameter that it does not declare");
  return std::get<T>(found->second);
}

bool Params::flag(std::string_view name) const { return get<bool>(name); }
std::int64_t Params::integer(std::string_view name) const { return get<std::int64_t>(name); }
double Params::real(std::string_view name) const { return get<double>(name); }
const std::string& Params::text(std::string_view name) const { return get<std::string>(name); }

}  // namespace tessera
