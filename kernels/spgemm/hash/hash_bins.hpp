// The bins of hash_spgemm and speck_spgemm: the method for each row of C and the size of its table.
// A bin is one launch; a warp takes a table of up to 1024 slots, a thread block a larger one. After
// Nsparse (Nagasaka et al., ICPP 2017: bins by size, hash tables in shared memory, the largest in
// global memory) and spECK (Parger et al., PPoPP 2020: rows of one nonzero are copied, dense
// accumulators where the columns lie close). Departure: counting and multiplying choose by the same
// rule, from an upper bound on the row's nonzeros and from their number.
#pragma once

#include <cstdint>

namespace tessera::hash_rows {

inline constexpr int kWarpSizes = 5;   // tables of warps: 64 to 1024 slots
inline constexpr int kBlockSizes = 4;  // tables of thread blocks: 2048 to 16384 slots
inline constexpr int kSizes = kWarpSizes + kBlockSizes;

constexpr int slots_of_size(int size) { return 64 << size; }
inline constexpr int kMostSlots = slots_of_size(kSizes - 1);

/// The bins: rows without products, copies, hash tables by size, hash tables in global memory, and
/// dense tables by size.
inline constexpr int kEmptyBin = 0, kCopyBin = 1, kHashBins = 2;
inline constexpr int kGlobalBin = kHashBins + kSizes, kDenseBins = kGlobalBin + 1;
inline constexpr int kBins = kDenseBins + kSizes;

/// The smallest size with at least `slots` slots; kSizes where no table in shared memory has as
/// many.
constexpr int size_for(std::int64_t slots) {
  int size = 0;
  while (size < kSizes && slots_of_size(size) < slots) ++size;
  return size;
}

/// The figures of a row that decide its bin.
struct RowFacts {
  std::int64_t a_nonzeros;
  std::int64_t products;  // less than 2^31: A's columns are distinct, so each is a nonzero of B
  std::int64_t nonzeros;  // of C, or an upper bound
  std::int64_t range;     // columns from the first to the last one of C's row
};

/// The rule that chooses the bin of a row.
struct MethodChoice {
  double slots_per_nonzero = 2;
  bool copies = false;        // rows of A with one nonzero are copied
  double dense_per_slot = 0;  // largest range of a dense table, per slot of the hash table

  /// Slots of a hash table for `nonzeros` nonzeros: a power of two, at least as many, at most 2^31.
  constexpr std::int64_t hash_slots(std::int64_t nonzeros) const {
    const auto wanted =
        static_cast<std::int64_t>(static_cast<double>(nonzeros) * slots_per_nonzero);
    const std::int64_t least = wanted < nonzeros ? nonzeros : wanted;
    std::int64_t slots = slots_of_size(0);
    while (slots < least && slots < std::int64_t{1} << 31) slots *= 2;
    return slots;
  }

  constexpr int bin(const RowFacts& row) const {
    if (row.products == 0) return kEmptyBin;
    if (copies && row.a_nonzeros == 1) return kCopyBin;
    const std::int64_t slots = hash_slots(row.nonzeros);
    if (is_dense(row, slots))
      return kDenseBins + (row.range > kMostSlots ? kSizes - 1 : size_for(row.range));
    return kHashBins + size_for(slots);
  }

 private:
  /// A range beyond shared memory is done in windows, and each window searches every row of B. This
  /// pays where the alternative is a global table, and where the searches are fewer than the
  /// products.
  constexpr bool is_dense(const RowFacts& row, std::int64_t slots) const {
    if (static_cast<double>(row.range) > dense_per_slot * static_cast<double>(slots)) return false;
    if (row.range <= kMostSlots) return true;
    const std::int64_t windows = (row.range + kMostSlots - 1) / kMostSlots;
    return slots > kMostSlots && windows * row.a_nonzeros <= row.products;
  }
};

}  // namespace tessera::hash_rows
