// A point in a text from outside: the input of `tessera point`.
#pragma once

#include <string>

#include "experiments/points/point.hpp"

namespace tessera {

/// The point in a line of `tessera plan --json`, in a record, or written by itself. Throws an Error
/// for what is not JSON, nests too deep or is no point.
Point point_from_text(const std::string& text);

}  // namespace tessera
