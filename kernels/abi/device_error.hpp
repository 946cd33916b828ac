// An error of the CUDA runtime as the C interface tells it.
#pragma once

#include <stdexcept>

namespace tessera::abi {

/// Most of these leave a device that the process cannot use any more.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tessera::abi
