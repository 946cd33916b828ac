// The values of a kernel's parameter and their names, in one list: it gives the parameter's
// choices, reads a value from its name and prints it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/check.hpp"

namespace tessera {

template <class Value>
struct NamedValue {
  std::string_view name;
  Value value;
};

/// The names, as the choices of a parameter.
template <class Value, std::size_t kCount>
std::vector<std::string> names_of(const NamedValue<Value> (&values)[kCount]) {
  std::vector<std::string> names;
  for (const NamedValue<Value>& each : values) names.emplace_back(each.name);
  return names;
}

/// The value named `name`, which is one of the parameter's choices.
template <class Value, std::size_t kCount>
Value value_of(const NamedValue<Value> (&values)[kCount], std::string_view name) {
  for (const NamedValue<Value>& each : values)
    if (each.name == name) return each.value;
  throw Error(fmt::format("no value is named {}", name));
}

template <class Value, std::size_t kCount>
std::string name_of(const NamedValue<Value> (&values)[kCount], Value value) {
  for (const NamedValue<Value>& each : values)
    if (each.value == value) return std::string(each.name);
  throw Error("a value has no name");
}

}  // namespace tessera
