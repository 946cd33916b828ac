// Brings published matrices: "HB/bcsstk17" from the SuiteSparse Matrix Collection (sparse.tamu.edu)
// and "snap/ca-GrQc" from SNAP (snap.stanford.edu/data), into the downloads of the cache, where
// find_matrix looks for them.
//
// Beside each file stands <file>.json with its URL, size, SHA-256, etag and date. A file that is as
// its record says is not downloaded again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/io/download.hpp"

namespace tessera {

struct FetchOptions {
  std::string suitesparse_url = "https://sparse.tamu.edu/MM";  // a mirror has the same paths
  std::string snap_url = "https://snap.stanford.edu/data";
  std::string folder;  // where to; the downloads of the cache when empty
  std::string sha256;  // 64 hexadecimal digits the file must have; not checked when empty
  DownloadOptions download;
};

struct FetchedFile {
  std::string path;
  std::string url;
  std::int64_t bytes = 0;
  std::string sha256;       // 64 hexadecimal digits
  std::string etag;         // as the server gave it, or ""
  std::string date;         // of the download, UTC, ISO 8601
  bool downloaded = false;  // false: it was there already, whole
};

/// Brings one matrix, named group/name. Throws an Error: a name that is not of this form, whatever
/// download() throws, a file that is not gzipped or has another SHA-256 than asked for (nothing
/// of such a file is kept). Processes that fetch into one group wait for each other.
FetchedFile fetch_matrix(std::string_view name, const FetchOptions& options = {});

}  // namespace tessera
