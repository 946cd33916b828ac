// Reading and writing bytes of plain, gzip (RFC 1952), tar and zip files.
//
// zlib reads gzip, not libarchive's filter: only zlib checks the checksum and length at the end of
// the data and lets us refuse bytes that follow it. libarchive reads tar and zip; a compressed tar
// gets its bytes from the gzip stream here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/io/new_file.hpp"

struct archive;

namespace tessera {

/// A source of bytes, read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills the buffer and returns the number of bytes read, less than its size only at the end of
  /// the data. Throws an Error that names the file when the data is unreadable, truncated or
  /// damaged.
  virtual std::size_t read(std::span<char> buffer) = 0;
};

/// The bytes of a file, decompressed when its first bytes are those of gzip; the name is ignored.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// The members of a tar (possibly gzipped) or zip file, one after another.
class ArchiveReader final : public ByteSource {
 public:
  enum class Kind { kTar, kZip };
  ArchiveReader(const std::string& path, Kind kind);
  ~ArchiveReader() override;
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Moves to the next regular file; false at the end.
  bool next();
  /// Its name, escaped (escaped.hpp): it goes into messages.
  const std::string& member() const { return member_; }
  std::size_t read(std::span<char> buffer) override;
  /// Reads to the end: the checksum of a gzipped archive follows its members.
  void finish();

 private:
  struct Feed;
  void fail(std::string_view doing) const;

  std::string path_;
  std::string member_;
  std::unique_ptr<Feed> feed_;  // the gzip stream under a tar file
  archive* archive_;
};

/// Writes a file, gzipped when its name ends in ".gz". It takes its place, whole, when finish()
/// returns. Errors name the path.
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
  NewFile new_file_;
  void* file_;  // a gzFile, which zlib declares through a macro
};

}  // namespace tessera
