// The element types of the C interface's plans, and their errors of CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "formats/base/params.hpp"
#include "kernels/abi/device_error.hpp"
#include "kernels/abi/tessera.h"
#include "kernels/storage.hpp"

namespace tessera::abi {

/// Calls body(). cuda_check() throws a std::runtime_error that is no Error: it becomes a
/// DeviceError.
template <class Body>
auto on_device(Body body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw DeviceError(error.what());
  }
}

inline ElementType type_of(tessera_type type) {
  return type == TESSERA_FP16   ? ElementType::kFp16
         : type == TESSERA_BF16 ? ElementType::kBf16
                                : ElementType::kFp32;
}

}  // namespace tessera::abi
