// SNAP edge lists: one "from to" pair of node numbers a line, separated by tabs or spaces, comments
// marked # (or %, as other collections do), among them "# Nodes: N Edges: E" (J. Leskovec and
// A. Krevl, "SNAP Datasets", https://snap.stanford.edu/data).
//
// Decisions. An edge is one entry, in the listed direction: what the headers say about direction is
// not reliable. Node numbers are kept, so the matrix has max(N, largest number + 1) rows; unused
// numbers are empty rows, and a list with too many of them is refused. E must
// be the number of edge lines and N at least the number of nodes that occur. An edge listed twice
// is still a one. A third column is refused: it may be a weight or a time, and the file does not
// say.
#include <algorithm>
#include <limits>
#include <optional>

#include "formats/base/registry.hpp"
#include "formats/io/entries.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/text_reader.hpp"

namespace tessera {
namespace {

struct Promise {
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  std::int64_t line = 0;
};

struct Parsed {
  EntryBlock edges;
  std::optional<Promise> promise;
};

/// The number after `label` in a comment.
std::optional<std::int64_t> labelled(const TextBlock& block, std::string_view comment,
                                     std::string_view label, std::int64_t most) {
  const std::size_t place = comment.find(label);
  if (place == std::string_view::npos) return std::nullopt;
  Fields number(block, comment.substr(place + label.size()));
  const std::string_view digits = number.word(fmt::format("number after '{}'", label));
  Fields field(block, digits);
  return field.integer(fmt::format("number after '{}'", label), 0, most);
}

std::optional<Promise> parse_comment(const TextBlock& block, const Fields& line) {
  const auto nodes =
      labelled(block, line.rest(), "Nodes:", std::numeric_limits<std::int32_t>::max());
  const auto edges = labelled(block, line.rest(), "Edges:", std::int64_t{1} << 48);
  if (!nodes || !edges) return std::nullopt;
  return Promise{*nodes, *edges, line.line()};
}

Parsed parse_block(const TextBlock& block) {
  constexpr std::int64_t kMostNode = std::numeric_limits<std::int32_t>::max() - 1;
  Parsed out;
  out.edges.rows.reserve(block.num_lines);
  out.edges.cols.reserve(block.num_lines);
  for_every_line(block, [&](Fields& line) {
    if (line.done()) return;
    if (line.starts_with('#') || line.starts_with('%')) {
      if (const auto promise = parse_comment(block, line)) out.promise = promise;
      return;
    }
    const std::int64_t from = line.integer("first node", 0, kMostNode);
    const std::int64_t to = line.integer("second node", 0, kMostNode);
    line.finish();
    out.edges.rows.push_back(static_cast<std::int32_t>(from));
    out.edges.cols.push_back(static_cast<std::int32_t>(to));
  });
  return out;
}

std::int64_t count_nodes(const Entries& entries) {
  std::vector<bool> used(entries.rows);
  for (const EntryBlock& block : entries.blocks) {
    for (const std::int32_t node : block.rows) used[node] = true;
    for (const std::int32_t node : block.cols) used[node] = true;
  }
  return std::ranges::count(used, true);
}

class EdgeList final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override {
    return {".txt", ".txt.gz", ".edges", ".edges.gz", ".el", ".el.gz"};
  }

  CsrMatrix read(const std::string& path) const override {
    TextReader reader(open_bytes(path), path);
    Entries entries;
    entries.pattern = true;
    std::optional<Promise> promise;
    std::int64_t edges = 0, nodes = 0;
    reader.for_each_block(parse_block, [&](const TextBlock&, Parsed parsed) {
      if (parsed.promise) promise = parsed.promise;
      edges += parsed.edges.size();
      for (const auto* ends : {&parsed.edges.rows, &parsed.edges.cols})
        for (const std::int32_t node : *ends) nodes = std::max(nodes, node + std::int64_t{1});
      entries.blocks.push_back(std::move(parsed.edges));
    });
    if (edges == 0 && !promise)
      fail_at(path, std::max<std::int64_t>(1, reader.line()),
              "the file holds no edges; expected lines of two node numbers");
    if (promise) {
      if (edges != promise->edges)
        reader.fail(fmt::format("the file holds {} edges; expected {}, as line {} says", edges,
                                promise->edges, promise->line));
      nodes = std::max(nodes, promise->nodes);
    }
    require_plausible_rows(nodes, edges, path);
    entries.rows = entries.cols = static_cast<std::int32_t>(nodes);
    if (promise) {
      const std::int64_t used = count_nodes(entries);
      if (used > promise->nodes)
        reader.fail(fmt::format("the edges join {} nodes; expected at most {}, as line {} says",
                                used, promise->nodes, promise->line));
    }
    return build_csr(std::move(entries), path);
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    require<Unsupported>(matrix.rows == matrix.cols && is_pattern(matrix),
                         "{}: an edge list has no values and one set of nodes; this matrix is {} x "
                         "{}{}",
                         path, matrix.rows, matrix.cols, is_pattern(matrix) ? "" : " with values");
    ByteSink sink(path);
    sink.write(
        fmt::format("# Nodes: {} Edges: {}\n# FromNodeId\tToNodeId\n", matrix.rows, matrix.nnz()));
    fmt::memory_buffer text;
    for (std::int32_t row = 0; row < matrix.rows; ++row) {
      text.clear();
      for (const std::int32_t col : matrix.row_cols(row))
        fmt::format_to(std::back_inserter(text), "{}\t{}\n", row, col);
      sink.write({text.data(), text.size()});
    }
    sink.finish();
  }
};

const Register<MatrixFile> entry{{
    .name = "edge_list",
    .summary = "SNAP edge lists .txt, .edges, .el and .gz of them: node numbers kept, values one",
    .make = [](const Params&) { return std::make_unique<EdgeList>(); },
}};

}  // namespace
}  // namespace tessera
