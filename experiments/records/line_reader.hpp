// The lines of a record file one after the other, of which a part of the file is in memory.
#pragma once

#include <cstdint>
#include <limits>
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

  const std::string& path() const { return path_; }
  std::uint64_t size() const;  // now; writers extend it

 private:
  std::string path_;
  int file_ = -1;
};

/// A part of a file, in bytes: the lines that begin in it.
struct FilePiece {
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
};

class LineReader {
 public:
  /// Throws an Error as OpenFile does.
  explicit LineReader(const std::string& path, const FilePiece& piece = {});

  /// Goes to the next line of the piece; false behind the last.
  bool next();

  std::string_view line() const { return line_; }  // until next()
  const std::string& path() const { return file_.path(); }
  /// Of the line in its file, 1 for the first; takes as long as reading all before the piece.
  int number() const;
  std::uint64_t offset() const { return offset_; }
  bool has_end() const { return has_end_; }  // false for a last line without its newline

 private:
  OpenFile file_;
  FilePiece piece_;
  std::string buffer_;       // the file from `begin_` on
  std::uint64_t begin_ = 0;  // offset of the buffer
  std::size_t next_ = 0;     // place of the next line in it
  std::string_view line_ = {};
  std::uint64_t offset_ = 0;
  int number_ = 0;  // in the piece
  bool has_end_ = true;
};

}  // namespace tessera
