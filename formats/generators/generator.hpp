// The interface of a matrix generator: parameters in, a matrix out, the same on every machine.
//
// A text parameter named `of` is the name of another matrix (source.hpp). The generator gets it
// resolved, and the other matrix is part of the key under which the generated one is cached.
#pragma once

#include "formats/base/matrix.hpp"

namespace tessera {

class Generator {
 public:
  static constexpr const char* kKind = "generator";
  virtual ~Generator() = default;

  /// Throws Unsupported when the parameters give more than 2^31 - 1 rows or columns.
  virtual CsrMatrix generate() const = 0;

  /// The version of the generator. Raise it when the same parameters give another matrix than
  /// before, so that caches discard the old one.
  virtual int version() const { return 1; }
};

}  // namespace tessera
