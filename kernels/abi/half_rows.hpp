// Rows of 16-bit elements in host memory as FP32, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/storage.hpp"

namespace tessera::abi {

/// The rows [rows x cols], `ld` elements apart, as FP32 without gaps.
std::vector<float> widened(ElementType type, const std::uint16_t* from, std::int64_t rows,
                           std::int64_t cols, std::int64_t ld);

/// Writes [rows x cols] to rows `ld` elements apart, rounded to nearest even.
void narrow(ElementType type, const std::vector<float>& from, std::uint16_t* to, std::int64_t rows,
            std::int64_t cols, std::int64_t ld);

}  // namespace tessera::abi
