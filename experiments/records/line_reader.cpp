#include "experiments/records/line_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

std::uint64_t OpenFile::size() const { return std::filesystem::file_size(path_); }

LineReader::LineReader(const std::string& path, const FilePiece& piece)
    : file_(path), piece_(piece) {
  if (piece.begin == 0) return;
  // The line that begins before the piece, or ends right before it, is not of it.
  begin_ = piece.begin - 1;
  next();
  number_ = 0;
}

int LineReader::number() const {
  if (piece_.begin == 0) return number_;
  std::string before(kPiece, ' ');
  std::ptrdiff_t lines = 1;  // those that begin before the piece
  for (std::uint64_t at = 0; at < piece_.begin - 1;) {
    const std::size_t got =
        file_.read(before.data(), std::min<std::uint64_t>(kPiece, piece_.begin - 1 - at), at);
    if (got == 0) break;
    lines += std::count(before.data(), before.data() + got, '\n');
    at += got;
  }
  return static_cast<int>(lines) + number_;
}

bool LineReader::next() {
  if (begin_ + next_ >= piece_.end) return false;
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
