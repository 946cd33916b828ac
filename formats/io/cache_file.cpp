// A file that is renamed into place is whole, even when processes race or the writer dies. Its
// temporary name is unique to this process and this write.
#include "formats/io/cache_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

void write_all(int file, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "{}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_beside(const std::string& path, Bytes bytes) {
  static std::atomic<int> counter{0};
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  require(!failed, "{}", failed.message());
  const std::string beside = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter++);
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  require(file >= 0, "{}", std::strerror(errno));
  try {
    write_all(file, bytes);
  } catch (...) {
    ::close(file);
    ::unlink(beside.c_str());
    throw;
  }
  const bool closed = ::close(file) == 0;
  if (closed && ::rename(beside.c_str(), path.c_str()) == 0) return;
  const int why = errno;
  ::unlink(beside.c_str());
  throw Error(std::strerror(why));
}

}  // namespace

void write_cache_file(const std::string& path, Bytes bytes) {
  static std::atomic<bool> warned{false};
  try {
    write_beside(path, bytes);
  } catch (const std::exception& error) {
    if (!warned.exchange(true))
      fmt::print(stderr, "warning: the cache cannot be written, loads stay slow: {}: {}\n", path,
                 error.what());
  }
}

void report_unused(const std::string& path, const std::string& problem) {
  fmt::print(stderr, "note: {} is not used: {}\n", path, problem);
}

}  // namespace tessera
