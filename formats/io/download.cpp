#include "formats/io/download.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "formats/base/check.hpp"
#include "formats/io/cache_file.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kLongestWait = 60;  // seconds; a longer Retry-After is cut to this

/// An error that another attempt may not meet.
class Transient : public Error {
 public:
  Transient(const std::string& message, double wait_s) : Error(message), wait_s(wait_s) {}
  double wait_s;  // the server's Retry-After
};

// --- the record of a partial file ----------------------------------------------------------------

std::string note_path(const std::string& path) { return part_path(path) + ".json"; }

/// The validator with which the partial file can be resumed; "" when it cannot be.
std::string validator_of_part(const std::string& url, const std::string& path) {
  const Json note = Json::parse(read_cache_file(note_path(path)).value_or(""), nullptr, false);
  if (!note.is_object() || note.value("url", Json()) != Json(url)) return "";
  const Json validator = note.value("validator", Json());
  return validator.is_string() ? validator.get<std::string>() : "";
}

/// The etag, or the date when the etag is weak, which If-Range does not take (RFC 9110, 13.1.5).
std::string validator_of(const Downloaded& answer) {
  return answer.etag.starts_with('"') ? answer.etag : answer.last_modified;
}

// --- one attempt ---------------------------------------------------------------------------------

struct Attempt {
  const std::string& url;
  const std::string& path;
  const DownloadOptions& options;
  int file = -1;
  std::int64_t offset = 0;  // of the next byte in the file
  Downloaded answer = {};
  long status = 0;
  std::int64_t total = 0;         // of the whole file, 0 while unknown
  std::int64_t range_start = -1;  // of a partial answer
  bool in_body = false;
  std::exception_ptr failure = nullptr;  // thrown in a callback; it must not cross curl's C code
};

std::int64_t number_in(std::string_view text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

void read_header(Attempt& attempt, std::string_view line) {
  if (line.starts_with("HTTP/")) {  // a new answer, possibly after a redirection: discard the old
    attempt.answer = {};
    attempt.total = 0;
    attempt.range_start = -1;
    attempt.status = number_in(trimmed(line.substr(std::min(line.find(' '), line.size()))));
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "etag") attempt.answer.etag = value;
  if (name == "last-modified") attempt.answer.last_modified = value;
  if (name == "content-length" && attempt.status == 200)
    attempt.total = std::max<std::int64_t>(0, number_in(value));
  if (name == "content-range" && value.starts_with("bytes ")) {  // bytes 100-999/1000
    attempt.range_start = number_in(value.substr(6));
    const std::size_t slash = std::min(value.find('/'), value.size() - 1);
    attempt.total = std::max<std::int64_t>(0, number_in(value.substr(slash + 1)));
  }
}

/// Opens the partial file. A link that somebody planted under its name, a pipe, a file of somebody
/// else give way to a new file.
int open_part(const std::string& path) {
  const std::string part = part_path(path);
  const int present =
      ::open(part.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);  // a pipe would wait
  struct stat status = {};
  if (present >= 0 && ::fstat(present, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_nlink == 1 && status.st_uid == ::geteuid())
    return present;
  if (present >= 0) ::close(present);
  remove_part(path);
  const int made = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  require(made >= 0, "{} cannot be written: {}", path, std::strerror(errno));
  return made;
}

/// Decides at the first bytes of an answer whether they continue the partial file or replace it.
void begin_body(Attempt& attempt) {
  attempt.in_body = true;
  if (attempt.status == 206) {
    require(attempt.range_start == attempt.offset,
            "{}: requested the bytes from {}, the server sent those from {}", attempt.url,
            attempt.offset, attempt.range_start);
    return;
  }
  attempt.offset = 0;
  require(::ftruncate(attempt.file, 0) == 0, "{} cannot be written: {}", attempt.path,
          std::strerror(errno));
  NewFile note(note_path(attempt.path));
  std::ofstream(note.path())
      << Json{{"url", attempt.url}, {"validator", validator_of(attempt.answer)}}.dump();
  note.keep();
}

void write_body(Attempt& attempt, std::string_view bytes) {
  if (attempt.status != 200 && attempt.status != 206) return;  // the page of an error
  const std::int64_t begin = attempt.status == 206 || attempt.in_body ? attempt.offset : 0;
  const std::int64_t least = begin + std::ssize(bytes);
  require(std::max(least, attempt.total) <= attempt.options.most_bytes,
          "{}: {} bytes, and at most {} are downloaded", attempt.url,
          attempt.total > 0 ? fmt::to_string(attempt.total) : fmt::format("over {}", begin),
          attempt.options.most_bytes);
  if (!attempt.in_body) begin_body(attempt);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(attempt.file, bytes.data(), bytes.size(), attempt.offset);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "{} cannot be written: {}", attempt.path, std::strerror(errno));
    attempt.offset += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (attempt.options.progress) attempt.options.progress(attempt.offset, attempt.total);
}

template <void (*receive)(Attempt&, std::string_view)>
std::size_t callback(char* data, std::size_t, std::size_t size, void* user) {
  auto& attempt = *static_cast<Attempt*>(user);
  try {
    receive(attempt, {data, size});
    return size;
  } catch (...) {
    attempt.failure = std::current_exception();
    return 0;  // makes curl stop; never `size`, which is not 0 here
  }
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool may_pass(long status) { return status == 408 || status == 429 || status >= 500; }

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Curl = std::unique_ptr<CURL, CurlDeleter>;
using CurlList = std::unique_ptr<curl_slist, CurlDeleter>;

Curl prepare(Attempt& attempt, char* error_text) {
  static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
  Curl curl(kReady == CURLE_OK ? curl_easy_init() : nullptr);
  require(curl != nullptr, "libcurl cannot be started");
  const auto set = [&](CURLoption option, auto value) {
    require(curl_easy_setopt(curl.get(), option, value) == CURLE_OK,
            "libcurl does not take option {}", static_cast<int>(option));
  };
  set(CURLOPT_URL, attempt.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, redirection_protocols(attempt.url));
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_USERAGENT, "tessera/0.1");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(attempt.options.stall_s * 1000));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(attempt.options.stall_s)));
  set(CURLOPT_ERRORBUFFER, error_text);
  set(CURLOPT_HEADERFUNCTION, &callback<read_header>);
  set(CURLOPT_HEADERDATA, &attempt);
  set(CURLOPT_WRITEFUNCTION, &callback<write_body>);
  set(CURLOPT_WRITEDATA, &attempt);
  return curl;
}

