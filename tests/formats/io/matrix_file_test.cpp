// Matrix files: every reader gives the matrix that is in the file, every writer's file reads back
// bit for bit, the same at any number of threads, within the promised memory.
#include <doctest/doctest.h>
#include <malloc.h>

#include <bit>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/npy.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CsrMatrix with_ones(const CsrMatrix& matrix) {
  return {matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices,
          std::vector<float>(matrix.col_indices.size(), 1.0f)};
}

CsrMatrix read_as(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  write_text(folder / name, text);
  CsrMatrix matrix = read_matrix(folder / name);
  validate(matrix);
  return matrix;
}

/// Finite floats of every magnitude, subnormal ones and minus zero included.
CsrMatrix with_any_values(const CsrMatrix& matrix, std::uint64_t seed) {
  std::vector<float> values(matrix.values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    std::uint64_t draw = random_bits(seed, k);
    while ((draw & 0x7f800000u) == 0x7f800000u) draw = mix_bits(draw);
    values[k] = std::bit_cast<float>(static_cast<std::uint32_t>(draw));
  }
  values[0] = -0.0f;
  values[1] = std::numeric_limits<float>::denorm_min();
  values[2] = std::numeric_limits<float>::max();
  return {matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, std::move(values)};
}

TEST_CASE("written files are read back bit for bit, plain and compressed") {
  const TemporaryFolder folder;
  const CsrMatrix matrix = with_any_values(random_sparse(300, 200, 0.05, 1), 2);
  for (const std::string name : {"a.mtx", "a.mtx.gz", "a.npz"}) {
    CAPTURE(name);
    write_matrix(matrix, folder / name);
    CHECK(read_matrix(folder / name) == matrix);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    std::filesystem::remove(folder / name);
  }
  const auto stored = Registry<MatrixFile>::instance().make("npz", {{"deflate", false}});
  stored->write(matrix, folder / "stored.npz");
  write_matrix(matrix, folder / "deflated.npz");
  CHECK(stored->read(folder / "stored.npz") == matrix);
  CHECK(std::filesystem::file_size(folder / "stored.npz") >
        std::filesystem::file_size(folder / "deflated.npz"));
}

TEST_CASE("pattern formats return the pattern and refuse matrices that they cannot hold") {
  const TemporaryFolder folder;
  const CsrMatrix square = with_ones(random_sparse(150, 150, 0.03, 3));
  const CsrMatrix wide = with_ones(random_sparse(40, 90, 0.1, 4));
  for (const std::string name :
       {"a.txt", "a.txt.gz", "a.edges", "a.el", "a.smtx", "a.mtx", "a.npz"}) {
    CAPTURE(name);
    write_matrix(square, folder / name);
    CHECK(read_matrix(folder / name) == square);
  }
  write_matrix(wide, folder / "wide.smtx");
  CHECK(read_matrix(folder / "wide.smtx") == wide);

  CHECK_THROWS_AS(write_matrix(wide, folder / "wide.txt"), Unsupported);
  CHECK_THROWS_AS(write_matrix(random_sparse(9, 9, 0.5, 5), folder / "b.txt"), Unsupported);
  CHECK_THROWS_AS(write_matrix(random_sparse(9, 9, 0.5, 5), folder / "b.smtx"), Unsupported);
  CHECK_THROWS_AS(write_matrix(square, folder / "b.graph"), Unsupported);
  CHECK_THROWS_AS(write_matrix(square, folder / "b.tar.gz"), Unsupported);
  CHECK_FALSE(std::filesystem::exists(folder / "b.graph"));
}

TEST_CASE("undirected graphs go through METIS files with and without weights") {
  const TemporaryFolder folder;
  const CsrMatrix graph = read_as(folder, "a.mtx",
                                  "%%MatrixMarket matrix coordinate integer symmetric\n"
                                  "6 6 5\n2 1 3\n4 1 1\n4 2 7\n6 4 2\n6 1 5\n");

  write_matrix(graph, folder / "weights.graph");
  write_matrix(with_ones(graph), folder / "ones.graph.gz");

  CHECK(read_matrix(folder / "weights.graph") == graph);
  CHECK(read_matrix(folder / "ones.graph.gz") == with_ones(graph));
  CHECK(read_text(folder / "weights.graph") ==
        "6 5 001\n2 3 4 1 6 5\n1 3 4 7\n\n1 1 2 7 6 2\n\n1 5 4 2\n");
  CHECK(read_as(folder, "sizes.graph",
                "% sizes, two weights and edge weights\n6 5 111 2\n9 8 7 2 3 4 1 6 5\n"
                "9 8 7 1 3 4 7\n% inside\n9 8 7\n9 8 7 1 1 2 7 6 2\n9 8 7\n9 8 7 1 5 4 2\n") ==
        graph);
}

