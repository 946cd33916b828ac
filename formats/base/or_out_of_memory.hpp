// Errors of memory with the name of what did not fit.
#pragma once

#include <new>
#include <stdexcept>

#include "formats/base/check.hpp"

namespace tessera {

/// The result of make(). Throws OutOfMemory with the message tell() if this machine has too little
/// memory for it, or if it has more elements than a vector counts.
template <class Make, class Tell>
auto or_out_of_memory(Make make, Tell tell) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(tell());
  } catch (const std::length_error&) {
    throw OutOfMemory(tell());
  }
}

}  // namespace tessera
