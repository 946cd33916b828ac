#include "experiments/backends/missing_backend.hpp"

#include <map>

#include "experiments/backends/backend.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/own_process.hpp"

namespace tessera {

const std::string& missing_backend(const std::string& name) {
  static std::map<std::string, std::string> known;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  return known[name] = in_own_process([&]() -> Json {
           // The program has every backend whose probe it has.
           if (backend_traits(name).needs_gpu && surely_has_gpu()) return "";
           return find_backend(name).missing;
         });
}

}  // namespace tessera
