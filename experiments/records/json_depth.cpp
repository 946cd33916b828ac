#include "experiments/records/json_depth.hpp"

#include <algorithm>

namespace tessera {

int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
      if (c == '}' || c == ']') --depth;
    }
  }
  return deepest;
}

}  // namespace tessera
