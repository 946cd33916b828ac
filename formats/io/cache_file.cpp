// A file that is renamed into place is whole, even when processes race or the writer dies.
#include "formats/io/cache_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "formats/base/check.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

void write_all(int file, const std::string& path, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "{}: {}", path, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void write_beside(const std::string& path, Bytes bytes) {
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  require(!failed, "{}: {}", path, failed.message());
  NewFile target(path);
  const int file =
      ::open(target.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  require(file >= 0, "{}: {}", path, std::strerror(errno));
  try {
    write_all(file, path, bytes);
  } catch (...) {
    ::close(file);
    throw;
  }
  const bool closed = ::close(file) == 0;
  require(closed, "{}: {}", path, std::strerror(errno));
  target.keep();
}

/// Reads to the end of the file; the fault, or "".
std::string read_all(int file, std::string& bytes) {
  std::array<char, 1 << 16> piece;
  while (true) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got == 0) return "";
    if (got > 0)
      bytes.append(piece.data(), static_cast<std::size_t>(got));
    else if (errno != EINTR)
      return std::strerror(errno);
  }
}

}  // namespace

void write_cache_file(const std::string& path, Bytes bytes) {
  static std::atomic<bool> warned{false};
  try {
    write_beside(path, bytes);
  } catch (const std::exception& error) {
    if (!warned.exchange(true))
      fmt::print(stderr, "warning: the cache cannot be written, loads stay slow: {}\n",
                 error.what());
  }
}

std::optional<std::string> read_cache_file(const std::string& path) {
  // A FIFO would wait for its writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    if (errno != ENOENT && errno != ENOTDIR) report_unused(path, std::strerror(errno));
    return std::nullopt;
  }
  std::string problem;
  struct stat status;
  std::string bytes;
  if (::fstat(file, &status) != 0)
    problem = std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    problem = "it is no file";
  else
    problem = read_all(file, bytes);
  ::close(file);
  if (problem.empty()) return bytes;
  report_unused(path, problem);
  return std::nullopt;
}

void report_unused(const std::string& path, const std::string& problem) {
  fmt::print(stderr, "note: {} is not used: {}\n", path, problem);
}

}  // namespace tessera
