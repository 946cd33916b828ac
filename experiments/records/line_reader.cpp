#include "experiments/records/line_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes read at a time

OpenFile::OpenFile(std::string path) : path_(std::move(path)) {
  require(!std::filesystem::exists(path_) || std::filesystem::is_regular_file(path_),
          "{}: records are in regular files, and this is none", path_);
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  require(file_ >= 0, "{}: cannot be read", path_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

OpenFile::~OpenFile() {
  if (file_ >= 0) close(file_);
}

std::size_t OpenFile::read(char* to, std::size_t size, std::uint64_t offset) const {
  std::size_t got = 0;
  while (got < size) {
    const ssize_t more = pread(file_, to + got, size - got, static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    require(more >= 0, "{}: cannot be read: {}", path_, std::strerror(errno));
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  return got;
}

bool LineReader::next() {
  std::size_t end = buffer_.find('\n', next_);
  while (end == std::string::npos) {
    buffer_.erase(0, next_);
    begin_ += std::exchange(next_, 0);
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kPiece);
    buffer_.resize(before + file_.read(buffer_.data() + before, kPiece, begin_ + before));
    if (buffer_.size() == before) break;
    end = buffer_.find('\n', before);
  }
  has_end_ = end != std::string::npos;
  if (!has_end_) end = buffer_.size();
  if (!has_end_ && end == next_) return false;
  line_ = std::string_view(buffer_).substr(next_, end - next_);
  offset_ = begin_ + next_;
  next_ = has_end_ ? end + 1 : end;
  ++number_;
  return true;
}

}  // namespace tessera
