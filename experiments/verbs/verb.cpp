#include "experiments/verbs/verb.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/base/check.hpp"

namespace tessera {

Params::Given given_params(const std::vector<std::string>& assignments) {
  Params::Given given;
  for (const std::string& assignment : assignments) {
    const auto equals = assignment.find('=');
    require(equals != std::string::npos && equals > 0, "'{}': expected NAME=VALUE", assignment);
    given[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return given;
}

int worse(int a, int b) {
  constexpr int kAscending[] = {kOk,      kNotJudged, kNothingRan, kRegression, kRefuted,
                                kMissing, kFailed,    kWrong,      kUsage,      kInterrupted};
  const auto rank = [&](int code) { return std::ranges::find(kAscending, code); };
  return rank(a) < rank(b) ? b : a;
}

std::string records_folder(const std::string& out, const std::string& experiment) {
  return out.empty() ? "out/" + experiment : out;
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tessera
