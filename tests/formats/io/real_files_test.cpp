// Real matrices in the forms that their publishers give them: sizes as published, the same matrix
// out of every form of it, and every file as SciPy and a few lines of Python read it.
#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <sstream>

#include "formats/io/matrix_file.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::string formats_file(const std::string& name) { return shared_path("data/formats/" + name); }
std::string data_file(const std::string& name) { return shared_path("data/" + name); }

TEST_CASE("files of real matrices have the published sizes") {
  const struct {
    std::string name;
    std::int32_t rows, cols;
    std::int64_t nnz;
  } published[] = {
      {"memplus.mtx.gz", 17758, 17758, 126150},
      {"bcsstk17.tar.gz", 10974, 10974, 428650},
      {"email-Enron.txt.gz", 36692, 36692, 367662},
      {"rgg_n_2_15_s0.graph.gz", 32768, 32768, 320480},
      {"dlmc-tf-mag0.9-ffn1.smtx", 2048, 512, 104857},
      {"cora_gnn.npz", 2708, 2708, 10556},
  };
  for (const auto& expected : published) {
    CAPTURE(expected.name);
    const std::string path = formats_file(expected.name);
    if (path.empty()) return;

    const CsrMatrix matrix = read_matrix(path);

    validate(matrix);
    CHECK(matrix.rows == expected.rows);
    CHECK(matrix.cols == expected.cols);
    CHECK(matrix.nnz() == expected.nnz);
  }
}

TEST_CASE("the same matrix out of two formats is the same to the bit") {
  const std::pair<std::string, std::string> pairs[] = {
      {"bcsstk17.tar.gz", "bcsstk17.npz"},
      {"memplus.mtx.gz", "memplus.npz"},
      {"cora_gnn.npz", "cora.npz"},
      {"dlmc-tf-mag0.9-ffn1.smtx", "dlmc-tf-mag0.9-ffn1.npz"},
  };
  for (const auto& [file, npz] : pairs) {
    CAPTURE(file);
    if (formats_file(file).empty()) return;

    CHECK(read_matrix(formats_file(file)) == read_matrix(data_file(npz)));
  }
}

/// One line per file: name, rows, columns, nonzeros and the CRC-32 of each array of the CSR.
const char* const kReadWithPython = R"(
import glob, gzip, io, os, sys, tarfile, zlib
from scipy.io import mmread

def text_of(path):
    if path.endswith('.gz'):
        return gzip.open(path).read().decode()
    return open(path).read()

def pattern(rows, cols, shape):
    matrix = s.csr_matrix((np.ones(len(rows)), (rows, cols)), shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix

def edge_list(path):
    lines = [line for line in text_of(path).splitlines() if line[:1] != '#']
    nodes = np.array(' '.join(lines).split(), dtype='i4')
    return pattern(nodes[::2], nodes[1::2], 2 * (nodes.max() + 1,))

def metis(path):
    lines = [line.split() for line in text_of(path).splitlines() if line[:1] != '%']
    vertices = int(lines[0][0])
    neighbours = [np.array(line, dtype='i4') for line in lines[1:vertices + 1]]
    rows = np.repeat(np.arange(vertices), [len(line) for line in neighbours])
    cols = np.concatenate(neighbours) - 1
    return pattern(rows, cols, (vertices, vertices))

def smtx(path):
    sizes, offsets, indices = text_of(path).splitlines()[:3]
    rows, cols, nnz = map(int, sizes.split(','))
    indices = np.array(indices.split(), dtype='i4')
    return s.csr_matrix((np.ones(nnz), indices, np.array(offsets.split(), dtype='i4')),
                        (rows, cols))

def archive(path):
    with tarfile.open(path) as tar:
        main = [m for m in tar if m.name.endswith('.mtx')][0]
        return mmread(io.BytesIO(tar.extractfile(main).read()))

def npz(path):
    arrays = np.load(path)
    if 'src_li' not in arrays:
        return s.load_npz(path)
    return pattern(arrays['src_li'], arrays['dst_li'], 2 * (int(arrays['num_nodes']),))

readers = {'.npz': npz, '.txt.gz': edge_list, '.graph.gz': metis, '.smtx': smtx,
           '.tar.gz': archive, '.mtx.gz': lambda path: mmread(gzip.open(path))}
for path in sorted(glob.glob(folder + '/*.*') + glob.glob(folder + '/formats/*.*')):
    reader = [read for ending, read in readers.items() if path.endswith(ending)]
    if not reader:
        continue
    matrix = s.csr_matrix(reader[0](path))
    matrix.sum_duplicates()
    arrays = (matrix.indptr, '<i8'), (matrix.indices, '<i4'), (matrix.data, '<f4')
    print(os.path.relpath(path, folder), *matrix.shape, matrix.nnz,
          *(zlib.crc32(array.astype(kind).tobytes()) for array, kind in arrays))
)";

template <class T>
std::uint64_t crc(const Array<T>& array) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(array.data()), array.size() * sizeof(T));
}

TEST_CASE("every real file is the matrix that Python reads from it") {
  const std::string data = data_file("README.md");
  if (data.empty()) return;
  const std::string source = std::filesystem::canonical(data).parent_path();
  const TemporaryFolder folder;
  if (!run_scipy(folder, fmt::format("folder = '{}'\n{}", source, kReadWithPython))) return;

  std::istringstream lines(read_text(folder / "printed"));
  int files = 0;
  std::string name;
  std::int64_t rows = 0, cols = 0, nnz = 0;
  std::uint64_t offsets_crc = 0, cols_crc = 0, values_crc = 0;
  while (lines >> name >> rows >> cols >> nnz >> offsets_crc >> cols_crc >> values_crc) {
    CAPTURE(name);
    const CsrMatrix matrix = read_matrix(source + "/" + name);

    validate(matrix);
    CHECK(matrix.rows == rows);
    CHECK(matrix.cols == cols);
    CHECK(matrix.nnz() == nnz);
    CHECK(crc(matrix.row_offsets) == offsets_crc);
    CHECK(crc(matrix.col_indices) == cols_crc);
    CHECK(crc(matrix.values) == values_crc);
    ++files;
  }
  CHECK(files >= 30);
}

TEST_CASE("real files are read alike at any number of threads") {
  for (const std::string name : {"bcsstk17.tar.gz", "email-Enron.txt.gz", "rgg_n_2_15_s0.graph.gz",
                                 "memplus.mtx.gz", "dlmc-tf-mag0.9-ffn1.smtx"}) {
    CAPTURE(name);
    const std::string path = formats_file(name);
    if (path.empty()) return;
    const auto read_with = [&](int count) {
      const ThreadCount threads(count);
      return read_matrix(path);
    };

    const CsrMatrix alone = read_with(1);

    CHECK(read_with(2) == alone);
    CHECK(read_with(7) == alone);
  }
}

}  // namespace
}  // namespace tessera
