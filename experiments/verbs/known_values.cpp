#include "experiments/verbs/known_values.hpp"

#include <filesystem>
#include <functional>
#include <map>

#include "experiments/config/config.hpp"
#include "experiments/config/matrix_catalogue.hpp"
#include "experiments/points/traits.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/calibration/microbenchmark.hpp"
#include "model/device.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

using Values = std::vector<KnownValue>;

template <class T>
void add_registered(Values& values) {
  for (const auto& [name, entry] : Registry<T>::instance().entries())
    values.push_back({name, entry.summary});
}

template <class T>
Values registered() {
  Values values;
  add_registered<T>(values);
  return values;
}

Values named(const std::vector<std::string>& names) {
  Values values;
  for (const std::string& name : names) values.push_back({name});
  return values;
}

Values kernels() {
  Values values{{"auto", "the kernel that is predicted to be fastest"}};
  add_registered<SpmmKernel>(values);
  add_registered<SpgemmKernel>(values);
  add_registered<SddmmKernel>(values);
  return values;
}

Values reorderings() { return registered<Reordering>(); }

Values devices() {
  Values values;
  for (const std::string& name : device_names()) values.push_back({name, find_device(name).title});
  return values;
}

Values experiments() {
  Values values;
  for (const std::string& name : shipped_configs())
    values.push_back({name, load_config(name).title});
  return values;
}

Values matrices() { return named(known_matrix_names()); }

/// The sets and published matrices that `matrix fetch` takes.
Values published() {
  Values values;
  for (const std::string& set : shipped_matrix_sets()) values.push_back({"@" + set, "a set"});
  for (const auto& [name, collection] : matrix_catalogue().fetch)
    values.push_back({name, collection});
  return values;
}

const std::map<std::string, std::function<Values()>, std::less<>>& tables() {
  static const std::map<std::string, std::function<Values()>, std::less<>> all{
      {"KERNEL", kernels},
      {"FORMAT", registered<Format>},
      {"REORDER", reorderings},
      {"WITH", reorderings},
      {"BACKEND", registered<BackendTraits>},
      {"REQUIRE", registered<BackendTraits>},
      {"DEVICE", devices},
      {"VALUES", registered<ValueFamily>},
      {"COUNTERS", [] { return named(counter_sources()); }},
      {"MICROBENCHMARK", registered<Microbenchmark>},
      {"CONFIG", experiments},
      {"MATRIX", matrices},
      {"RIGHT", matrices},
      {"NAME", published},
      {"VERB", registered<Verb>},
  };
  return all;
}

bool may_be_file(std::string_view value) {
  return value == "MATRIX" || value == "RIGHT" || value == "CONFIG" || !tables().contains(value);
}

}  // namespace

KnownValues known_values(std::string_view value) {
  const auto found = tables().find(value);
  return {found == tables().end() ? Values{} : found->second(), may_be_file(value)};
}

std::vector<KnownValue> known_parameters(const std::vector<std::string>& variants) {
  Values values;
  const auto add = [&]<class T>(const Registry<T>& registry) {
    for (const std::string& name : variants) {
      if (!registry.contains(name)) continue;
      for (const ParamSpec& spec : registry.find(name).params) {
        if (spec.choices.empty()) values.push_back({spec.name + "=", spec.help});
        for (const std::string& choice : spec.choices)
          values.push_back({spec.name + "=" + choice, spec.help});
      }
    }
  };
  add(Registry<SpmmKernel>::instance());
  add(Registry<SpgemmKernel>::instance());
  add(Registry<SddmmKernel>::instance());
  add(Registry<Format>::instance());
  add(Registry<Reordering>::instance());
  return values;
}

}  // namespace tessera
