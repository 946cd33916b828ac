// Errors that a caller can act on, and the one function that throws them.
//
// `require` checks what a caller can get wrong: a bad file, an unknown name, sizes that do not fit.
// `assert` checks what only this code can get wrong. Nothing here exits the process.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

/// A mistake that the caller can mend. The message states the fault, the two values and the place.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A legitimate request that cannot be done, such as reordering a rectangular matrix symmetrically.
/// An experiment records it as skipped, with this message as the reason.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// The host or a device has too little memory for the request. An experiment records it as "oom".
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws `E` (by default Error) with the formatted message when `holds` is false.
template <class E = Error, class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera
