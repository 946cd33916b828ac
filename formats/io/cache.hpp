// The binary cache: matrices by content hash, and the content hashes of sources.
//
//   <folder>/matrices/<content hash>.csr   a header and the three arrays of a CsrMatrix, mapped on
//                                          reading: a matrix from the cache is not copied
//   <folder>/sources/<hash>                the content hash of a source (a file in one state, a
//                                          generator call)
//   <folder>/downloads/<group>/<name>.*    the downloads of fetch.hpp
//   <folder>/orders/<hash>                 the orders of order_cache.hpp
//
// Files are written under a temporary name and renamed into place, so processes may race: each sees
// a whole file or none. Reading verifies every byte; a file that fails counts as absent. When the
// cache cannot be written, loads take longer and one warning appears on stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/base/matrix.hpp"

namespace tessera {

/// $TESSERA_CACHE, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera; "" when none of the three
/// variables (HOME the last) is set. Each call reads the environment again.
std::string cache_folder();

class MatrixCache {
 public:
  /// A cache in that folder, which the first write makes; with an empty name it holds nothing.
  explicit MatrixCache(std::string folder = cache_folder()) : folder_(std::move(folder)) {}

  /// The matrix with this content hash, its arrays views of the mapped file. Empty when there is
  /// none, or when the file is damaged, truncated or foreign (reported on stderr).
  std::optional<CsrMatrix> load(std::string_view content_hash) const;

  void store(const CsrMatrix& matrix, std::string_view content_hash) const;

  /// The content hash that `remember` stored for this identity; "" when there is none.
  std::string known_content(std::string_view identity) const;

  /// Stores the content hash of a source; `identity` is any text that changes whenever the source's
  /// content might have changed.
  void remember(std::string_view identity, std::string_view content_hash) const;

  std::string matrix_path(std::string_view content_hash) const;
  std::string source_path(std::string_view identity) const;

 private:
  std::string folder_;
};

}  // namespace tessera