TEST_CASE("Matrix Market files of every form are read") {
  const TemporaryFolder folder;
  const auto dense = [&](const std::string& text) {
    return to_dense(read_as(folder, "a.mtx", text)).values;
  };
  using Values = std::vector<float>;
  const std::string banner = "%%MatrixMarket matrix ";

  CHECK(dense(banner +
              "coordinate real general\n% c\n\n2 3 3\n1 1 1.5\n\n% c\n2 3 -2e1\n1 2 +.5\n") ==
        Values{1.5, .5, 0, 0, 0, -20});
  CHECK(dense("%%matrixmarket MATRIX Coordinate Integer General\r\n2 2 2\r\n1 2 7\r\n2 1 -3\r\n") ==
        Values{0, 7, -3, 0});
  CHECK(dense(banner + "coordinate real symmetric\n2 2 2\n1 1 4\n2 1 5") == Values{4, 5, 5, 0});
  CHECK(dense(banner + "coordinate real hermitian\n2 2 2\n1 1 4\n2 1 5") == Values{4, 5, 5, 0});
  CHECK(dense(banner + "coordinate real skew-symmetric\n2 2 1\n2 1 5\n") == Values{0, -5, 5, 0});
  CHECK(dense(banner + "coordinate pattern symmetric\n2 2 1\n2\t1 \n") == Values{0, 1, 1, 0});
  CHECK(dense(banner + "array real general\n2 3\n1\n2\n3\n4\n5\n6\n") == Values{1, 3, 5, 2, 4, 6});
  CHECK(dense(banner + "array integer symmetric\n2 2\n1\n2\n3\n") == Values{1, 2, 2, 3});
  CHECK(dense(banner + "array real skew-symmetric\n3 3\n1\n2\n3\n") ==
        Values{0, -1, -2, 1, 0, -3, 2, 3, 0});

  const CsrMatrix sums = read_as(folder, "a.mtx",
                                 banner +
                                     "coordinate real general\n1 3 5\n"
                                     "1 3 16777216\n1 1 0\n1 3 1\n1 3 1\n1 2 1e-60\n");
  CHECK(sums.nnz() == 3);                // explicit zeros stay
  CHECK(sums.values[2] == 16777218.0f);  // FP32 sums would have lost both ones
  CHECK(read_as(folder, "a.mtx", banner + "coordinate pattern general\n1 1 2\n1 1\n1 1\n")
            .values[0] == 1);
  CHECK(read_as(folder, "a.mtx", banner + "coordinate real general\n0 0 0\n").nnz() == 0);
}

TEST_CASE("edge lists keep node numbers and check their header") {
  const TemporaryFolder folder;

  const CsrMatrix plain = read_as(folder, "a.txt", "% other\n# one\r\n0\t3\r\n5 1\r\n0 3\r\n");
  CHECK(plain.rows == 6);
  CHECK(plain.cols == 6);
  CHECK(plain.nnz() == 2);
  CHECK(is_pattern(plain));
  CHECK(read_as(folder, "a.el", "# Nodes: 9 Edges: 1\n1 2\n").rows == 9);         // isolated nodes
  CHECK(read_as(folder, "a.edges", "# Nodes: 2 Edges: 1\n1 200\n").rows == 201);  // gaps
}

TEST_CASE("SciPy reads what is written, and its files of every kind are read") {
  const TemporaryFolder folder;
  const CsrMatrix matrix = random_sparse(30, 20, 0.2, 6);
  write_matrix(matrix, folder / "deflated.npz");
  const auto storing = Registry<MatrixFile>::instance().make("npz", {{"deflate", false}});
  storing->write(matrix, folder / "stored.npz");
  const std::vector<std::string> types = {"int8",   "int16", "int32",   "int64",   "uint8",
                                          "uint64", "bool",  "float16", "float32", "float64"};
  const std::string script = fmt::format(R"(
for name in 'deflated', 'stored':
    for kind in 'csr', 'csc', 'coo':
        again = s.load_npz(f'{{name}}.npz').asformat(kind)
        s.save_npz(f'{{name}}_{{kind}}.npz', again, name == 'deflated')
for kind in '{}'.split():
    s.save_npz(f'{{kind}}.npz', s.csr_matrix(np.array([[0, 1, 0], [1, 0, 0]]).astype(kind)))
s.save_npz('half.npz', s.coo_matrix(np.array([[6e-8, 0.5, -65504, 0.1]], dtype='f2')))
np.savez('unsorted.npz', format='csr', shape=[2, 3], indptr=np.array([0, 3, 4], dtype='i8'),
         indices=np.array([2, 0, 2, 1], dtype='i8'), data=np.array([1., 2., 4., 8.]))
np.savez('graph.npz', src_li=[0, 1, 1], dst_li=[3, 2, 2], num_nodes_src=2, num_nodes_dst=4,
         x=np.zeros(3))
)",
                                         fmt::join(types, " "));
  if (!run_scipy(folder, script)) return;

  for (const std::string name : {"deflated", "stored"})
    for (const std::string kind : {"_csr.npz", "_csc.npz", "_coo.npz"})
      CHECK(read_matrix(folder / (name + kind)) == matrix);
  const auto dense = [&](const std::string& name) {
    return to_dense(read_matrix(folder / (name + ".npz"))).values;
  };
  for (const std::string& type : types) {
    CAPTURE(type);
    CHECK(dense(type) == std::vector<float>{0, 1, 0, 1, 0, 0});
  }
  CHECK(dense("half") == std::vector<float>{0x1p-24f, 0.5f, -65504.0f, 0x1.998p-4f});
  CHECK(dense("unsorted") == std::vector<float>{2, 0, 5, 0, 8, 0});
  CHECK(dense("graph") == std::vector<float>{0, 0, 0, 1, 0, 0, 1, 0});
}

