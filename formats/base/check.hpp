// Errors a caller can act on, and the one function that raises them.
//
// `require` is for what a caller can get wrong: a bad file, an unknown name, sizes that do not fit.
// What only this code can get wrong is an `assert`. Nothing here exits the process.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

/// Something the caller can mend; the message says what is wrong, the two values and where.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A combination that is legitimate to ask for and cannot be done, such as reordering a rectangular
/// matrix symmetrically. An experiment records it as skipped, with this message as the reason.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// The host or a device has too little memory for what was asked. An experiment records it as
/// "oom".
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws `E` (an Error unless named) with the formatted message when `holds` is false.
template <class E = Error, class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera
