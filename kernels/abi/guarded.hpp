// Exceptions do not cross the C interface: each becomes a status and a text.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/base/check.hpp"
#include "kernels/abi/tessera.h"

namespace tessera::abi {

/// The status of the exception that is being handled; its text becomes tessera_last_error().
tessera_status status_of_exception() noexcept;

/// Sets tessera_last_error() of this thread.
void set_last_error(const char* text) noexcept;

/// Calls body() and returns its status: TESSERA_OK unless it throws.
template <class Body>
tessera_status guarded(Body body) noexcept {
  try {
    body();
    return TESSERA_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Throws an Error "A is a null pointer".
inline void require_pointer(const void* pointer, const char* name) {
  require(pointer != nullptr, "{} is a null pointer", name);
}

/// The JSON as a text that tessera_free() frees. Numbers that JSON lacks become null.
char* text_of(const nlohmann::json& json);

}  // namespace tessera::abi
