// Dense operands on the device in the type that a kernel stores them in, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// The values in a type of 16 bits, rounded to nearest even on the host. A NaN whose bits are all
/// set, which no instruction of the device gives, keeps that.
std::vector<std::uint16_t> stored_in_16_bits(ElementType type, std::span<const float> values);

/// The values in that type, likewise.
DeviceArray<std::byte> upload_as(ElementType type, std::span<const float> values);

/// The values of memory [elements of that type], which may be of the device. Of an element whose
/// bits are all set, all 32 bits of the FP32 value are set.
std::vector<float> widened(ElementType type, std::span<const std::byte> memory);
std::vector<float> download_as(ElementType type, const DeviceArray<std::byte>& memory);

}  // namespace tessera
