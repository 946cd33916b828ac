// How ac_spgemm cuts products into chunks: what both of its halves go by.
//
// Products are numbered over all of A B, row by row and in a row by A's nonzeros. A chunk begins at
// every kStep-th of them, or where that product's row begins if that is less than kReach before: a
// row of at most kReach products is in one chunk. Chunks do not depend on slices, which end with
// rows.
#pragma once

#include <cstdint>

namespace tessera::ac_spgemm {

inline constexpr int kThreads = 256;
inline constexpr int kItems = 8;                              // products of a thread
inline constexpr std::int64_t kCapacity = kThreads * kItems;  // products of a chunk are fewer
inline constexpr std::int64_t kReach = 512;
inline constexpr std::int64_t kStep = kCapacity - kReach;
static_assert(kReach <= kStep, "chunks begin in the order of their numbers");

/// Products of a slice at most, so that 31 bits count them.
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 30;

/// Where the chunk begins that would at `product`, which is in the row that begins at `row_begin`.
constexpr std::int64_t chunk_begin(std::int64_t product, std::int64_t row_begin) {
  return product - row_begin < kReach ? row_begin : product;
}

/// Where the products of the row begin that are in one chunk with `product`.
constexpr std::int64_t piece_begin(std::int64_t product, std::int64_t row_begin) {
  const std::int64_t nominal = product / kStep * kStep;
  return nominal > row_begin ? chunk_begin(nominal, row_begin) : row_begin;
}

}  // namespace tessera::ac_spgemm
