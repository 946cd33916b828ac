#include "experiments/records/json_texts.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "formats/base/escaped.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

void escape_keys(Json& object) {
  Json safe = Json::object();
  for (auto& [key, value] : object.items()) safe[escaped(key)] = std::move(value);
  object = std::move(safe);
}

}  // namespace

void escape_texts(Json& json) {
  if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    text = escaped(text);
  }
  if (!json.is_structured()) return;
  for (Json& value : json) escape_texts(value);
  if (json.is_object()) escape_keys(json);
}

}  // namespace tessera
