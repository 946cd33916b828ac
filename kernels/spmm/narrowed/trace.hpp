// The work of the launches that a product by narrowed operands has besides the product's own.
#pragma once

#include <cstdint>

#include "kernels/work.hpp"

namespace tessera::narrowed {

/// Thread blocks of the launch that narrows a B of k rows and n columns: along its rows, and along
/// segments of its columns.
struct Grid {
  std::int64_t of_rows, segments;

  std::int64_t thread_blocks() const { return of_rows * segments; }
};
Grid grid_of(std::int64_t k, std::int64_t n, std::int64_t sms);

/// Puts the launch that narrows before those of the product, whose array "b" is the narrowed B, and
/// behind them the one that ends at once.
void add_launches(std::int64_t k, std::int64_t n, std::int64_t sms, WorkDescription& work);

}  // namespace tessera::narrowed
