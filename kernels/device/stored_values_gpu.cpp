#include "kernels/device/stored_values.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera {
namespace {

constexpr std::uint32_t kAllBits = 0xffffffff;
constexpr std::uint16_t kAllHalfBits = 0xffff;

}  // namespace

std::vector<std::uint16_t> stored_in_16_bits(ElementType type, std::span<const float> values) {
  std::vector<std::uint16_t> bits = to_16_bits(type, values);
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (std::bit_cast<std::uint32_t>(values[i]) == kAllBits) bits[i] = kAllHalfBits;
  return bits;
}

DeviceArray<std::byte> upload_as(ElementType type, std::span<const float> values) {
  if (type == ElementType::kFp32) return DeviceArray<std::byte>(std::as_bytes(values));
  const std::vector<std::uint16_t> bits = stored_in_16_bits(type, values);
  return DeviceArray<std::byte>(std::as_bytes(std::span<const std::uint16_t>(bits)));
}

std::vector<float> widened(ElementType type, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / bytes_of(type));
  if (type == ElementType::kFp32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::uint16_t> bits(values.size());
  std::memcpy(bits.data(), bytes.data(), bytes.size());
  std::ranges::transform(bits, values.begin(), [&](std::uint16_t each) {
    return each == kAllHalfBits ? std::bit_cast<float>(kAllBits) : from_16_bits(type, each);
  });
  return values;
}

std::vector<float> download_as(ElementType type, const DeviceArray<std::byte>& memory) {
  return widened(type, memory.download());
}

}  // namespace tessera
