// The SuiteSparse collection's Matrix Market archives: NAME.tar.gz holding NAME/NAME.mtx and, for
// some problems, companion files such as NAME/NAME_b.mtx (T. A. Davis and Y. Hu, "The University of
// Florida Sparse Matrix Collection", ACM TOMS 38(1), 2011).
//
// The matrix is the first member X.mtx in a folder X; companions are skipped, but read to the end,
// where the checksum is. Read only.
#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/matrix_market.hpp"

namespace tessera {
namespace {

/// True when the path ends in X/X.mtx.
bool is_main_matrix(std::string_view path) {
  constexpr std::string_view kSuffix = ".mtx";
  if (!path.ends_with(kSuffix)) return false;
  path.remove_suffix(kSuffix.size());
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view name = path.substr(slash + 1);
  std::string_view folder = path.substr(0, slash);
  folder = folder.substr(folder.rfind('/') + 1);
  return !name.empty() && name == folder;
}

/// The archive's current member as a source that a parser can own.
class CurrentMember final : public ByteSource {
 public:
  explicit CurrentMember(ArchiveReader& archive) : archive_(archive) {}
  std::size_t read(std::span<char> buffer) override { return archive_.read(buffer); }

 private:
  ArchiveReader& archive_;
};

class SuiteSparseArchive final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override { return {".tar.gz", ".tgz", ".tar"}; }

  CsrMatrix read(const std::string& path) const override {
    ArchiveReader archive(path, ArchiveReader::Kind::kTar);
    std::vector<std::string> seen;
    while (archive.next()) {
      const std::string member = archive.member();
      if (is_main_matrix(member)) {
        CsrMatrix matrix = parse_matrix_market(std::make_unique<CurrentMember>(archive),
                                               fmt::format("{}({})", path, member));
        archive.finish();
        return matrix;
      }
      seen.push_back(member);
    }
    throw Error(fmt::format("{}: no member NAME/NAME.mtx; expected one beside: {}", path,
                            fmt::join(seen, ", ")));
  }

  void write(const CsrMatrix&, const std::string& path) const override {
    throw Unsupported(
        fmt::format("{}: SuiteSparse archives are only read; write .mtx.gz or .npz instead", path));
  }
};

const Register<MatrixFile> entry{{
    .name = "suitesparse",
    .summary = "SuiteSparse .tar.gz with NAME/NAME.mtx (read only)",
    .make = [](const Params&) { return std::make_unique<SuiteSparseArchive>(); },
}};

}  // namespace
}  // namespace tessera