/// Throws for anything but an answer with the file.
void judge(const Attempt& attempt, CURL* curl, CURLcode code, const char* error_text) {
  if (attempt.failure) std::rethrow_exception(attempt.failure);
  const std::string& url = attempt.url;
  if (code != CURLE_OK && attempt.total > 0 && attempt.in_body)
    throw Transient(fmt::format("{}: ended after {} of {} bytes ({})", url, attempt.offset,
                                attempt.total, curl_easy_strerror(code)),
                    0);
  if (code != CURLE_OK) {
    const std::string message =
        fmt::format("{}: {}", url, *error_text != '\0' ? error_text : curl_easy_strerror(code));
    if (may_pass(code)) throw Transient(message, 0);
    throw Error(message);
  }
  if (attempt.status != 200 && attempt.status != 206) {
    const std::string message = fmt::format("{}: the server answered {}{}", url, attempt.status,
                                            attempt.status == 404 ? " (not found)" : "");
    curl_off_t wait = 0;
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait);
    if (may_pass(attempt.status)) throw Transient(message, static_cast<double>(wait));
    throw Error(message);
  }
}

Downloaded try_once(const std::string& url, const std::string& path,
                    const DownloadOptions& options) {
  Attempt attempt{url, path, options};
  attempt.file = open_part(path);
  const auto close_file = [](const int* file) { ::close(*file); };
  const std::unique_ptr<const int, decltype(close_file)> closer(&attempt.file, close_file);

  char error_text[CURL_ERROR_SIZE] = "";
  const Curl curl = prepare(attempt, error_text);
  CurlList headers;
  const std::string validator = validator_of_part(url, path);
  struct stat status = {};
  const std::int64_t present = ::fstat(attempt.file, &status) == 0 ? status.st_size : 0;
  if (present > 0 && !validator.empty()) {
    attempt.offset = present;
    headers.reset(curl_slist_append(nullptr, ("If-Range: " + validator).c_str()));
    curl_easy_setopt(curl.get(), CURLOPT_RANGE, fmt::format("{}-", present).c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (attempt.status == 416) {  // the partial file is at least as long as the file: useless
    fs::remove(note_path(path));
    throw Transient(fmt::format("{}: the server has no bytes from {}", url, present), 0);
  }
  judge(attempt, curl.get(), code, error_text);
  if (attempt.total > 0 && attempt.offset != attempt.total)
    throw Transient(
        fmt::format("{}: ended after {} of {} bytes", url, attempt.offset, attempt.total), 0);
  // An empty answer has no first byte that would call this.
  if (!attempt.in_body) begin_body(attempt);
  attempt.answer.bytes = attempt.offset;
  return attempt.answer;
}

}  // namespace

std::string part_path(const std::string& path) { return path + ".part"; }

void remove_part(const std::string& path) {
  std::error_code ignored;
  fs::remove(part_path(path), ignored);
  fs::remove(note_path(path), ignored);
}

const char* redirection_protocols(const std::string& url) {
  return url.starts_with("http:") ? "http,https" : "https";
}

Downloaded download(const std::string& url, const std::string& path,
                    const DownloadOptions& options) {
  require(options.attempts > 0, "a download needs at least one attempt, not {}", options.attempts);
  double wait_s = options.retry_wait_s;
  for (int attempt = 1;; ++attempt, wait_s *= 2) {
    try {
      const Downloaded downloaded = try_once(url, path, options);
      fs::remove(note_path(path));
      return downloaded;
    } catch (const Transient& error) {
      if (attempt == options.attempts)
        throw Error(fmt::format("{} (attempt {} of {})", error.what(), attempt, options.attempts));
      const double wait = std::min(std::max(wait_s, error.wait_s), kLongestWait);
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    }
  }
}

std::int64_t remote_size(const std::string& url, const DownloadOptions& options) {
  Attempt attempt{url, url, options};
  char error_text[CURL_ERROR_SIZE] = "";
  const Curl curl = prepare(attempt, error_text);
  curl_easy_setopt(curl.get(), CURLOPT_NOBODY, 1L);
  const CURLcode code = curl_easy_perform(curl.get());
  judge(attempt, curl.get(), code, error_text);
  return attempt.total;
}

}  // namespace tessera
