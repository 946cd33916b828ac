#include "formats/io/byte_stream.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"

namespace tessera {
namespace {

constexpr std::size_t kPiece = 1 << 18;  // compressed bytes held at a time

class PlainFile {
 public:
  explicit PlainFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
    require(file_ != nullptr, "{}: cannot open: {}", path, std::strerror(errno));
  }
  ~PlainFile() { std::fclose(file_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  std::size_t read(std::span<char> buffer) {
    const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file_);
    require(std::ferror(file_) == 0, "{}: cannot read: {}", path_, std::strerror(errno));
    return got;
  }
  bool starts_like_gzip() {
    const int first = std::getc(file_), second = std::getc(file_);
    require(std::fseek(file_, 0, SEEK_SET) == 0, "{}: cannot read: {}", path_,
            std::strerror(errno));
    return first == 0x1f && second == 0x8b;
  }

 private:
  std::string path_;
  std::FILE* file_;
};

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const std::string& path) : file_(path) {}
  std::size_t read(std::span<char> buffer) override { return file_.read(buffer); }

 private:
  PlainFile file_;
};

/// One gzip member after another, as `gzip` itself reads them.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const std::string& path) : path_(path), file_(path), input_(kPiece) {
    constexpr int kGzipWindow = 15 + 16;  // the largest window, with the gzip wrapper
    require(inflateInit2(&stream_, kGzipWindow) == Z_OK, "{}: cannot start zlib", path);
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && !at_end_) {
      constexpr std::size_t kMost = 1u << 30;  // zlib counts in 32 bits
      const std::size_t room = std::min(buffer.size() - filled, kMost);
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data() + filled);
      stream_.avail_out = static_cast<uInt>(room);
      step();
      filled += room - stream_.avail_out;
    }
    return filled;
  }

 private:
  void step() {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0 && between_members_) {
      at_end_ = true;
      return;
    }
    require(stream_.avail_in > 0, "{}: truncated: the gzip data ends in the middle", path_);
    if (between_members_) require_member();
    const int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
      return;
    }
    require(status == Z_OK || status == Z_BUF_ERROR, "{}: damaged gzip data: {}", path_,
            stream_.msg != nullptr ? stream_.msg : zError(status));
  }

  void refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(file_.read(input_));
  }

  void require_member() {
    require(*stream_.next_in == 0x1f, "{}: bytes that are not gzip follow the gzip data", path_);
    between_members_ = false;
  }

  std::string path_;
  PlainFile file_;
  std::vector<char> input_;
  z_stream stream_ = {};
  bool between_members_ = false;
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  if (PlainFile(path).starts_like_gzip()) return std::make_unique<GzipSource>(path);
  return std::make_unique<PlainSource>(path);
}

// --- archives ------------------------------------------------------------------------------------

struct ArchiveReader::Feed {
  std::unique_ptr<ByteSource> bytes;
  std::vector<char> buffer;
  std::string failure;  // an exception must not cross libarchive's C code
};

ArchiveReader::ArchiveReader(const std::string& path, Kind kind)
    : path_(path), feed_(std::make_unique<Feed>()), archive_(archive_read_new()) {
  int status = ARCHIVE_OK;
  try {
    if (kind == Kind::kZip) {
      PlainFile probe(path);  // throws with the reason when the file cannot be opened
      // The other zip reader needs no directory at the end and would accept a truncated file.
      archive_read_support_format_zip_seekable(archive_);
      status = archive_read_open_filename(archive_, path.c_str(), kPiece);
    } else {
      feed_->bytes = open_bytes(path);
      feed_->buffer.resize(kPiece);
      archive_read_support_format_tar(archive_);
      const auto refill = [](archive*, void* data, const void** bytes) -> la_ssize_t {
        Feed& feed = *static_cast<Feed*>(data);
        try {
          *bytes = feed.buffer.data();
          return static_cast<la_ssize_t>(feed.bytes->read(feed.buffer));
        } catch (const Error& error) {
          feed.failure = error.what();
          return -1;
        }
      };
      status = archive_read_open(archive_, feed_.get(), nullptr, refill, nullptr);
    }
    if (status != ARCHIVE_OK) fail("open the archive");
  } catch (...) {
    archive_read_free(archive_);
    throw;
  }
}

ArchiveReader::~ArchiveReader() { archive_read_free(archive_); }

bool ArchiveReader::next() {
  while (true) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive_, &entry);
    if (status == ARCHIVE_EOF) return false;
    if (status != ARCHIVE_OK) fail("read the next member");
    const char* name = archive_entry_pathname(entry);
    if (archive_entry_filetype(entry) != AE_IFREG || name == nullptr) continue;
    member_ = escaped(name);
    return true;
  }
}

std::size_t ArchiveReader::read(std::span<char> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const la_ssize_t got =
        archive_read_data(archive_, buffer.data() + filled, buffer.size() - filled);
    if (got < 0) fail("read member '" + member_ + "'");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

void ArchiveReader::finish() {
  while (next()) continue;
  if (feed_->bytes == nullptr) return;
  while (feed_->bytes->read(feed_->buffer) > 0) continue;
}

void ArchiveReader::fail(std::string_view doing) const {
  if (!feed_->failure.empty()) throw Error(feed_->failure);
  const char* reason = archive_error_string(archive_);
  throw Error(fmt::format("{}: cannot {}: {}", path_, doing,
                          reason != nullptr ? reason : "the archive is damaged"));
}

// --- writing -------------------------------------------------------------------------------------

ByteSink::ByteSink(const std::string& path)
    : path_(path),
      new_file_(path),
      file_(gzopen(new_file_.path().c_str(), path.ends_with(".gz") ? "wb6" : "wbT")) {
  require(file_ != nullptr, "{}: cannot write: {}", path, std::strerror(errno));
  gzbuffer(static_cast<gzFile>(file_), kPiece);
}

ByteSink::~ByteSink() {
  if (file_ != nullptr) gzclose(static_cast<gzFile>(file_));
}

void ByteSink::write(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t written = gzfwrite(bytes.data(), 1, bytes.size(), static_cast<gzFile>(file_));
  require(written == bytes.size(), "{}: cannot write: {}", path_, std::strerror(errno));
}

void ByteSink::finish() {
  const int status = gzclose(static_cast<gzFile>(std::exchange(file_, nullptr)));
  require(status == Z_OK, "{}: cannot write: {}", path_, std::strerror(errno));
  new_file_.keep();
}

}  // namespace tessera
