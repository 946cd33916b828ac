// Bytes in and out of files, whatever they are wrapped in: plain, gzip (RFC 1952), tar and zip.
//
// gzip goes through zlib, not through libarchive's filter, because only zlib checks the checksum
// and length at the end of the data and lets us refuse bytes that follow it. tar and zip are
// libarchive's; a compressed tar reads its bytes from the gzip stream here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct archive;

namespace tessera {

/// Bytes from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills the buffer and returns how much of it; less than its size only at the end of the data.
  /// Throws an Error that names the file when the data is unreadable, truncated or damaged.
  virtual std::size_t read(std::span<char> buffer) = 0;
};

/// The bytes of a file, decompressed when it starts like a gzip file, whatever it is called.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// The members of a tar (possibly gzipped) or zip file, one after another.
class ArchiveReader final : public ByteSource {
 public:
  enum class Kind { kTar, kZip };
  ArchiveReader(const std::string& path, Kind kind);
  ~ArchiveReader() override;
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Steps to the next regular file; false at the end.
  bool next();
  const std::string& member() const { return member_; }
  std::size_t read(std::span<char> buffer) override;
  /// Reads whatever is left: the checksum of a gzipped archive comes after all of its members.
  void finish();

 private:
  struct Feed;
  void fail(std::string_view doing) const;

  std::string path_;
  std::string member_;
  std::unique_ptr<Feed> feed_;  // the gzip stream under a tar file
  archive* archive_;
};

/// Writes a file, gzipped when its name ends in ".gz". Nothing is sure before finish() returns.
class ByteSink {
 public:
  explicit ByteSink(const std::string& path);
  ~ByteSink();
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  std::string path_;
  void* file_;  // a gzFile, which zlib declares through a macro
};

}  // namespace tessera
