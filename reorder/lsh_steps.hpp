// Steps of the order `lsh_chains`, of the kinds of matched_steps.hpp: MinHash sketches of rows,
// rows compared with their neighbours in the order of each band, and the exact similarity of those
// that were found.
#pragma once

#include <cstdint>

#include "formats/base/random.hpp"
#include "kernels/host_device.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

constexpr int kMostHashes = 256;
/// Rows of a bucket are sorted by as many bits of one more hash, so that neighbours are more alike.
constexpr int kMoreBits = 10;

/// The least values of a row's columns under the hash functions x -> a x + b of minhash.cpp: their
/// low bytes are the row's signature, and those of a band make its key in that band.
struct SketchRow {
  Pattern pattern;
  std::uint64_t seed;
  int hashes, bands;
  Key* signatures;      // [rows * words()] eight bytes each
  std::uint32_t* keys;  // [bands * rows]

  static constexpr std::size_t kSharedBytes = kMostHashes * sizeof(std::uint32_t);
  TESSERA_HOST_DEVICE static constexpr int words(int hashes) { return (hashes + 7) / 8; }
  TESSERA_HOST_DEVICE std::uint32_t length(std::int64_t row) const {
    return static_cast<std::uint32_t>(pattern.row_offsets[row + 1] - pattern.row_offsets[row]);
  }
  TESSERA_HOST_DEVICE Size size_of(std::int64_t row) const { return size_for(length(row)); }

  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t row) const {
    auto* const least_of = static_cast<std::uint32_t*>(team.shared());
    const std::int32_t* const cols = pattern.col_indices + pattern.row_offsets[row];
    const std::uint32_t columns = length(row);
    const auto all = static_cast<std::uint32_t>(hashes);
    constexpr std::uint32_t kShort = 512;
    if (columns <= kShort) {
      team.for_each(all, [&](std::uint32_t hash) {
        const Function function(seed, hash);
        std::uint32_t smallest = ~0u;
        for (std::uint32_t i = 0; i < columns; ++i)
          smallest = least(smallest, function(mixed(static_cast<std::uint32_t>(cols[i]))));
        least_of[hash] = smallest;
      });
    } else {
      for (std::uint32_t hash = 0; hash < all; ++hash) {
        const Function function(seed, hash);
        Key largest = 0;
        team.for_each(columns, [&](std::uint32_t i) {
          largest = most(largest, Key{~function(mixed(static_cast<std::uint32_t>(cols[i])))});
        });
        largest = team.largest(largest);
        if (team.is_first()) least_of[hash] = ~static_cast<std::uint32_t>(largest);
      }
    }
    team.sync();
    const int in_band = hashes / bands;
    team.for_each(static_cast<std::uint32_t>(bands), [&](std::uint32_t band) {
      const int first = static_cast<int>(band) * in_band;
      std::uint32_t key = 0;
      for (int i = 0; i < in_band; ++i) key = mixed(key + 0x9e3779b9u) ^ least_of[first + i];
      keys[band * std::int64_t{pattern.rows} + row] =
          mixed(key) >> kMoreBits << kMoreBits |
          least_of[(first + in_band) % hashes] >> (32 - kMoreBits);
    });
    team.for_each(static_cast<std::uint32_t>(words(hashes)), [&](std::uint32_t word) {
      Key bytes = 0;
      for (std::uint32_t hash = 8 * word; hash < least(8 * word + 8, all); ++hash)
        bytes |= Key{mixed(least_of[hash]) & 0xff} << (hash % 8 * 8);
      signatures[row * words(hashes) + word] = bytes;
    });
    team.sync();
  }

 private:
  struct Function {
    std::uint32_t factor, shift;
    TESSERA_HOST_DEVICE Function(std::uint64_t seed, std::uint32_t hash) {
      const std::uint64_t bits = random_bits(seed, hash);
      factor = static_cast<std::uint32_t>(bits >> 32) | 1;
      shift = static_cast<std::uint32_t>(bits);
    }
    TESSERA_HOST_DEVICE std::uint32_t operator()(std::uint32_t x) const {
      return factor * x + shift;
    }
  };
};

struct NoPartners {
  Key* partners;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const { partners[i] = 0; }
};

/// Compares a row with its neighbours in a band, as far as they share its bucket, by the bytes that
/// their signatures have in common.
struct CompareInBand {
  const std::uint32_t* keys;  // [rows] sorted
  const std::uint32_t* rows;  // [rows] by key
  std::int64_t count;
  int reach, words;
  const Key* signatures;  // [rows * words]
  Key* partners;          // [rows * kPartners]

