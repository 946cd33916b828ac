// Parallel reading of text files with exact line numbers: blocks of whole lines, and the fields of
// a line.
//
// The file is streamed through one buffer; each refill is cut at newlines into blocks that are
// parsed in parallel and consumed in file order. The first error in the file is reported, at any
// number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/io/byte_stream.hpp"

namespace tessera {

/// Throws the Error "name:line: message".
[[noreturn]] void fail_at(std::string_view name, std::int64_t line, std::string_view message);

/// Text for a message: shortened, with bytes outside printable ASCII as \xNN.
std::string printable(std::string_view text);

/// Whole lines of a file; each ends in a newline.
struct TextBlock {
  std::string_view text;
  std::string_view name;        // of the file, for messages
  std::int64_t first_line = 1;  // number of the first line, counted from 1
  std::int64_t num_lines = 0;

  std::int64_t line_of(const char* place) const;
};

/// The fields of one line, read from left to right. Every failure is an Error with the line number;
/// `what` names the expected field in it.
class Fields {
 public:
  Fields(const TextBlock& block, std::string_view line)
      : block_(&block), at_(line.data()), end_(line.data() + line.size()) {}
  /// A block of one line.
  explicit Fields(const TextBlock& line)
      : Fields(line, line.text.substr(0, line.text.size() - 1)) {}

  /// True when only blanks are left.
  bool done() {
    skip_blanks();
    return at_ == end_;
  }
  bool starts_with(char mark) {
    skip_blanks();
    return at_ != end_ && *at_ == mark;
  }
  std::string_view word(std::string_view what);
  std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }
  /// A decimal integer in [least, most].
  std::int64_t integer(std::string_view what, std::int64_t least, std::int64_t most);
  /// A number, rounded once from its decimal digits to FP32. Magnitudes too small for FP32 become
  /// zero.
  float real(std::string_view what);
  /// Number of the line in the file.
  std::int64_t line() const { return block_->line_of(at_); }
  /// Requires that only blanks are left.
  void finish();
  [[noreturn]] void fail(std::string_view message) const;

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  std::string_view rest_of_word() const;
  [[noreturn]] void fail_expected(std::string_view what) const;
  float extreme_real(std::string_view what, std::string_view digits);

  const TextBlock* block_;
  const char* at_;
  const char* end_;
};

/// Calls use(line) for each line of a block, without its newline.
template <class Use>
void for_every_line(const TextBlock& block, Use use) {
  const char* at = block.text.data();
  const char* end = at + block.text.size();
  while (at != end) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', end - at));
    Fields fields(block, {at, static_cast<std::size_t>(newline - at)});
    use(fields);
    at = newline + 1;
  }
}

/// Calls use(line) for each line that is not blank and does not start with the comment mark.
template <class Use>
void for_each_line(const TextBlock& block, char comment, Use use) {
  for_every_line(block, [&](Fields& fields) {
    if (!fields.done() && !fields.starts_with(comment)) use(fields);
  });
}

/// The number of the `index`-th line of the block among those that for_each_line visits.
std::int64_t line_of_entry(const TextBlock& block, char comment, std::int64_t index);

/// Streams a text file. A line longer than the limit is an Error: a small compressed file can hold
/// a line that fills any memory.
class TextReader {
 public:
  /// The limit of a line, in bytes with its newline, unless allow_line() raises it.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 24;

  /// `name` opens every message.
  TextReader(std::unique_ptr<ByteSource> bytes, std::string name);

  const std::string& name() const { return name_; }

  /// Raises the limit for the lines after those that were returned.
  void allow_line(std::size_t bytes) { longest_line_ = std::max(longest_line_, bytes); }

  /// The next line as a block of one, valid until the next call. Empty at the end of the file.
  std::optional<TextBlock> next_line();
  /// The next line that is neither blank nor starts with the comment mark.
  std::optional<TextBlock> next_line(char mark);

  /// The number of lines read so far.
  std::int64_t line() const { return line_; }
  [[noreturn]] void fail(std::string_view message) const { fail_at(name_, line_, message); }

  /// Reads the rest of the file: parse(block) runs in parallel, take(block, result) in file order.
  template <class Parse, class Take>
  void for_each_block(Parse parse, Take take);

 private:
  bool refill();
  /// Refuses the next line when it is longer than the limit.
  void check_length(std::size_t size) const;
  std::vector<TextBlock> next_blocks();
  TextBlock cut(std::size_t size);

  std::unique_ptr<ByteSource> bytes_;
  std::string name_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // unread text is buffer_[begin_, end_)
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::int64_t line_ = 0;
  std::size_t longest_line_ = kLongestLine;
};

template <class Parse, class Take>
void TextReader::for_each_block(Parse parse, Take take) {
  using Result = std::invoke_result_t<Parse, const TextBlock&>;
  while (true) {
    const std::vector<TextBlock> blocks = next_blocks();
    if (blocks.empty()) return;
    std::vector<Result> results(blocks.size());
    std::vector<std::exception_ptr> failures(blocks.size());
    parallel_for(static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t i, std::int64_t) {
      try {
        results[i] = parse(blocks[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (failures[i]) std::rethrow_exception(failures[i]);
      take(blocks[i], std::move(results[i]));
    }
  }
}

}  // namespace tessera
