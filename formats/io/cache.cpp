// Layout of a cached matrix, in the byte order of the machine that wrote it:
//
//   Header | checksums of the chunks [chunks] | row_offsets | col_indices | values
//
// with each array on a multiple of 64 bytes. The data is checksummed in chunks of 1 MiB because
// chunks can be verified in parallel, the content hash cannot; the header's own checksum covers
// the chunk checksums and the content hash, so data that passes is the data that had this hash
// when it was written. Whoever can write the folder can write checksums, so the arrays are
// validated as well: an index outside the matrix would be an access outside its arrays.
#include "formats/io/cache.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/pages.hpp"
#include "formats/base/parallel.hpp"
#include "formats/io/cache_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr std::array<char, 8> kMagic = {'t', 'e', 's', 's', 'c', 's', 'r', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kChunk = 1 << 20;
constexpr std::int64_t kMaxNonzeros = std::int64_t{1} << 48;  // keeps the sizes below from wrapping

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t byte_order = kByteOrder;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int64_t nnz = 0;
  std::array<char, 32> content_hash = {};
  std::uint64_t checksum = 0;  // of this header with zero here, and of all up to row_offsets
};
static_assert(std::has_unique_object_representations_v<Header>, "padding would be hashed");

/// Byte positions of the parts of a file.
struct Layout {
  std::int64_t row_offsets, col_indices, values, end;
  std::int64_t chunks;
};

std::int64_t align(std::int64_t position) {
  return (position + kAlignment - 1) / kAlignment * kAlignment;
}

Layout layout_of(const Header& header) {
  const std::int64_t offset_bytes = (header.rows + std::int64_t{1}) * 8;
  const std::int64_t index_bytes = header.nnz * 4;
  const std::int64_t data_bytes = align(offset_bytes) + align(index_bytes) + index_bytes;
  Layout layout;
  layout.chunks = (data_bytes + kChunk - 1) / kChunk;
  layout.row_offsets = align(static_cast<std::int64_t>(sizeof(Header)) + layout.chunks * 8);
  layout.col_indices = layout.row_offsets + align(offset_bytes);
  layout.values = layout.col_indices + align(index_bytes);
  layout.end = layout.values + index_bytes;
  return layout;
}

std::vector<std::uint64_t> chunk_checksums(Bytes data) {
  const auto size = static_cast<std::int64_t>(data.size());
  std::vector<std::uint64_t> sums((size + kChunk - 1) / kChunk);
  parallel_for(size, kChunk, [&](std::int64_t begin, std::int64_t end) {
    sums[begin / kChunk] = checksum(data.subspan(begin, end - begin));
  });
  return sums;
}

std::uint64_t header_checksum(Header header, Bytes chunk_table) {
  header.checksum = 0;
  const std::array<std::uint64_t, 2> parts = {checksum(std::as_bytes(std::span(&header, 1))),
                                              checksum(chunk_table)};
  return checksum(std::as_bytes(std::span(parts)));
}

/// A whole file mapped into memory for the lifetime of the object.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      problem_ = std::strerror(errno);
      return;
    }
    struct stat status;
    if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      const auto size = static_cast<std::size_t>(status.st_size);
      // Every page will be read: fault them in together.
      void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
      if (start == MAP_FAILED) {
        problem_ = std::strerror(errno);
      } else {
        bytes_ = {static_cast<const std::byte*>(start), size};
        known_.emplace(bytes_);
      }
    }
    ::close(file);
  }
  ~Mapping() {
    known_.reset();
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Bytes bytes() const { return bytes_; }
  const std::string& problem() const { return problem_; }  // "" for a file that is mapped or empty

 private:
  Bytes bytes_;
  std::optional<PagesOfFile> known_;
  std::string problem_;
};

/// The fault of a cached file, or "" when it can be used; fills in the header.
std::string problem_with(Bytes file, std::string_view content_hash, Header& header) {
  if (file.size() < sizeof(Header)) return "it is too short";
  std::memcpy(&header, file.data(), sizeof(Header));
  if (header.magic != kMagic) return "it is no cached matrix";
  if (header.version != kVersion) return fmt::format("it has format version {}", header.version);
  if (header.byte_order != kByteOrder) return "it is from a machine of the other byte order";
  if (header.rows < 0 || header.cols < 0 || header.nnz < 0 || header.nnz > kMaxNonzeros)
    return "its header is damaged";
  const Layout layout = layout_of(header);
  if (static_cast<std::int64_t>(file.size()) != layout.end)
    return fmt::format("it has {} bytes instead of {}", file.size(), layout.end);
  const Bytes table = file.subspan(sizeof(Header), layout.row_offsets - sizeof(Header));
  if (header.checksum != header_checksum(header, table)) return "its header is damaged";
  if (!std::ranges::equal(header.content_hash, content_hash)) return "it holds another matrix";
  std::vector<std::uint64_t> sums(layout.chunks);
  std::memcpy(sums.data(), table.data(), sums.size() * 8);
  if (sums != chunk_checksums(file.subspan(layout.row_offsets))) return "its data is damaged";
  return "";
}

