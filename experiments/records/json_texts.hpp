// The texts of JSON that comes from outside, safe to print: what a record says reaches terminals,
// tables, LaTeX and figures, whoever wrote its file.
#pragma once

#include <nlohmann/json.hpp>

namespace tessera {

/// Escapes (escaped.hpp) every text and every key in the value.
void escape_texts(nlohmann::json& json);

}  // namespace tessera
