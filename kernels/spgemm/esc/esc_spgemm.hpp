// What both halves of esc_spgemm go by.
#pragma once

#include <cstdint>

namespace tessera::esc_spgemm {

/// Products of a slice at most, so that 32 bits count them.
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 30;

}  // namespace tessera::esc_spgemm
