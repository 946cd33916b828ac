// The interface of a matrix generator: parameters in, a matrix out, the same on every machine.
//
// A text parameter named `of` is the name of another matrix (source.hpp): it arrives resolved, and
// what it names is part of what the generated matrix is cached under.
#pragma once

#include "formats/base/matrix.hpp"

namespace tessera {

class Generator {
 public:
  static constexpr const char* kKind = "generator";
  virtual ~Generator() = default;

  /// Throws Unsupported when the parameters ask for more than 2^31 - 1 rows or columns.
  virtual CsrMatrix generate() const = 0;

  /// Raised when the same parameters come to mean another matrix, so that caches forget the old.
  virtual int version() const { return 1; }
};

}  // namespace tessera
