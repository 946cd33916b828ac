#include "experiments/records/point_text.hpp"

#include "experiments/records/json_depth.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

Json parse(const std::string& text) {
  require(json_depth(text) <= kDeepestJson, "--json: a point nests at most {} levels",
          kDeepestJson);
  try {
    Json json = Json::parse(text);
    for (const char* key : {"point", "params"})
      if (json.contains(key)) return json.at(key);
    return json;
  } catch (const Json::exception& error) {
    // Its message, without the name of the class it comes from.
    const std::string what = error.what();
    throw Error("--json is not JSON: " + what.substr(what.find("] ") + 2));
  }
}

}  // namespace

Point point_from_text(const std::string& text) { return point_from_json(parse(text)); }

}  // namespace tessera
