// METIS graph files: "n m [fmt [ncon]]", then one line per vertex with its neighbours, counted from
// 1; each undirected edge is listed at both ends (G. Karypis, "METIS 5.1.0: A Software Package for
// Partitioning ...", user's guide, section 4.1.1). fmt is up to three digits: vertex sizes, vertex
// weights (ncon of them), edge weights. An empty line is an isolated vertex; % opens a comment.
//
// Edge weights become the values, ones without them; vertex sizes and weights are checked and
// dropped. Self-loops and repeated edges, which METIS does not know, are refused.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "formats/base/registry.hpp"
#include "formats/io/entries.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/text_reader.hpp"

namespace tessera {
namespace {

constexpr char kComment = '%';
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

struct Header {
  std::int64_t vertices = 0;
  std::int64_t edges = 0;
  bool edge_weights = false;
  std::int64_t vertex_numbers = 0;  // sizes and weights before the neighbours
};

Header parse_header(TextReader& reader) {
  const auto block = reader.next_line(kComment);
  if (!block)
    fail_at(reader.name(), 1, "the file is empty; expected numbers of vertices and edges");
  Fields line(*block);
  Header header;
  header.vertices = line.integer("number of vertices", 0, kMost);
  header.edges = line.integer("number of edges", 0, std::int64_t{1} << 48);
  if (line.done()) return header;
  const std::string_view format = line.word("format");
  if (format.size() > 3 || format.find_first_not_of("01") != std::string_view::npos)
    line.fail(fmt::format("format '{}'; expected up to three digits 0 or 1", printable(format)));
  const auto digit = [&](std::size_t from_right) {
    return format.size() > from_right && format[format.size() - 1 - from_right] == '1';
  };
  constexpr std::int64_t kMostConstraints = 1 << 10;
  const std::int64_t weights =
      line.done() ? 1 : line.integer("number of vertex weights", 1, kMostConstraints);
  line.finish();
  header.edge_weights = digit(0);
  header.vertex_numbers = (digit(1) ? weights : 0) + (digit(2) ? 1 : 0);
  return header;
}

/// The header; the reader then takes lines as long as its vertices can need.
Header start(TextReader& reader) {
  constexpr std::int64_t kBytesPerNumber = 16;  // at most 10 digits
  constexpr std::int64_t kLongestLine = std::int64_t{1} << 30;
  const Header header = parse_header(reader);
  const std::int64_t neighbours = std::min(header.vertices, header.edges);
  const std::int64_t numbers = header.vertex_numbers + neighbours * (header.edge_weights ? 2 : 1);
  reader.allow_line(static_cast<std::size_t>(std::min(numbers * kBytesPerNumber, kLongestLine)));
  return header;
}

/// Vertex lines of a block; rows count from its first vertex.
struct Parsed {
  EntryBlock entries;
  std::int64_t vertices = 0;    // lines
  std::int64_t last_used = -1;  // the last line that is not blank
};

void require_distinct(const Fields& line, std::span<const std::int32_t> neighbours) {
  std::vector<std::int32_t> sorted(neighbours.begin(), neighbours.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    line.fail(fmt::format("neighbour {} is listed twice; expected distinct ones", *twice + 1));
}

void parse_vertex(Fields& line, const Header& header, std::int32_t row, EntryBlock& out) {
  for (std::int64_t k = 0; k < header.vertex_numbers; ++k) line.integer("vertex weight", 0, kMost);
  const std::size_t first = out.cols.size();
  while (!line.done()) {
    const std::int64_t neighbour = line.integer("neighbour", 1, header.vertices);
    if (header.edge_weights)
      out.values.push_back(static_cast<float>(line.integer("edge weight", 1, kMost)));
    out.rows.push_back(row);
    out.cols.push_back(static_cast<std::int32_t>(neighbour - 1));
  }
  require_distinct(line, std::span(out.cols).subspan(first));
}

Parsed parse_block(const TextBlock& block, const Header& header) {
  constexpr std::int64_t kBytesPerNeighbour = 6;  // about; only a first guess of the memory
  Parsed out;
  const auto guess = static_cast<std::int64_t>(block.text.size()) / kBytesPerNeighbour;
  out.entries.rows.reserve(guess);
  out.entries.cols.reserve(guess);
  for_every_line(block, [&](Fields& line) {
    if (line.starts_with(kComment)) return;
    if (!line.done()) out.last_used = out.vertices;
    // A blank line behind the last vertex has no weights; a vertex line must have them.
    if (!line.done() || out.vertices < header.vertices)
      parse_vertex(line, header, static_cast<std::int32_t>(out.vertices), out.entries);
    ++out.vertices;
  });
  return out;
}

/// Number of the line that lists the vertex's neighbours.
std::int64_t line_of_vertex(const std::string& path, std::int64_t vertex) {
  TextReader reader(open_bytes(path), path);
  start(reader);
  for (std::int64_t seen = -1; seen < vertex;) {
    const auto block = reader.next_line();
    if (!block) break;
    if (!Fields(*block).starts_with(kComment)) ++seen;
  }
  return reader.line();
}

/// Refuses self-loops and edges that are listed at one end only or with two weights.
void require_undirected(const CsrMatrix& matrix, const std::string& path) {
  const CsrMatrix mirrored = transpose(matrix);
  for (std::int32_t row = 0; row < matrix.rows; ++row) {
    const auto cols = matrix.row_cols(row), back = mirrored.row_cols(row);
    if (std::ranges::binary_search(cols, row))
      fail_at(path, line_of_vertex(path, row),
              fmt::format("vertex {} lists itself; expected no self-loops", row + 1));
    const auto [here, there] = std::ranges::mismatch(cols, back);
    if (here != cols.end() && (there == back.end() || *here < *there))
      fail_at(path, line_of_vertex(path, row),
              fmt::format("vertex {} lists vertex {}; expected {} to list {} as well", row + 1,
                          *here + 1, *here + 1, row + 1));
    if (there != back.end())
      fail_at(path, line_of_vertex(path, row),
              fmt::format("vertex {} does not list vertex {}; expected it, as {} lists {}", row + 1,
                          *there + 1, *there + 1, row + 1));
    if (!std::ranges::equal(matrix.row_values(row), mirrored.row_values(row)))
      fail_at(path, line_of_vertex(path, row),
              fmt::format("an edge of vertex {} has another weight at its other end", row + 1));
  }
}

/// A pattern, or positive integers that FP32 holds exactly: what edge weights can be.
bool has_graph_values(const CsrMatrix& matrix) {
  return std::ranges::all_of(matrix.values,
                             [](float v) { return v >= 1 && v <= 0x1p24f && v == std::floor(v); });
}

class MetisGraph final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override { return {".graph", ".graph.gz"}; }

  CsrMatrix read(const std::string& path) const override {
    TextReader reader(open_bytes(path), path);
    const Header header = start(reader);
    Entries entries;
    entries.rows = entries.cols = static_cast<std::int32_t>(header.vertices);
    std::int64_t vertices = 0, neighbours = 0;
    reader.for_each_block(
        [&](const TextBlock& block) { return parse_block(block, header); },
        [&](const TextBlock& block, Parsed parsed) {
          if (vertices + parsed.last_used >= header.vertices)
            fail_at(path, block.first_line + block.num_lines - 1,
                    fmt::format("expected {} vertex lines, as the header says, but more follow",
                                header.vertices));
          for (std::int32_t& row : parsed.entries.rows) row += static_cast<std::int32_t>(vertices);
          vertices += parsed.vertices;
          neighbours += parsed.entries.size();
          entries.blocks.push_back(std::move(parsed.entries));
        });
    if (vertices < header.vertices)
      reader.fail(
          fmt::format("the file ends after {} vertex lines; expected {}, as the header says",
                      vertices, header.vertices));
    if (neighbours != 2 * header.edges)
      reader.fail(
          fmt::format("the vertices list {} neighbours; expected {}, both ends of the {} "
                      "edges of the header",
                      neighbours, 2 * header.edges, header.edges));
    CsrMatrix matrix = build_csr(std::move(entries), path);
    require_undirected(matrix, path);
    return matrix;
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    require<Unsupported>(has_graph_values(matrix),
                         "{}: a METIS graph holds positive integer weights only", path);
    require<Unsupported>(matrix.rows == matrix.cols && transpose(matrix) == matrix,
                         "{}: a METIS graph is undirected, and this matrix is not symmetric", path);
    for (std::int32_t row = 0; row < matrix.rows; ++row)
      require<Unsupported>(!std::ranges::binary_search(matrix.row_cols(row), row),
                           "{}: a METIS graph has no self-loops, and row {} has a diagonal entry",
                           path, row);
    const bool weighted = !is_pattern(matrix);
    ByteSink sink(path);
    sink.write(fmt::format("{} {}{}\n", matrix.rows, matrix.nnz() / 2, weighted ? " 001" : ""));
    for (std::int32_t row = 0; row < matrix.rows; ++row) {
      std::string line;
      for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
        if (!line.empty()) line += ' ';
        line += std::to_string(matrix.col_indices[k] + std::int64_t{1});
        if (weighted) line += fmt::format(" {}", static_cast<std::int64_t>(matrix.values[k]));
      }
      sink.write(line += '\n');
    }
    sink.finish();
  }
};

const Register<MatrixFile> entry{{
    .name = "metis",
    .summary = "METIS .graph: undirected, edge weights become values",
    .make = [](const Params&) { return std::make_unique<MetisGraph>(); },
}};

}  // namespace
}  // namespace tessera
