// The lines of a record file one after the other, of which a part of the file is in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// A regular file that is open for reading.
class OpenFile {
 public:
  /// Throws an Error for a file that cannot be read, and for a pipe or a device, which may never
  /// end.
  explicit OpenFile(std::string path);
  OpenFile(OpenFile&& other) noexcept;
  ~OpenFile();

  /// Reads up to `size` bytes from `offset` on; fewer only at the end of the file.
  std::size_t read(char* to, std::size_t size, std::uint64_t offset) const;

 private:
  std::string path_;
  int file_ = -1;
};

class LineReader {
 public:
  /// Throws an Error as OpenFile does.
  explicit LineReader(const std::string& path) : file_(path) {}

  /// Goes to the next line; false behind the last.
  bool next();

  std::string_view line() const { return line_; }  // until next()
  int number() const { return number_; }           // 1 for the first
  std::uint64_t offset() const { return offset_; }
  bool has_end() const { return has_end_; }  // false for a last line without its newline

 private:
  OpenFile file_;
  std::string buffer_;       // the file from `begin_` on
  std::uint64_t begin_ = 0;  // offset of the buffer
  std::size_t next_ = 0;     // place of the next line in it
  std::string_view line_ = {};
  std::uint64_t offset_ = 0;
  int number_ = 0;
  bool has_end_ = true;
};

}  // namespace tessera
