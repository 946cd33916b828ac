#include "formats/io/fetch.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/base/check.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/cache_file.hpp"
#include "formats/io/collection_index.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// The URL and the target path of a name.
struct Place {
  std::string url;
  fs::path path;
};

/// True for letters, digits and "_-+." without a leading dot, which are safe in a URL and a path.
bool is_plain_word(std::string_view word) {
  return !word.empty() && word.front() != '.' && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-+.").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

Place place_of(std::string_view name, const FetchOptions& options) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string_view group = name.substr(0, slash);
  const std::string_view word = name.substr(std::min(slash + 1, name.size()));
  require(is_plain_word(group) && is_plain_word(word),
          "'{}' is not group/name, like HB/bcsstk17 (SuiteSparse) or snap/ca-GrQc (SNAP)", name);
  fs::path folder = options.folder;
  if (folder.empty()) {
    require(!cache_folder().empty(),
            "there is no cache folder to download into: set TESSERA_CACHE");
    folder = fs::path(cache_folder()) / "downloads";
  }
  if (group == "snap")
    return {fmt::format("{}/{}.txt.gz", options.snap_url, word),
            folder / group / fmt::format("{}.txt.gz", word)};
  return {fmt::format("{}/{}/{}.tar.gz", options.suitesparse_url, group, word),
          folder / group / fmt::format("{}.tar.gz", word)};
}

/// Locks a folder for this process until the end of the scope.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    require(folder_ >= 0, "{} cannot be opened: {}", folder.string(), std::strerror(errno));
    while (::flock(folder_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~FolderLock() { ::close(folder_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

std::string sha256_of(const fs::path& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  require(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
          "this OpenSSL has no SHA-256");
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0)
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  require(file.eof() && !file.bad(), "{} cannot be read", path.string());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

bool is_gzip(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return file.get() == 0x1f && file.get() == 0x8b;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// --- the record beside a file --------------------------------------------------------------------

fs::path record_path(const fs::path& path) { return path.string() + ".json"; }

void write_record(const FetchedFile& fetched) {
  const Json record = {{"url", fetched.url},
                       {"bytes", fetched.bytes},
                       {"sha256", fetched.sha256},
                       {"etag", fetched.etag},
                       {"date", fetched.date}};
  const std::string path = record_path(fetched.path);
  NewFile target(path);
  std::ofstream file(target.path());
  file << record.dump(2) << '\n';
  require(bool(file.flush()), "{} cannot be written", path);
  target.keep();
}

/// The record beside a file; nothing when there is none that this program wrote.
std::optional<FetchedFile> read_record(const fs::path& path) {
  const Json record = Json::parse(read_cache_file(record_path(path)).value_or(""), nullptr, false);
  if (!record.is_object()) return std::nullopt;
  FetchedFile fetched{.path = path.string(), .url = {}, .sha256 = {}, .etag = {}, .date = {}};
  try {
    fetched.bytes = record.at("bytes").get<std::int64_t>();
    fetched.sha256 = record.at("sha256").get<std::string>();
    fetched.etag = record.at("etag").get<std::string>();
    fetched.date = record.at("date").get<std::string>();
    fetched.url = record.at("url").get<std::string>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return fetched;
}

std::int64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : static_cast<std::int64_t>(bytes);
}

bool has_recorded_size(const FetchedFile& fetched) {
  return fs::is_regular_file(fetched.path) && size_of(fetched.path) == fetched.bytes;
}

std::string expected_sha256(const FetchOptions& options) {
  std::string digits = options.sha256;
  std::ranges::transform(digits, digits.begin(), [](unsigned char c) { return std::tolower(c); });
  require(digits.empty() ||
              (digits.size() == 64 && digits.find_first_not_of("0123456789abcdef") == digits.npos),
          "'{}' is no SHA-256: expected 64 hexadecimal digits", options.sha256);
  return digits;
}

/// Throws an Error unless the downloaded part of a matrix is gzipped and has the right SHA-256.
void check_part(const FetchedFile& fetched, const std::string& part, const std::string& expected,
                const std::optional<FetchedFile>& before) {
  require(is_gzip(part), "{}: the downloaded file is not gzipped", fetched.url);
  require(expected.empty() || fetched.sha256 == expected, "{}: its SHA-256 is {}, expected {}",
          fetched.url, fetched.sha256, expected);
  require(!expected.empty() || !before || fetched.sha256 == before->sha256,
          "{}: its SHA-256 is {}, but that of the file fetched on {} was {}; delete {} to take it",
          fetched.url, fetched.sha256, before ? before->date : "", before ? before->sha256 : "",
          record_path(fetched.path).string());
}

/// Fetches one file, unless `before` says that it is here; `check` throws an Error for one that is
/// not to be kept.
template <class Check>
FetchedFile fetch_file(const Place& place, const DownloadOptions& options,
                       const std::optional<FetchedFile>& before, Check check) {
  if (before && has_recorded_size(*before) && sha256_of(before->path) == before->sha256) {
    remove_part(place.path);
    return *before;
  }

  FetchedFile fetched;
  fetched.path = place.path.string();
  const std::string part = part_path(place.path);
  Downloaded downloaded;
  std::error_code failed;
  try {
    downloaded = download(place.url, place.path, options);
  } catch (...) {
    if (size_of(part) == 0) fs::remove(part, failed);
    throw;
  }
  fetched.url = place.url;
  fetched.bytes = downloaded.bytes;
  fetched.etag = downloaded.etag;
  fetched.date = now_utc();
  fetched.sha256 = sha256_of(part);
  fetched.downloaded = true;
  try {
    check(fetched, part);
  } catch (const Error&) {
    fs::remove(part);
    throw;
  }
  // The record first: it means nothing without its file, and a file without it is fetched again.
  write_record(fetched);
  fs::rename(part, fetched.path, failed);
  require(!failed, "{} cannot be written: {}", fetched.path, failed.message());
  return fetched;
}

void make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  require(!failed, "{} cannot be made: {}", folder.string(), failed.message());
}

}  // namespace

FetchState fetch_state(std::string_view name, const FetchOptions& options) {
  const Place place = place_of(name, options);
  FetchState state{.url = place.url, .path = place.path.string()};
  if (const std::optional<FetchedFile> record = read_record(place.path)) {
    state.bytes = record->bytes;
    state.whole = has_recorded_size(*record);
  }
  state.partial_bytes = size_of(part_path(place.path));
  return state;
}

FetchedFile fetch_matrix(std::string_view name, const FetchOptions& options) {
  const std::string expected = expected_sha256(options);
  const Place place = place_of(name, options);
  make_folder(place.path.parent_path());
  const FolderLock lock(place.path.parent_path());

  const std::optional<FetchedFile> record = read_record(place.path);
  const bool fits = record && (expected.empty() || record->sha256 == expected);
  return fetch_file(place, options.download, fits ? record : std::nullopt,
                    [&](const FetchedFile& fetched, const std::string& part) {
                      check_part(fetched, part, expected, record);
                    });
}

FetchedFile fetch_collection_index(const FetchOptions& options) {
  const std::string path = fetched_index_path();
  require(!path.empty(), "there is no cache folder to download into: set TESSERA_CACHE");
  const Place place{options.index_url, path};
  make_folder(place.path.parent_path());
  const FolderLock lock(place.path.parent_path());
  return fetch_file(place, options.download, read_record(place.path),
                    [](const FetchedFile& fetched, const std::string& part) {
                      std::ifstream file(part);
                      const int first = file.get();
                      require(first >= '1' && first <= '9',
                              "{}: the downloaded file is no index: it begins with no number",
                              fetched.url);
                    });
}

}  // namespace tessera
