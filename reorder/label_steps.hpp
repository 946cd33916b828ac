// Steps of the order `label_propagation`, of the kinds of matched_steps.hpp: rows take the label
// that most of their columns have, and columns that of their rows.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_steps.hpp"

namespace tessera::matched {

/// Keys by which rows draw their labels.
struct DrawKey {
  std::uint32_t seed;
  std::uint32_t* keys;
  TESSERA_HOST_DEVICE void operator()(std::int64_t row) const {
    keys[row] = mixed(static_cast<std::uint32_t>(row) ^ seed);
  }
};
struct DrawLabel {
  const std::uint32_t* drawn;  // [rows] rows by key
  std::int32_t* labels;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    labels[drawn[i]] = static_cast<std::int32_t>(i);
  }
};

/// How many rows or columns have each label; empty ones do not count.
struct ClearSize {
  std::uint32_t* sizes;
  std::int64_t labels;
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const {
    if (i < labels) sizes[i] = 0;
  }
};
struct AddSize {
  std::uint32_t* sizes;
  const std::uint32_t* offsets;  // [holders + 1] of their nonzeros
  const std::int32_t* labels;    // [holders]
  std::int64_t holders;
  template <class Threads>
  TESSERA_HOST_DEVICE bool operator()(const Threads& threads, int, std::int64_t i) const {
    if (i < holders && offsets[i] < offsets[i + 1]) threads.add(&sizes[labels[i]], 1);
    return false;
  }
};

/// A row or column takes the label that is worth most to it: the share of those with the label
/// among its nonzeros and all that have it, where the latter weigh the less the larger `shift` is.
/// Of equally good ones it takes its own, or else the nearest; the least where it has none yet.
struct Vote {
  const std::uint32_t* offsets;      // [voters + 1]
  const std::int32_t* others;        // [nnz] columns of a row, or rows of a column
  const std::int32_t* their_labels;  // of these
  const std::uint32_t* sizes;        // [clusters] how many of them have a label
  std::int32_t clusters;             // those of a label
  int shift;
  bool has_own;
  std::int32_t* labels;  // [voters]
  Key* found;            // [voters]

  TESSERA_HOST_DEVICE Size size_of(std::int64_t voter) const {
    const std::uint32_t length = offsets[voter + 1] - offsets[voter];
    return length > 32768 ? Size::kWide : length > 1024 ? Size::kBlock : Size::kWarp;
  }

  /// Whether the team had memory for all labels; the largest always has.
  template <class Team>
  TESSERA_HOST_DEVICE bool operator()(const Team& team, std::int64_t voter) const {
    const std::uint32_t begin = offsets[voter], length = offsets[voter + 1] - begin;
    if (length == 0) return true;
    const std::int32_t own = has_own ? labels[voter] : 0;
    BestKeys best;
    const bool counted = team.count(
        clusters, least(length, static_cast<std::uint32_t>(clusters)), length, 1,
        Judge(sizes, own, length, shift),
        [&](auto add) {
          team.for_each(length, [&](std::uint32_t i) { add(their_labels[others[begin + i]]); });
        },
        best);
    if (!counted) return false;
    team.store_largest(best, 1, found + voter);
    if (team.is_first()) labels[voter] = partner_of(found[voter], own);
    team.sync();
    return true;
  }
};

/// Where labels are first met in the order at hand.
struct ClearFirst {
  Key* firsts;  // [labels] 0: not met
  TESSERA_HOST_DEVICE void operator()(std::int64_t i) const { firsts[i] = 0; }
};
struct MeetLabel {
  const std::int32_t* order;
  const std::int32_t* labels;
  Key* firsts;  // ~position
  template <class Threads>
  TESSERA_HOST_DEVICE bool operator()(const Threads& threads, int, std::int64_t position) const {
    threads.raise(&firsts[labels[order[position]]], ~static_cast<Key>(position));
    return false;
  }
};
struct FirstOfLabel {
  const std::int32_t* order;
  const std::int32_t* labels;
  const Key* firsts;
  std::uint32_t* keys;
  TESSERA_HOST_DEVICE void operator()(std::int64_t position) const {
    keys[position] = static_cast<std::uint32_t>(~firsts[labels[order[position]]]);
  }
};

}  // namespace tessera::matched