template <class T>
Array<T> view(const std::shared_ptr<const Mapping>& mapping, std::int64_t position,
              std::int64_t size) {
  const auto* first = reinterpret_cast<const T*>(mapping->bytes().data() + position);
  return Array<T>(std::span(first, static_cast<std::size_t>(size)), mapping);
}

template <class T>
void place(std::vector<std::byte>& file, std::int64_t position, const Array<T>& array) {
  if (!array.empty()) std::memcpy(file.data() + position, array.data(), array.size() * sizeof(T));
}

/// The lines of a note in sources/: the last one is a checksum of the rest.
std::string note_text(std::string_view identity, std::string_view content_hash) {
  const std::string body = fmt::format("tessera source 1\n{}\n{}\n", content_hash, identity);
  return fmt::format("{}{}\n", body, hash_text(body));
}

}  // namespace

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path own = variable("TESSERA_CACHE"); !own.empty())
    return fs::absolute(own).string();
  // The XDG base directory specification requires relative paths to be ignored.
  if (const fs::path xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute())
    return (xdg / "tessera").string();
  if (const fs::path home = variable("HOME"); home.is_absolute())
    return (home / ".cache" / "tessera").string();
  return "";
}

std::string MatrixCache::matrix_path(std::string_view content_hash) const {
  return fmt::format("{}/matrices/{}.csr", folder_, content_hash);
}

std::string MatrixCache::source_path(std::string_view identity) const {
  Hasher hasher;
  hasher.add(identity);
  return fmt::format("{}/sources/{}", folder_, hasher.hex128());
}

std::optional<CsrMatrix> MatrixCache::load(std::string_view content_hash) const {
  if (folder_.empty() || content_hash.empty()) return std::nullopt;
  const std::string path = matrix_path(content_hash);
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) return std::nullopt;
  if (!fs::is_regular_file(status)) {
    report_unused(path, "it is no file");
    return std::nullopt;
  }
  const auto mapping = std::make_shared<const Mapping>(path);
  Header header;
  std::string problem = mapping->problem();
  if (problem.empty()) problem = problem_with(mapping->bytes(), content_hash, header);
  if (!problem.empty()) {
    report_unused(path, problem);
    return std::nullopt;
  }
  const Layout layout = layout_of(header);
  CsrMatrix matrix{header.rows, header.cols,
                   view<std::int64_t>(mapping, layout.row_offsets, header.rows + std::int64_t{1}),
                   view<std::int32_t>(mapping, layout.col_indices, header.nnz),
                   view<float>(mapping, layout.values, header.nnz)};
  try {
    validate(matrix);
  } catch (const Error& error) {
    report_unused(path, error.what());
    return std::nullopt;
  }
  return matrix;
}

void MatrixCache::store(const CsrMatrix& matrix, std::string_view content_hash) const {
  if (folder_.empty()) return;
  Header header;
  require(content_hash.size() == header.content_hash.size(), "'{}' is no content hash",
          content_hash);
  std::ranges::copy(content_hash, header.content_hash.begin());
  header.rows = matrix.rows;
  header.cols = matrix.cols;
  header.nnz = matrix.nnz();
  const Layout layout = layout_of(header);
  std::vector<std::byte> file(layout.end);
  place(file, layout.row_offsets, matrix.row_offsets);
  place(file, layout.col_indices, matrix.col_indices);
  place(file, layout.values, matrix.values);
  const std::vector<std::uint64_t> sums = chunk_checksums(Bytes(file).subspan(layout.row_offsets));
  std::memcpy(file.data() + sizeof header, sums.data(), sums.size() * 8);
  header.checksum = header_checksum(
      header, Bytes(file).subspan(sizeof header, layout.row_offsets - sizeof header));
  std::memcpy(file.data(), &header, sizeof header);
  write_cache_file(matrix_path(content_hash), file);
}

std::string MatrixCache::known_content(std::string_view identity) const {
  if (folder_.empty()) return "";
  const std::string text = read_cache_file(source_path(identity)).value_or("");
  // The content hash is the second line; the note is good when writing it again gives the same.
  const std::size_t first = text.find('\n') + 1;
  const std::string content = text.substr(first, text.find('\n', first) - first);
  return text == note_text(identity, content) ? content : "";
}

void MatrixCache::remember(std::string_view identity, std::string_view content_hash) const {
  if (folder_.empty()) return;
  const std::string note = note_text(identity, content_hash);
  write_cache_file(source_path(identity), std::as_bytes(std::span(note.data(), note.size())));
}

}  // namespace tessera
