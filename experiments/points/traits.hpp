// The traits of a backend and of a source of counters: the parts of a point that they read. Each
// registers its traits beside its implementation, always in the CPU half: a build without the CUDA
// half knows the names, and reports why it cannot run them.
//
//   const RegisterTraits<BackendTraits> traits{
//       "model", "the time an analytic model predicts for a described device",
//       {.needs_device = true, .predicts = true}};
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/base/registry.hpp"

namespace tessera {

/// The work of a backend on a matrix.
enum class Activity { kMultiply, kPack, kReorder };

/// The tasks of a backend, and the parts of a point that it reads beside them.
struct BackendTraits {
  static constexpr const char* kKind = "backend";

  std::string name = {};                    // filled in by backend_traits()
  Activity activity = Activity::kMultiply;  // products of all kinds, packing or ordering
  bool computes_c = false;                  // check
  bool needs_device = false;                // device
  bool predicts = false;                    // model
  bool measures = false;                    // measure
  bool simulates = false;                   // of measure l2, and sample
  bool counts = false;                      // counters
  bool needs_gpu = false;                   // implemented in the CUDA half
};

/// The rank of a source of counters for source "auto".
struct CounterSourceTraits {
  static constexpr const char* kKind = "counter source";

  int auto_rank = 0;  // "auto" tries those above 0, the lowest first; 0: only by name
};

/// A namespace-scope object of this type adds the traits before main.
template <class Traits>
struct RegisterTraits : Register<Traits> {
  RegisterTraits(const char* name, const char* summary, Traits traits,
                 std::source_location where = std::source_location::current())
      : Register<Traits>(
            {.name = name,
             .summary = summary,
             .make = [traits](const Params&) { return std::make_unique<Traits>(traits); }},
            where) {}
};

/// Throws an Error with the nearest name for an unknown backend.
BackendTraits backend_traits(std::string_view backend);

/// The values of [counters] source, usable in this build or not: "none", "auto", "cupti", ...
std::vector<std::string> counter_sources();

/// The sources that "auto" tries, in this order.
std::vector<std::string> auto_counter_sources();

}  // namespace tessera
