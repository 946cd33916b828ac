// Variants register themselves by name; all other code reaches them by that name.
//
// A stage is an interface T with `static constexpr const char* kKind` ("reordering", "kernel",
// ...). A variant is one source file that ends in
//
//   const Register<Reordering> entry{{
//       .name = "degree",
//       .summary = "rows by descending number of nonzeros",
//       .params = {},
//       .make = [](const Params&) { return std::make_unique<Degree>(); },
//   }};
//
// and nothing else: no list, no enum, no build file. Two start-up rules keep that safe: every
// folder is an OBJECT library (a static library would drop files nobody references), and the table
// is a function-local static (so the order of initialisation does not matter). A name registered
// twice aborts at start-up and prints both places.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/params.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {

template <class T>
struct Entry {
  std::string name;                    // as in configs and on the command line
  std::string summary;                 // one line for `tessera list`
  std::vector<ParamSpec> params = {};  // its parameters with their defaults
  std::function<std::unique_ptr<T>(const Params&)> make;
  std::source_location where = {};  // filled in by Register
};

template <class T>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  /// Aborts when the name is taken: two variants under one name would shadow each other silently.
  void add(Entry<T> entry) {
    const auto [place, is_new] = entries_.try_emplace(entry.name, entry);
    if (is_new) return;
    std::fprintf(stderr, "%s '%s' is registered twice:\n  %s:%u\n  %s:%u\n", T::kKind,
                 entry.name.c_str(), place->second.where.file_name(), place->second.where.line(),
                 entry.where.file_name(), entry.where.line());
    std::abort();
  }

  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  /// Throws an Error with the nearest known name when there is no such variant.
  const Entry<T>& find(std::string_view name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw Error(unknown_name_message(T::kKind, name, names()));
    return found->second;
  }

  /// All values of the variant's parameters: `given` over the declared defaults. Throws an Error as
  /// find() and Params::resolve do.
  Params resolve(std::string_view name, const Params::Given& given) const {
    return Params::resolve(fmt::format("{} {}", T::kKind, name), find(name).params, given);
  }

  std::unique_ptr<T> make(std::string_view name, const Params& params) const {
    return find(name).make(params);
  }
  std::unique_ptr<T> make(std::string_view name, const Params::Given& given = {}) const {
    return find(name).make(resolve(name, given));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  const std::map<std::string, Entry<T>, std::less<>>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry<T>, std::less<>> entries_;
};

/// A namespace-scope object of this type adds its entry before main.
template <class T>
struct Register {
  explicit Register(Entry<T> entry, std::source_location where = std::source_location::current()) {
    entry.where = where;
    Registry<T>::instance().add(std::move(entry));
  }
};

}  // namespace tessera
