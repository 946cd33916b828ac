// The texts of JSON that comes from outside, safe to print. The texts of a record reach terminals,
// tables, LaTeX and figures, and its file may be hostile.
#pragma once

#include <nlohmann/json.hpp>

namespace tessera {

/// Escapes (escaped.hpp) every text and every key in the value.
void escape_texts(nlohmann::json& json);

}  // namespace tessera
