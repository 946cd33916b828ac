// Expressions over named numbers that configs and sets of matrices hold; muParser evaluates them.
#pragma once

#include <string>

namespace tessera {

/// Refuses an assignment, which muParser takes: "n = 3" for "n == 3" would hold for every row.
/// Throws an Error that begins with `place` and quotes the expression.
void refuse_assignment(const std::string& expression, const std::string& place);

}  // namespace tessera
