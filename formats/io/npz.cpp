// SciPy's sparse .npz (scipy.sparse.save_npz: a zip of NumPy arrays; CSR, CSC and COO) and, in the
// same container, the dialect of GNN data sets: edge endpoints `src_li`, `dst_li` and `num_nodes`,
// or `num_nodes_src` and `num_nodes_dst` for bipartite graphs.
//
// Departures. Index arrays may be unsorted and hold duplicates, as in SciPy; the result is sorted
// and summed. A GNN edge runs from row src to column dst; one given twice is still a one. Members
// with other names are skipped. DIA and BSR are refused.
#include <archive.h>
#include <archive_entry.h>

#include <map>
#include <optional>

#include "formats/base/registry.hpp"
#include "formats/io/entries.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/new_file.hpp"
#include "formats/io/npy.hpp"

namespace tessera {
namespace {

using Indices = std::vector<std::int32_t>;

/// The arrays of the file with known names.
struct Members {
  std::string path;
  std::map<std::string, Indices, std::less<>> indices;  // indices, row, col, src_li, dst_li
  std::map<std::string, std::vector<std::int64_t>, std::less<>> integers;  // indptr, shape, num_*
  std::optional<std::string> format;
  std::optional<std::vector<float>> data;

  template <class Map>
  auto take(Map& map, std::string_view name) {
    const auto found = map.find(name);
    require(found != map.end(), "{}: no array '{}'", path, name);
    return std::move(found->second);
  }
  std::int64_t number(std::string_view name) {
    const auto values = take(integers, name);
    require(values.size() == 1, "{}: '{}' holds {} numbers; expected one", path, name,
            values.size());
    return values[0];
  }
};

Members read_members(const std::string& path) {
  Members members;
  members.path = path;
  ArchiveReader zip(path, ArchiveReader::Kind::kZip);
  while (zip.next()) {
    if (!zip.member().ends_with(".npy")) continue;
    const std::string name = zip.member().substr(0, zip.member().size() - 4);
    const std::string where = fmt::format("{}: {}", path, name);
    bool is_new = true;
    if (name == "indices" || name == "row" || name == "col" || name == "src_li" || name == "dst_li")
      is_new = members.indices.try_emplace(name, NpyReader(zip, where).indices()).second;
    else if (name == "indptr" || name == "shape" || name == "num_nodes" ||
             name == "num_nodes_src" || name == "num_nodes_dst")
      is_new = members.integers.try_emplace(name, NpyReader(zip, where).offsets()).second;
    else if (name == "data")
      is_new = !std::exchange(members.data, NpyReader(zip, where).values());
    else if (name == "format")
      is_new = !std::exchange(members.format, NpyReader(zip, where).text());
    require(is_new, "{}: array '{}' occurs twice", path, name);
  }
  return members;
}

std::int32_t extent(const std::string& path, std::string_view what, std::int64_t value) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require(value >= 0 && value <= kMost, "{}: {} {}; expected 0 to {}", path, value, what, kMost);
  return static_cast<std::int32_t>(value);
}

void require_range(const std::string& path, std::string_view name, const Indices& indices,
                   std::int32_t below) {
  for (std::size_t k = 0; k < indices.size(); ++k)
    require(indices[k] >= 0 && indices[k] < below, "{}: {}[{}] = {}, outside [0, {})", path, name,
            k, indices[k], below);
}

void require_length(const std::string& path, std::string_view name, std::size_t length,
                    std::int64_t expected, std::string_view because) {
  require(static_cast<std::int64_t>(length) == expected,
          "{}: '{}' holds {} numbers; expected {}, {}", path, name, length, expected, because);
}

/// The CSR arrays of the file; for CSC they are those of the transpose.
CsrMatrix compressed_rows(Members& members, std::int32_t rows, std::int32_t cols) {
  const std::string& path = members.path;
  std::vector<std::int64_t> offsets = members.take(members.integers, "indptr");
  Indices indices = members.take(members.indices, "indices");
  require_length(path, "indptr", offsets.size(), rows + std::int64_t{1},
                 "one more than the shape says");
  require(offsets[0] == 0, "{}: indptr starts with {}; expected 0", path, offsets[0]);
  for (std::size_t row = 1; row < offsets.size(); ++row)
    require(offsets[row] >= offsets[row - 1],
            "{}: indptr[{}] = {} follows {}; expected it to ascend", path, row, offsets[row],
            offsets[row - 1]);
  require_length(path, "indices", indices.size(), offsets.back(), "the end of indptr");
  require_length(path, "data", members.data->size(), offsets.back(), "the end of indptr");
  require_range(path, "indices", indices, cols);
  return finish_rows(rows, cols, std::move(offsets), std::move(indices), *std::move(members.data),
                     false, path);
}

CsrMatrix from_pairs(Members& members, std::string_view row_name, std::string_view col_name,
                     Entries entries) {
  const std::string& path = members.path;
  EntryBlock block{
      members.take(members.indices, row_name), members.take(members.indices, col_name), {}};
  require_length(path, col_name, block.cols.size(), block.size(), fmt::format("as '{}'", row_name));
  require_range(path, row_name, block.rows, entries.rows);
  require_range(path, col_name, block.cols, entries.cols);
  if (members.data && !entries.pattern) {
    require_length(path, "data", members.data->size(), block.size(),
                   fmt::format("as '{}'", row_name));
    block.values = *std::move(members.data);
  }
  entries.blocks.push_back(std::move(block));
  return build_csr(std::move(entries), path);
}

CsrMatrix from_graph(Members& members) {
  Entries entries;
  entries.pattern = true;
  const bool bipartite = members.integers.contains("num_nodes_src");
  const auto nodes = [&](std::string_view name) {
    return extent(members.path, name, members.number(name));
  };
  entries.rows = nodes(bipartite ? "num_nodes_src" : "num_nodes");
  entries.cols = bipartite ? nodes("num_nodes_dst") : entries.rows;
  return from_pairs(members, "src_li", "dst_li", std::move(entries));
}

CsrMatrix from_scipy(Members& members) {
  const std::string& path = members.path;
  require(
      members.format.has_value(),
      "{}: neither a sparse matrix of SciPy (no array 'format') nor a graph (no array 'src_li')",
      path);
  const std::string format = *members.format;
  require(format == "csr" || format == "csc" || format == "coo",
          "{}: sparse format '{}'; expected csr, csc or coo", path, format);
  const auto shape = members.take(members.integers, "shape");
  require_length(path, "shape", shape.size(), 2, "rows and columns");
  const std::int32_t rows = extent(path, "rows", shape[0]),
                     cols = extent(path, "columns", shape[1]);
  require(members.data.has_value(), "{}: no array 'data'", path);
  if (format == "csr") return compressed_rows(members, rows, cols);
  if (format == "csc") {
    require_plausible_rows(rows, static_cast<std::int64_t>(members.data->size()), path);
    return transpose(compressed_rows(members, cols, rows));
  }
  Entries entries;
  entries.rows = rows;
  entries.cols = cols;
  return from_pairs(members, "row", "col", std::move(entries));
}

// --- writing -------------------------------------------------------------------------------------

class ZipWriter {
 public:
  ZipWriter(const std::string& path, bool deflate)
      : path_(path), new_file_(path), zip_(archive_write_new()) {
    archive_write_set_format_zip(zip_);
    if (deflate)
      archive_write_zip_set_compression_deflate(zip_);
    else
      archive_write_zip_set_compression_store(zip_);
    check(archive_write_open_filename(zip_, new_file_.path().c_str()));
  }
  ~ZipWriter() { archive_write_free(zip_); }
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  template <class T>
  void add(const std::string& name, std::string_view type, std::span<const std::int64_t> shape,
           std::span<const T> numbers) {
    const std::string header = npy_header(type, shape);
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> member(archive_entry_new(),
                                                                               archive_entry_free);
    archive_entry_set_pathname(member.get(), (name + ".npy").c_str());
    archive_entry_set_filetype(member.get(), AE_IFREG);
    archive_entry_set_perm(member.get(), 0644);
    archive_entry_set_size(member.get(),
                           static_cast<la_int64_t>(header.size() + numbers.size_bytes()));
    check(archive_write_header(zip_, member.get()));
    write(header);
    write({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
  }
  void finish() {
    check(archive_write_close(zip_));
    new_file_.keep();
  }

 private:
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const la_ssize_t written = archive_write_data(zip_, bytes.data(), bytes.size());
      check(written > 0 ? ARCHIVE_OK : ARCHIVE_FATAL);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void check(int status) const {
    if (status == ARCHIVE_OK) return;
    const char* reason = archive_error_string(zip_);
    throw Error(fmt::format("{}: cannot write: {}", path_, reason != nullptr ? reason : "?"));
  }

  std::string path_;
  NewFile new_file_;
  archive* zip_;
};

class Npz final : public MatrixFile {
 public:
  explicit Npz(bool deflate) : deflate_(deflate) {}

  std::vector<std::string> suffixes() const override { return {".npz"}; }

  CsrMatrix read(const std::string& path) const override {
    Members members = read_members(path);
    return members.indices.contains("src_li") ? from_graph(members) : from_scipy(members);
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    ZipWriter zip(path, deflate_);
    const std::int64_t shape[] = {matrix.rows, matrix.cols};
    const std::int64_t two[] = {2}, nnz[] = {matrix.nnz()},
                       offsets[] = {matrix.rows + std::int64_t{1}};
    zip.add<std::int32_t>("indices", "<i4", nnz, matrix.col_indices);
    if (matrix.nnz() <= std::numeric_limits<std::int32_t>::max()) {
      // SciPy keeps both index arrays in one type, so 64-bit offsets would double its indices.
      const Indices narrow(matrix.row_offsets.begin(), matrix.row_offsets.end());
      zip.add<std::int32_t>("indptr", "<i4", offsets, narrow);
    } else {
      zip.add<std::int64_t>("indptr", "<i8", offsets, matrix.row_offsets);
    }
    zip.add<char>("format", "|S3", {}, std::string_view("csr"));
    zip.add<std::int64_t>("shape", "<i8", two, shape);
    zip.add<float>("data", "<f4", nnz, matrix.values);
    zip.finish();
  }

 private:
  bool deflate_;
};

const Register<MatrixFile> entry{{
    .name = "npz",
    .summary = "SciPy .npz (CSR, CSC, COO) and graphs as src_li, dst_li, num_nodes",
    .params = {{"deflate", true, "compress written files"}},
    .make = [](const Params& p) { return std::make_unique<Npz>(p.flag("deflate")); },
}};

}  // namespace
}  // namespace tessera
