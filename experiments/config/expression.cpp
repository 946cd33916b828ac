#include "experiments/config/expression.hpp"

#include <string_view>

#include "formats/base/check.hpp"

namespace tessera {

void refuse_assignment(const std::string& expression, const std::string& place) {
  for (std::size_t at = expression.find('='); at != expression.npos;
       at = expression.find('=', at + 1)) {
    const bool compares =
        (at > 0 && std::string_view("=<>!").find(expression[at - 1]) != std::string_view::npos) ||
        (at + 1 < expression.size() && expression[at + 1] == '=');
    require(compares, "{}: '{}': an expression assigns nothing; values are compared by ==", place,
            expression);
  }
}

}  // namespace tessera