  TESSERA_HOST_DEVICE void operator()(std::int64_t place) const {
    const auto row = static_cast<std::int32_t>(rows[place]);
    Key* const found = partners + std::int64_t{row} * kPartners;
    BestKeys best;
    for (int i = 0; i < kPartners; ++i) best.keys[i] = found[i];
    bool is_new = false;
    for (const int side : {-1, 1})
      for (int i = 1; i <= reach; ++i) {
        const std::int64_t other = place + side * i;
        if (other < 0 || other >= count || keys[other] >> kMoreBits != keys[place] >> kMoreBits)
          break;
        is_new |= meet(row, static_cast<std::int32_t>(rows[other]), best);
      }
    if (!is_new) return;
    for (int i = 0; i < kPartners; ++i) found[i] = best.keys[i];
  }

 private:
  TESSERA_HOST_DEVICE bool meet(std::int32_t row, std::int32_t other, BestKeys& best) const {
    std::uint32_t common = 0;
    for (int word = 0; word < words; ++word) {
      const Key differing = signatures[std::int64_t{row} * words + word] ^
                            signatures[std::int64_t{other} * words + word];
      constexpr Key kLow = 0x7f7f7f7f7f7f7f7full, kOnes = 0x0101010101010101ull;
      const Key zeros = ~(((differing & kLow) + kLow) | differing | kLow);  // 0x80 for each
      common += static_cast<std::uint32_t>((zeros >> 7) * kOnes >> 56);
    }
    const Key key = key_of(common, row, other);
    if (key <= best.keys[kPartners - 1]) return false;
    for (int i = 0; i < kPartners; ++i)
      if (best.keys[i] == key) return false;
    best.add(key);
    return true;
  }
};

/// Gives the partners of a row their worth by common columns: the share |a and b| / |a or b|.
struct JudgePartners {
  Pattern pattern;
  Key* partners;  // [rows * kPartners]

  static constexpr std::size_t kSharedBytes = 8 * sizeof(std::uint32_t);
  static_assert(kPartners <= 8);
  TESSERA_HOST_DEVICE std::uint32_t length(std::int64_t row) const {
    return static_cast<std::uint32_t>(pattern.row_offsets[row + 1] - pattern.row_offsets[row]);
  }
  TESSERA_HOST_DEVICE Size size_of(std::int64_t row) const { return size_for(length(row)); }

  template <class Team>
  TESSERA_HOST_DEVICE void operator()(const Team& team, std::int64_t item) const {
    const auto row = static_cast<std::int32_t>(item);
    auto* const common = static_cast<std::uint32_t*>(team.shared());
    Key* const found = partners + item * kPartners;
    team.for_each(kPartners, [&](std::uint32_t i) { common[i] = 0; });
    team.sync();
    const std::int32_t* const cols = pattern.col_indices + pattern.row_offsets[row];
    for (int i = 0; i < kPartners && found[i] != 0; ++i) {
      const std::int32_t other = partner_of(found[i], row);
      std::uint32_t own_common = 0;
      team.for_each(length(row), [&](std::uint32_t k) { own_common += has(other, cols[k]); });
      if (own_common > 0) team.add(&common[i], own_common);
    }
    team.sync();
    if (team.is_first()) {
      BestKeys best;
      constexpr std::uint64_t kUnit = 1 << 20;
      for (int i = 0; i < kPartners; ++i) {
        if (found[i] == 0 || common[i] == 0) continue;
        const std::int32_t other = partner_of(found[i], row);
        const std::uint64_t all = std::uint64_t{length(row)} + length(other) - common[i];
        best.add(key_of(static_cast<std::uint32_t>(kUnit * common[i] / all), row, other));
      }
      for (int i = 0; i < kPartners; ++i) found[i] = best.keys[i];
    }
    team.sync();
  }

 private:
  TESSERA_HOST_DEVICE bool has(std::int32_t row, std::int32_t col) const {
    std::int64_t low = pattern.row_offsets[row], high = pattern.row_offsets[row + 1];
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (pattern.col_indices[middle] < col)
        low = middle + 1;
      else
        high = middle;
    }
    return low < pattern.row_offsets[row + 1] && pattern.col_indices[low] == col;
  }
};

}  // namespace tessera::matched
