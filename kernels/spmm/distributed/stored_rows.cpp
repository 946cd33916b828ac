#include "kernels/spmm/distributed/stored_rows.hpp"

#include <algorithm>

namespace tessera {

std::vector<std::byte> bytes_in(ElementType type, std::span<const float> values) {
  const auto copied = [](std::span<const std::byte> bytes) {
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  if (type == ElementType::kFp32) return copied(std::as_bytes(values));
  return copied(std::as_bytes(std::span<const std::uint16_t>(to_16_bits(type, values))));
}

void read_from(ElementType type, std::span<const std::byte> bytes, std::span<float> values) {
  if (type == ElementType::kFp32) {
    std::ranges::copy(bytes, std::as_writable_bytes(values).begin());
    return;
  }
  std::vector<std::uint16_t> bits(values.size());
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(bits)).begin());
  std::ranges::transform(bits, values.begin(),
                         [&](std::uint16_t each) { return from_16_bits(type, each); });
}

DenseMatrix rows_of(const DenseMatrix& dense, const std::vector<std::int32_t>& rows) {
  DenseMatrix found(std::ssize(rows), dense.cols);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(dense.row(rows[i]), found.row(static_cast<std::int64_t>(i)).begin());
  return found;
}

}  // namespace tessera
