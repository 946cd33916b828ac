// The .smtx files of the Deep Learning Matrix Collection (T. Gale, M. Zaharia, C. Young, E. Elsen,
// "Sparse GPU Kernels for Deep Learning", SC 2020): three lines with "rows, cols, nnz", the row
// offsets and the column indices. There are no values; every nonzero is a one.
//
// The lines are as long as the matrix, so the numbers are streamed one by one, not line by line.
#include <limits>

#include "formats/base/registry.hpp"
#include "formats/io/entries.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/text_reader.hpp"

namespace tessera {
namespace {

/// The numbers of a file, read one by one, and the ends of its lines.
class NumberStream {
 public:
  explicit NumberStream(const std::string& path)
      : path_(path), bytes_(open_bytes(path)), buffer_(1 << 16) {}

  /// The next number of this line, in [least, most].
  std::int64_t next(std::string_view what, std::int64_t least, std::int64_t most) {
    skip_blanks();
    std::string word;
    for (; at_word(); advance())
      if (word.size() < kLongestWord) word += static_cast<char>(peek());
    const TextBlock block{word, path_, line_, 1};
    return Fields(block, word).integer(what, least, most);
  }

  /// Requires the end of the line or the file and moves past it.
  void finish_line(std::string_view what) {
    skip_blanks();
    if (at_word())
      fail_at(path_, line_, fmt::format("more numbers than the header says; expected {}", what));
    if (peek() == '\n') {
      advance();
      ++line_;
    }
  }

  /// Requires that nothing but blank lines is left.
  void finish_file() {
    while (peek() != kEnd) finish_line("the end of the file");
  }

 private:
  static constexpr int kEnd = -1;
  static constexpr std::size_t kLongestWord = 64;

  int peek() {
    if (at_ == size_ && !at_end_) {
      size_ = bytes_->read(buffer_);
      at_end_ = size_ < buffer_.size();
      at_ = 0;
    }
    return at_ == size_ ? kEnd : static_cast<unsigned char>(buffer_[at_]);
  }
  void advance() { ++at_; }
  bool at_word() {
    const int c = peek();
    return c != kEnd && c != ' ' && c != '\t' && c != '\r' && c != ',' && c != '\n';
  }
  void skip_blanks() {
    while (peek() != kEnd && peek() != '\n' && !at_word()) advance();
  }

  std::string path_;
  std::unique_ptr<ByteSource> bytes_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  bool at_end_ = false;
  std::int64_t line_ = 1;
};

class Smtx final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override { return {".smtx"}; }

  CsrMatrix read(const std::string& path) const override {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    NumberStream numbers(path);
    const auto rows = static_cast<std::int32_t>(numbers.next("number of rows", 0, kMost - 1));
    const auto cols = static_cast<std::int32_t>(numbers.next("number of columns", 0, kMost));
    const std::int64_t nnz = numbers.next("number of nonzeros", 0, std::int64_t{1} << 48);
    numbers.finish_line("the end of the line of sizes");

    // The array grows with the data read, not with the header's claim.
    std::vector<std::int64_t> offsets{numbers.next("first row offset", 0, 0)};
    for (std::int32_t row = 0; row < rows; ++row)
      offsets.push_back(numbers.next("next row offset", offsets.back(), nnz));
    if (offsets.back() != nnz)
      fail_at(path, 2,
              fmt::format("the last row offset is {}; expected {}, the number of nonzeros",
                          offsets.back(), nnz));
    numbers.finish_line("the end of the line of row offsets");

    std::vector<std::int32_t> indices;
    for (std::int64_t k = 0; k < nnz; ++k)
      indices.push_back(
          static_cast<std::int32_t>(numbers.next("column index", 0, std::int64_t{cols} - 1)));
    numbers.finish_line("the end of the line of column indices");
    numbers.finish_file();
    std::vector<float> ones(indices.size(), 1.0f);
    return finish_rows(rows, cols, std::move(offsets), std::move(indices), std::move(ones), true,
                       path);
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    require<Unsupported>(is_pattern(matrix),
                         "{}: .smtx files hold no values, and this matrix has some", path);
    ByteSink sink(path);
    sink.write(fmt::format("{}, {}, {}\n", matrix.rows, matrix.cols, matrix.nnz()));
    write_line(sink, matrix.row_offsets);
    write_line(sink, matrix.col_indices);
    sink.finish();
  }

 private:
  template <class T>
  static void write_line(ByteSink& sink, const Array<T>& numbers) {
    for (std::size_t k = 0; k < numbers.size(); ++k)
      sink.write(fmt::format("{}{}", k == 0 ? "" : " ", numbers[k]));
    sink.write("\n");
  }
};

const Register<MatrixFile> entry{{
    .name = "smtx",
    .summary = "DLMC .smtx: row offsets and column indices, values one",
    .make = [](const Params&) { return std::make_unique<Smtx>(); },
}};

}  // namespace
}  // namespace tessera
