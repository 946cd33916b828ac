// One URL into one file over HTTP, resumed where an earlier attempt or process broke off.
//
// Resuming follows RFC 9110 (sections 13.1.5, 14.2): Range together with If-Range, so that a file
// that has changed on the server meanwhile starts over instead of being glued together. What the
// server said of the file (URL and validator) is kept beside it, in <path>.json, until it is whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera {

struct DownloadOptions {
  int attempts = 4;           // for errors that may pass: broken connections, 5xx, 408, 429
  double retry_wait_s = 0.5;  // before the second attempt, doubled each time; Retry-After wins
  double stall_s = 30;        // without a byte for so long, an attempt has failed
  /// Called as bytes arrive; `total` is 0 while unknown. What it throws ends the download and is
  /// passed on; the bytes so far are kept.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

struct Downloaded {
  std::int64_t bytes = 0;
  std::string etag;           // "" when the server gives none
  std::string last_modified;  // likewise
};

/// Downloads `url` into `path`, or the rest of it when `path` holds its beginning. Throws an Error
/// with the URL and the cause: an HTTP status, a host that cannot be reached, fewer bytes than
/// announced, a file that cannot be written.
Downloaded download(const std::string& url, const std::string& path,
                    const DownloadOptions& options);

}  // namespace tessera
