// Named parameters of a variant: declared once beside the variant, checked and completed here.
//
// A variant lists its parameters as ParamSpecs; a user gives some of them by name (config, --set,
// or inside "name(key=value)"). Params::resolve joins the two: unknown names, wrong types and
// values outside the declared range or choices are errors that say what would have been right.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera {

using ParamValue = std::variant<bool, std::int64_t, double, std::string>;

/// The value as a user writes it: true, 32, 0.5, ibd.
std::string to_text(const ParamValue& value);

struct ParamSpec {
  std::string name;
  ParamValue fallback;                    // the default; its type is the parameter's type
  std::string help;                       // meaning and unit, one line
  std::vector<std::string> choices = {};  // the allowed values as text; all values when empty
  double min = -std::numeric_limits<double>::infinity();  // numeric parameters: inclusive range
  double max = std::numeric_limits<double>::infinity();
};

/// A complete set of parameter values: every declared name has one.
class Params {
 public:
  /// Values given by a user, by name. A text value is read as the declared type ("32" -> 32).
  using Given = std::map<std::string, ParamValue>;

  Params() = default;

  /// The given values over the declared defaults. Throws an Error for an unknown name, a wrong type
  /// or a value out of range; `owner` opens its message, for example "kernel acc_spmm".
  static Params resolve(std::string_view owner, const std::vector<ParamSpec>& specs,
                        const Given& given);

  // The value of a declared parameter of that type.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  const std::map<std::string, ParamValue, std::less<>>& values() const { return values_; }

 private:
  template <class T>
  const T& get(std::string_view name) const;

  std::map<std::string, ParamValue, std::less<>> values_;
};

}  // namespace tessera
