// Downloads published matrices, "HB/bcsstk17" from the SuiteSparse Matrix Collection
// (sparse.tamu.edu) and "snap/ca-GrQc" from SNAP (snap.stanford.edu/data), to the cache, where
// find_matrix finds them.
//
// <file>.json records the URL, size, SHA-256, etag and date of each file. A file that matches its
// record is not downloaded again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/io/download.hpp"

namespace tessera {

struct FetchOptions {
  std::string suitesparse_url = "https://sparse.tamu.edu/MM";  // a mirror has the same paths
  std::string snap_url = "https://snap.stanford.edu/data";
  std::string folder;  // target; the downloads of the cache when empty
  std::string sha256;  // required hash, 64 hexadecimal digits; not checked when empty
  DownloadOptions download;
};

struct FetchedFile {
  std::string path;
  std::string url;
  std::int64_t bytes = 0;
  std::string sha256;       // 64 hexadecimal digits
  std::string etag;         // from the server, or ""
  std::string date;         // of the download, UTC, ISO 8601
  bool downloaded = false;  // false when the whole file existed already
};

/// Fetches one matrix, named group/name. Throws an Error for a name of another form, for the errors
/// of download(), and for a file that is not gzipped or has not the required SHA-256, which it
/// deletes. Processes that fetch into one group wait for each other.
FetchedFile fetch_matrix(std::string_view name, const FetchOptions& options = {});

}  // namespace tessera
