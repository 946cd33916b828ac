// Orders that were expensive to find, kept between runs: part of the binary cache (cache.hpp).
//
//   <folder>/orders/<hash of the identity>   one order, and what finding it took
//
// Everything is checked on reading, as in the rest of the cache: what does not check out counts as
// absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/permutation.hpp"
#include "formats/io/cache.hpp"

namespace tessera {

/// An order of rows (and columns), and what it took to find it.
struct KeptOrder {
  Permutation rows;
  std::optional<Permutation> cols;
  std::string chosen;  // of several candidates tried: the one that won
  double seconds = 0;
  std::int32_t threads = 0;
  std::optional<std::int64_t> peak_bytes;  // of working memory; nothing where it was not known

  friend bool operator==(const KeptOrder&, const KeptOrder&) = default;
};

class OrderCache {
 public:
  /// A cache in that folder, made when first written to; without a name it holds nothing.
  explicit OrderCache(std::string folder = cache_folder()) : folder_(std::move(folder)) {}

  /// The order that `store` was given for this identity; nothing when there is none or the file is
  /// damaged, truncated or not one of ours (said on stderr).
  std::optional<KeptOrder> load(std::string_view identity) const;

  /// `identity` is any text that changes whenever the order might: the matrix and the algorithm.
  void store(const KeptOrder& order, std::string_view identity) const;

  std::string path(std::string_view identity) const;

 private:
  std::string folder_;
};

}  // namespace tessera
