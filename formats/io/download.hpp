// Downloads one URL into one file over HTTP and resumes an earlier, interrupted attempt.
//
// Resuming follows RFC 9110 (sections 13.1.5, 14.2): Range together with If-Range, so that a file
// that has changed on the server starts over instead of mixing two versions. The file's URL and
// validator are kept beside it until the file is whole. The partial file has a name of its own that
// the next attempt finds: what others put there under that name is not followed but replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

struct DownloadOptions {
  int attempts = 4;           // after transient errors: broken connections, 5xx, 408, 429
  double retry_wait_s = 0.5;  // wait before the second attempt, doubled each time; a server's
                              // Retry-After takes precedence
  double stall_s = 30;        // an attempt fails after this time without a byte
  std::int64_t most_bytes = std::int64_t{1} << 37;  // 128 GiB: of the whole file; more is refused
  /// Called as bytes arrive; `total` is 0 while unknown. An exception from it ends the download and
  /// is rethrown; the bytes so far are kept.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

struct Downloaded {
  std::int64_t bytes = 0;
  std::string etag;           // "" when the server gives none
  std::string last_modified;  // "" when the server gives none
};

/// The name under which a file is downloaded, until its caller has checked it and gives it its
/// path.
std::string part_path(const std::string& path);

/// Removes the partial file of a path and what is kept beside it.
void remove_part(const std::string& path);

/// Downloads `url` into part_path(path), or the rest of it when that holds its beginning. Throws an
/// Error with the URL and the cause: an HTTP status, a host that cannot be reached, fewer bytes
/// than announced, more than allowed; or with the path, when it cannot be written.
Downloaded download(const std::string& url, const std::string& path,
                    const DownloadOptions& options);

/// The protocols to which the server of `url` may redirect, as libcurl names them: a request that
/// began encrypted and authenticated stays so.
const char* redirection_protocols(const std::string& url);

/// The bytes of the file at `url`, without fetching it; 0 where the server does not tell. One
/// attempt; throws an Error as download() does.
std::int64_t remote_size(const std::string& url, const DownloadOptions& options);

}  // namespace tessera
