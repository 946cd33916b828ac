// Matrix Market exchange format: R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market
// Exchange Formats: Initial Design", NISTIR 5935 (1996).
//
// Departures. Comment and blank lines are accepted everywhere below the banner, as most readers do.
// "hermitian" with real or integer values means symmetric. Complex values are refused. Entries
// above the diagonal of a symmetric file are refused, as the specification requires: mirroring them
// would double the values of files that store both triangles. The array form has no pattern of its
// own, so its zeros are not stored. A position that a pattern file names twice is still a one.
#include "formats/io/matrix_market.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "formats/base/registry.hpp"
#include "formats/io/entries.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/text_reader.hpp"

namespace tessera {
namespace {

constexpr char kComment = '%';
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLongestInteger = 999'999'999'999'999'999;  // 18 digits

enum class Field { kReal, kInteger, kPattern };
enum class Symmetry { kGeneral, kSymmetric, kSkew };

struct Header {
  bool array = false;
  Field field = Field::kReal;
  Symmetry symmetry = Symmetry::kGeneral;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t entries = 0;  // lines of the body
};

std::string lower(std::string_view word) {
  std::string low(word);
  for (char& c : low)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return low;
}

/// The place of the line's next word in `known`, else an Error that lists them.
template <std::size_t n>
std::size_t choose(Fields& line, std::string_view what, const std::array<std::string, n>& known) {
  const std::string word = lower(line.word(what));
  const auto found = std::ranges::find(known, word);
  if (found == known.end())
    line.fail(fmt::format("unknown {} '{}'; expected one of {}", what, printable(word),
                          fmt::join(known, ", ")));
  return static_cast<std::size_t>(found - known.begin());
}

void parse_banner(TextReader& reader, Header& header) {
  const auto block = reader.next_line();
  if (!block) fail_at(reader.name(), 1, "the file is empty; expected a %%MatrixMarket banner");
  Fields line(*block);
  if (line.done() || lower(line.word("banner")) != "%%matrixmarket")
    line.fail(fmt::format("expected a line '%%MatrixMarket matrix ...', not '{}'",
                          printable(block->text.substr(0, block->text.size() - 1))));
  choose<1>(line, "object", {"matrix"});
  header.array = choose<2>(line, "layout", {"coordinate", "array"}) == 1;
  const std::size_t field =
      choose<5>(line, "field", {"real", "integer", "pattern", "double", "complex"});
  if (field == 4)
    throw Unsupported(
        fmt::format("{}:{}: complex values are not supported: products are computed "
                    "in real arithmetic",
                    reader.name(), block->first_line));
  header.field = field == 1 ? Field::kInteger : field == 2 ? Field::kPattern : Field::kReal;
  const std::size_t symmetry =
      choose<4>(line, "symmetry", {"general", "symmetric", "skew-symmetric", "hermitian"});
  header.symmetry = symmetry == 0   ? Symmetry::kGeneral
                    : symmetry == 2 ? Symmetry::kSkew
                                    : Symmetry::kSymmetric;
  line.finish();
  if (header.field == Field::kPattern && (header.array || header.symmetry == Symmetry::kSkew))
    line.fail("a pattern can be neither an array nor skew-symmetric: it has no values");
}

/// Lines of an array body: a triangle is stored by columns, without the diagonal when skew.
std::int64_t array_entries(const Header& header) {
  const std::int64_t n = header.rows;
  if (header.symmetry == Symmetry::kGeneral) return n * header.cols;
  return header.symmetry == Symmetry::kSkew ? n * (n - 1) / 2 : n * (n + 1) / 2;
}

Header parse_header(TextReader& reader) {
  Header header;
  parse_banner(reader, header);
  const auto block = reader.next_line(kComment);
  if (!block) reader.fail("the file ends in its header; expected the line of sizes");
  Fields line(*block);
  header.rows = line.integer("number of rows", 0, kMostRows);
  header.cols = line.integer("number of columns", 0, kMostRows);
  header.entries =
      header.array ? array_entries(header) : line.integer("number of entries", 0, kLongestInteger);
  line.finish();
  if (header.symmetry != Symmetry::kGeneral && header.rows != header.cols)
    line.fail(
        fmt::format("a symmetric matrix must be square, not {} x {}", header.rows, header.cols));
  return header;
}

float parse_value(Fields& line, Field field) {
  if (field == Field::kReal) return line.real("value");
  return static_cast<float>(line.integer("integer value", -kLongestInteger, kLongestInteger));
}

void require_triangle(const Fields& line, Symmetry symmetry, std::int64_t row, std::int64_t col) {
  if (symmetry == Symmetry::kSymmetric && row < col)
    line.fail(
        fmt::format("row {}, column {} is above the diagonal; expected a symmetric matrix to "
                    "store its lower triangle only",
                    row, col));
  if (symmetry == Symmetry::kSkew && row <= col)
    line.fail(
        fmt::format("row {}, column {} is not below the diagonal; expected a skew-symmetric "
                    "matrix to store its strict lower triangle only",
                    row, col));
}

EntryBlock parse_coordinates(const TextBlock& block, const Header& header) {
  EntryBlock out;
  out.rows.reserve(block.num_lines);
  out.cols.reserve(block.num_lines);
  if (header.field != Field::kPattern) out.values.reserve(block.num_lines);
  for_each_line(block, kComment, [&](Fields& line) {
    const std::int64_t row = line.integer("row index", 1, header.rows);
    const std::int64_t col = line.integer("column index", 1, header.cols);
    if (header.field != Field::kPattern) out.values.push_back(parse_value(line, header.field));
    line.finish();
    if (header.symmetry != Symmetry::kGeneral) require_triangle(line, header.symmetry, row, col);
    out.rows.push_back(static_cast<std::int32_t>(row - 1));
    out.cols.push_back(static_cast<std::int32_t>(col - 1));
  });
  return out;
}

/// Adds up the lines of the body and refuses the first one too many.
class EntryCount {
 public:
  explicit EntryCount(std::int64_t expected) : expected_(expected) {}

