// A limit that the host half and the device half of esc_spgemm share.
#pragma once

#include <cstdint>

namespace tessera::esc_spgemm {

/// The most products of a slice; 32 bits count them.
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 30;

}  // namespace tessera::esc_spgemm
