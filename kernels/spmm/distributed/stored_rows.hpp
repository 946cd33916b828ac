// Rows of dense matrices on the host, as they travel between parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/storage.hpp"

namespace tessera {

/// The values as they lie in memory in that type, and back.
std::vector<std::byte> bytes_in(ElementType type, std::span<const float> values);
void read_from(ElementType type, std::span<const std::byte> bytes, std::span<float> values);

/// Rows of a dense matrix, in that order.
DenseMatrix rows_of(const DenseMatrix& dense, const std::vector<std::int32_t>& rows);

}  // namespace tessera
