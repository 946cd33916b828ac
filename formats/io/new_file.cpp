#include "formats/io/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".tessera-new-";
constexpr std::string_view kDrawn = "XXXXXX";  // replaced by mkdtemp
constexpr std::time_t kSettled = 60;           // seconds from making a folder to surely locking it

/// Locks the folder for this process; -1 when it is no folder or another process holds it.
int lock_folder(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}

/// Removes a folder of this class that a killed process left.
void remove_stale(const fs::path& folder) {
  struct stat status;
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  if (status.st_uid != ::geteuid() || (status.st_mode & 0777) != 0700) return;
  if (std::time(nullptr) - status.st_mtim.tv_sec < kSettled) return;
  const int lock = lock_folder(folder.string());
  if (lock < 0) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // follows no links
  ::close(lock);
}

/// Once a process and parent folder: a cache has many files.
void remove_stale_in(const fs::path& parent) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  {
    const std::lock_guard guard(mutex);
    if (!seen.insert(parent.string()).second) return;
  }
  std::error_code failed;
  for (fs::directory_iterator entry(parent, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kPrefix) && name.size() == kPrefix.size() + kDrawn.size())
      remove_stale(entry->path());
  }
}

}  // namespace

NewFile::NewFile(const std::string& path) : final_(path) {
  const fs::path target(path);
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  require(target.has_filename(), "{}: cannot write: it names a folder", path);
  remove_stale_in(parent);
  folder_ = (parent / fmt::format("{}{}", kPrefix, kDrawn)).string();
  const bool made = ::mkdtemp(folder_.data()) != nullptr;
  require(made, "{}: cannot write: {}", path, std::strerror(errno));
  lock_ = lock_folder(folder_);
  beside_ = (fs::path(folder_) / target.filename()).string();
}

NewFile::~NewFile() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void NewFile::keep() {
  const bool moved = ::rename(beside_.c_str(), final_.c_str()) == 0;
  require(moved, "{}: cannot write: {}", final_, std::strerror(errno));
}

}  // namespace tessera
