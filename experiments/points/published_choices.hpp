// The column `as`: where a point's choices come from, its kernel's paper or us.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

/// Compares the parameters of a point (its JSON form) with those of its kernel's paper. A record
/// that spells every choice out counts as one made by `as = "published"`.
///
/// "published": format, kernel and, where the paper has one, order are exactly the paper's;
/// "default": format and kernel are exactly our own choices, in any order; "other": neither; empty:
/// the kernel is no published system, or the point has none.
std::string choices_of(const nlohmann::json& params);

}  // namespace tessera
