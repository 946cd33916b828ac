// Downloads published matrices, "HB/bcsstk17" from the SuiteSparse Matrix Collection
// (sparse.tamu.edu) and "snap/ca-GrQc" from SNAP (snap.stanford.edu/data), to the cache, where
// find_matrix finds them.
//
// <file>.json records the URL, size, SHA-256, etag and date of each file. A file that matches its
// record is not downloaded again, and one that is downloaded again has to have the recorded
// SHA-256: a matrix that changes under its name is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/io/download.hpp"

namespace tessera {

struct FetchOptions {
  std::string suitesparse_url = "https://sparse.tamu.edu/MM";  // a mirror has the same paths
  std::string snap_url = "https://snap.stanford.edu/data";
  std::string index_url = "https://sparse.tamu.edu/files/ssstats.csv";  // of SuiteSparse
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

/// The files of a published matrix on this machine, judged by their sizes alone.
struct FetchState {
  std::string url;
  std::string path;                // of the whole file
  bool whole = false;              // the file has the recorded size
  std::int64_t bytes = 0;          // of the file as recorded; 0 when it never was fetched
  std::int64_t partial_bytes = 0;  // of an interrupted download, which the next one continues
};

/// Throws an Error for a name that is not group/name.
FetchState fetch_state(std::string_view name, const FetchOptions& options = {});

/// Fetches one matrix, named group/name. Throws an Error for a name of another form, for the errors
/// of download(), and for a file that is not gzipped or has not the required SHA-256 (that of the
/// options, else the recorded one), which it deletes. Processes that fetch into one group wait for
/// each other.
FetchedFile fetch_matrix(std::string_view name, const FetchOptions& options = {});

/// Fetches the index of the SuiteSparse Matrix Collection (collection_index.hpp) to its place in
/// the cache. One that is there and as recorded stays: delete it to get a later revision. Throws an
/// Error as fetch_matrix() does.
FetchedFile fetch_collection_index(const FetchOptions& options = {});

}  // namespace tessera
