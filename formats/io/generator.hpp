// The interface of a matrix generator: parameters in, a matrix out, the same on every machine.
#pragma once

#include "formats/base/matrix.hpp"

namespace tessera {

class Generator {
 public:
  static constexpr const char* kKind = "generator";
  virtual ~Generator() = default;

  /// Throws Unsupported when the parameters ask for more than 2^31 - 1 rows or columns.
  virtual CsrMatrix generate() const = 0;
};

}  // namespace tessera