  void add(const TextBlock& block, std::int64_t entries) {
    if (entries > expected_ - seen_)
      fail_at(block.name, line_of_entry(block, kComment, expected_ - seen_),
              fmt::format("expected the end of the file after {} entries, as the header says",
                          expected_));
    seen_ += entries;
  }
  void finish(const TextReader& reader) const {
    if (seen_ != expected_)
      reader.fail(fmt::format("the file ends after {} entries; expected {}, as the header says",
                              seen_, expected_));
  }
  std::int64_t seen() const { return seen_; }

 private:
  std::int64_t expected_;
  std::int64_t seen_ = 0;
};

std::vector<EntryBlock> parse_coordinate_body(TextReader& reader, const Header& header) {
  std::vector<EntryBlock> blocks;
  EntryCount count(header.entries);
  reader.for_each_block([&](const TextBlock& block) { return parse_coordinates(block, header); },
                        [&](const TextBlock& block, EntryBlock entries) {
                          count.add(block, entries.size());
                          blocks.push_back(std::move(entries));
                        });
  count.finish(reader);
  return blocks;
}

std::vector<EntryBlock> parse_array_body(TextReader& reader, const Header& header) {
  const auto parse = [&](const TextBlock& block) {
    std::vector<float> values;
    values.reserve(block.num_lines);
    for_each_line(block, kComment, [&](Fields& line) {
      values.push_back(parse_value(line, header.field));
      line.finish();
    });
    return values;
  };
  const auto first_row = [&](std::int64_t col) {
    return header.symmetry == Symmetry::kGeneral ? 0
           : header.symmetry == Symmetry::kSkew  ? col + 1
                                                 : col;
  };

  std::vector<EntryBlock> blocks;
  EntryCount count(header.entries);
  std::int64_t col = 0, row = first_row(0);
  reader.for_each_block(parse, [&](const TextBlock& block, const std::vector<float>& values) {
    count.add(block, static_cast<std::int64_t>(values.size()));
    EntryBlock out;
    for (const float value : values) {
      while (row >= header.rows) row = first_row(++col);
      if (value != 0) {
        out.rows.push_back(static_cast<std::int32_t>(row));
        out.cols.push_back(static_cast<std::int32_t>(col));
        out.values.push_back(value);
      }
      ++row;
    }
    blocks.push_back(std::move(out));
  });
  count.finish(reader);
  return blocks;
}

// --- writing -------------------------------------------------------------------------------------

/// The shortest digits that give the same float back.
void append_number(std::string& text, auto number) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

class MatrixMarket final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override { return {".mtx", ".mtx.gz"}; }

  CsrMatrix read(const std::string& path) const override {
    return parse_matrix_market(open_bytes(path), path);
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    const bool pattern = is_pattern(matrix);
    ByteSink sink(path);
    sink.write(fmt::format("%%MatrixMarket matrix coordinate {} general\n{} {} {}\n",
                           pattern ? "pattern" : "real", matrix.rows, matrix.cols, matrix.nnz()));
    std::string text;
    for (std::int32_t row = 0; row < matrix.rows; ++row) {
      text.clear();
      for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
        append_number(text, row + std::int64_t{1});
        text += ' ';
        append_number(text, matrix.col_indices[k] + std::int64_t{1});
        if (!pattern) append_number(text += ' ', matrix.values[k]);
        text += '\n';
      }
      sink.write(text);
    }
    sink.finish();
  }
};

const Register<MatrixFile> entry{{
    .name = "matrix_market",
    .summary = "Matrix Market .mtx and .mtx.gz: coordinate and array; real, integer and pattern",
    .make = [](const Params&) { return std::make_unique<MatrixMarket>(); },
}};

}  // namespace

CsrMatrix parse_matrix_market(std::unique_ptr<ByteSource> bytes, const std::string& name) {
  TextReader reader(std::move(bytes), name);
  const Header header = parse_header(reader);
  Entries entries;
  entries.rows = static_cast<std::int32_t>(header.rows);
  entries.cols = static_cast<std::int32_t>(header.cols);
  entries.pattern = header.field == Field::kPattern;
  entries.mirror = header.symmetry == Symmetry::kGeneral ? Mirror::kNone
                   : header.symmetry == Symmetry::kSkew  ? Mirror::kNegated
                                                         : Mirror::kSame;
  entries.blocks =
      header.array ? parse_array_body(reader, header) : parse_coordinate_body(reader, header);
  return build_csr(std::move(entries), name);
}

}  // namespace tessera