TEST_CASE("dense matrices and permutations go through .npy") {
  const TemporaryFolder folder;
  const DenseMatrix dense = random_dense(7, 5, 8);
  const std::vector<std::int32_t> order{3, 0, 2, 1};

  write_npy(folder / "b.npy", dense);
  write_npy_indices(folder / "p.npy", order);

  const DenseMatrix again = read_npy(folder / "b.npy");
  CHECK(again.rows == 7);
  CHECK(again.cols == 5);
  CHECK(again.values == dense.values);
  CHECK(read_npy_indices(folder / "p.npy") == order);
  CHECK_THROWS_AS(read_npy_indices(folder / "b.npy"), Error);
  if (!run_scipy(folder,
                 "b = np.load('b.npy').astype('f8')\nnp.save('f.npy', np.asfortranarray(b))\n"))
    return;
  CHECK(read_npy(folder / "f.npy").values == dense.values);
}

TEST_CASE("entries in any order with duplicates give the same matrix at any number of threads") {
  const TemporaryFolder folder;
  std::map<std::pair<std::int64_t, std::int64_t>, double> sums;
  std::string text = "%%MatrixMarket matrix coordinate real general\n500 700 300000\n";
  for (std::uint64_t k = 0; k < 300000; ++k) {
    const auto row = static_cast<std::int64_t>(random_bits(1, k) % 500);
    const auto col = static_cast<std::int64_t>(random_bits(2, k) % 700);
    const float value = random_signed(3, k);
    sums[{row, col}] += double{value};
    text += fmt::format("{} {} {}\n", row + 1, col + 1, value);
  }
  write_text(folder / "a.mtx", text);

  for (const int count : {1, 2, 3, 7}) {
    const ThreadCount threads(count);
    const CsrMatrix matrix = read_matrix(folder / "a.mtx");

    validate(matrix);
    REQUIRE(matrix.nnz() == static_cast<std::int64_t>(sums.size()));
    auto expected = sums.begin();
    for (std::int32_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k) {
        REQUIRE(expected->first ==
                std::pair<std::int64_t, std::int64_t>(row, matrix.col_indices[k]));
        REQUIRE(matrix.values[k] == static_cast<float>(expected++->second));
      }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// `rows` rows of `per_row` nonzeros in a square matrix; values random or one.
CsrMatrix even_rows(std::int32_t rows, std::int32_t per_row, bool pattern) {
  const std::int32_t stride = rows / per_row;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t row = 0; row < rows; ++row) {
    for (std::int32_t j = 0; j < per_row; ++j) {
      const std::uint64_t draw = random_bits(11, cols.size());
      cols.push_back(j * stride + static_cast<std::int32_t>(draw % stride));
      values.push_back(pattern ? 1.0f : random_signed(12, cols.size()));
    }
    offsets.push_back(static_cast<std::int64_t>(cols.size()));
  }
  return {rows, rows, std::move(offsets), std::move(cols), std::move(values)};
}

std::int64_t status_bytes(const std::string& key) {
  const std::string status = read_text("/proc/self/status");
  return 1024 * std::stoll(status.substr(status.find(key + ":") + key.size() + 1));
}

TEST_CASE("reading takes at most three times the memory of the matrix") {
  const TemporaryFolder folder;
  for (const std::string name : {"a.mtx", "a.npz", "a.txt", "a.smtx"}) {
    CAPTURE(name);
    std::int64_t csr_bytes = 0;
    {
      const CsrMatrix matrix = even_rows(80000, 20, name == "a.txt" || name == "a.smtx");
      csr_bytes = matrix.nnz() * 8 + (matrix.rows + 1) * 8;
      write_matrix(matrix, folder / name);
    }

    std::fflush(nullptr);  // the child would print what is still buffered here
    malloc_trim(0);        // the child's peak starts from what is here when it is forked
    const Outcome outcome = in_child([&] {
      const ThreadCount threads(2);
      malloc_trim(0);  // what earlier tests freed would serve the reader unseen
      const std::int64_t before = status_bytes("VmRSS");
      const CsrMatrix matrix = read_matrix(folder / name);
      std::printf("%lld", static_cast<long long>(status_bytes("VmHWM") - before));
    });

    REQUIRE(outcome.exit_code == 0);
    const double ratio =
        static_cast<double>(std::stoll(outcome.output)) / static_cast<double>(csr_bytes);
    CAPTURE(ratio);
    CHECK(ratio > 0.8);  // the measurement sees the matrix itself
    CHECK(ratio <= 3.0);
  }
}
#endif

}  // namespace
}  // namespace tessera
