// The rule by which ac_spgemm cuts products into chunks, for its host half and its device half.
//
// Products are numbered over all of A B, row by row and within a row by A's nonzeros. A chunk
// begins at every kStep-th product, or at the begin of that product's row if it is less than kReach
// products before. Thus a row of at most kReach products is in one chunk. Chunks do not depend on
// slices, which end with rows.
#pragma once

#include <cstdint>

namespace tessera::ac_spgemm {

inline constexpr int kThreads = 256;
inline constexpr int kItems = 8;                              // products of a thread
inline constexpr std::int64_t kCapacity = kThreads * kItems;  // a chunk has fewer products
inline constexpr std::int64_t kReach = 512;
inline constexpr std::int64_t kStep = kCapacity - kReach;
static_assert(kReach <= kStep, "chunks begin in the order of their numbers");

/// The most products of a slice; 31 bits count them.
inline constexpr std::int64_t kMostProducts = std::int64_t{1} << 30;

/// Returns where the chunk of the nominal begin `product` begins. `row_begin` is the first product
/// of its row.
constexpr std::int64_t chunk_begin(std::int64_t product, std::int64_t row_begin) {
  return product - row_begin < kReach ? row_begin : product;
}

/// Returns the first product of the row that is in the chunk of `product`.
constexpr std::int64_t row_part_begin(std::int64_t product, std::int64_t row_begin) {
  const std::int64_t nominal = product / kStep * kStep;
  return nominal > row_begin ? chunk_begin(nominal, row_begin) : row_begin;
}

}  // namespace tessera::ac_spgemm
