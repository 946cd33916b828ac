#include "kernels/abi/half_rows.hpp"

#include <algorithm>

#include "formats/base/parallel.hpp"

namespace tessera::abi {
namespace {

constexpr std::int64_t kRowsOfChunk = 64;

}  // namespace

std::vector<float> widened(ElementType type, const std::uint16_t* from, std::int64_t rows,
                           std::int64_t cols, std::int64_t ld) {
  std::vector<float> to(static_cast<std::size_t>(rows * cols));
  parallel_for(rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        to[static_cast<std::size_t>(i * cols + j)] = from_16_bits(type, from[i * ld + j]);
  });
  return to;
}

void narrow(ElementType type, const std::vector<float>& from, std::uint16_t* to, std::int64_t rows,
            std::int64_t cols, std::int64_t ld) {
  parallel_for(rows, kRowsOfChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::ranges::copy(to_16_bits(type, {from.data() + i * cols, static_cast<std::size_t>(cols)}),
                        to + i * ld);
  });
}

}  // namespace tessera::abi
