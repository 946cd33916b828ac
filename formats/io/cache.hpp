// The binary cache: matrices by content hash, and which source had which content.
//
//   <folder>/matrices/<content hash>.csr   a header and the three arrays of a CsrMatrix, mapped on
//                                          reading: a matrix from the cache is not copied
//   <folder>/sources/<hash>                what a source (a file as it was, a generator call) held
//   <folder>/downloads/<group>/<name>.*    what fetch.hpp has brought
//   <folder>/orders/<hash>                 what order_cache.hpp keeps
//
// Files are written beside and renamed into place, so processes may race: each sees a whole file
// or none. Everything is checked on reading, every byte of it, and what does not check out counts
// as absent. A cache that cannot be written costs time, never a load: one warning on stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/base/matrix.hpp"

namespace tessera {

/// $TESSERA_CACHE, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera; "" when none of the three
/// variables (HOME the last) is set. Read anew at each call.
std::string cache_folder();

class MatrixCache {
 public:
  /// A cache in that folder, made when first written to; without a name it holds nothing.
  explicit MatrixCache(std::string folder = cache_folder()) : folder_(std::move(folder)) {}

  /// The matrix with this content, its arrays views of the mapped file; nothing when there is none
  /// or the file is damaged, truncated or not one of ours (said on stderr).
  std::optional<CsrMatrix> load(std::string_view content_hash) const;

  void store(const CsrMatrix& matrix, std::string_view content_hash) const;

  /// Content hash that `remember` noted for this identity; "" when there is none.
  std::string known_content(std::string_view identity) const;

  /// `identity` is any text that changes whenever the content might have.
  void remember(std::string_view identity, std::string_view content_hash) const;

  std::string matrix_path(std::string_view content_hash) const;
  std::string source_path(std::string_view identity) const;

 private:
  std::string folder_;
};

}  // namespace tessera
