// Broken matrix files: every one is refused with one message that names the file, the line and what
// was expected; and no byte flip, truncation or splice of a valid file does anything else than load
// a valid matrix or throw an Error.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/npy.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Broken {
  std::string name;  // of the file; its ending chooses the reader
  std::string text;
  std::string message;  // after the file's path
};

std::string message_of(const std::string& path) {
  try {
    validate(read_matrix(path));
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

void check_all(const std::vector<Broken>& files) {
  const TemporaryFolder folder;
  for (const Broken& file : files) {
    CAPTURE(file.text);
    write_text(folder / file.name, file.text);
    CHECK(message_of(folder / file.name) == folder / file.name + file.message);
  }
}

std::string gzipped(const std::string& text) {
  const TemporaryFolder folder;
  ByteSink sink(folder / "a.gz");
  sink.write(text);
  sink.finish();
  return read_text(folder / "a.gz");
}

const std::string kReal = "%%MatrixMarket matrix coordinate real general\n";
const std::string kPattern = "%%MatrixMarket matrix coordinate pattern general\n";
const std::string kSymmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
const std::string kArray = "%%MatrixMarket matrix array real general\n";

TEST_CASE("broken Matrix Market headers are refused with the line and what was expected") {
  check_all({
      {"a.mtx", "", ":1: the file is empty; expected a %%MatrixMarket banner"},
      {"a.mtx", "1 1 1\n1 1 1\n", ":1: expected a line '%%MatrixMarket matrix ...', not '1 1 1'"},
      {"a.mtx", "\n" + kReal, ":1: expected a line '%%MatrixMarket matrix ...', not ''"},
      {"a.mtx", "%%MatrixMarket vector coordinate real general\n",
       ":1: unknown object 'vector'; expected one of matrix"},
      {"a.mtx", "%%MatrixMarket matrix coordinates real general\n",
       ":1: unknown layout 'coordinates'; expected one of coordinate, array"},
      {"a.mtx", "%%MatrixMarket matrix coordinate float general\n",
       ":1: unknown field 'float'; expected one of real, integer, pattern, double, complex"},
      {"a.mtx", "%%MatrixMarket matrix coordinate real\n",
       ":1: expected the symmetry, but the line ends"},
      {"a.mtx", "%%MatrixMarket matrix coordinate real general twice\n",
       ":1: expected the end of the line, not 'twice'"},
      {"a.mtx", "%%MatrixMarket matrix coordinate complex hermitian\n1 1 1\n1 1 1 0\n",
       ":1: complex values are not supported: products are computed in real arithmetic"},
      {"a.mtx", "%%MatrixMarket matrix array pattern general\n1 1\n1\n",
       ":1: a pattern can be neither an array nor skew-symmetric: it has no values"},
      {"a.mtx", kReal, ":1: the file ends in its header; expected the line of sizes"},
      {"a.mtx", kReal + "% only\n\n",
       ":3: the file ends in its header; expected the line of sizes"},
      {"a.mtx", kReal + "2 2\n", ":2: expected the number of entries, but the line ends"},
      {"a.mtx", kReal + "2 x 1\n", ":2: expected the number of columns, not 'x'"},
      {"a.mtx", kReal + "2 2 1 1\n", ":2: expected the end of the line, not '1'"},
      {"a.mtx", kReal + "-2 2 1\n", ":2: the number of rows is -2, outside [0, 2147483647]"},
      {"a.mtx", kReal + "2 2147483648 1\n",
       ":2: the number of columns is 2147483648, outside [0, 2147483647]"},
      {"a.mtx", kReal + "2 2 9223372036854775808\n",
       ":2: the number of entries is 9223372036854775808, outside [0, 999999999999999999]"},
      {"a.mtx", kSymmetric + "2 3 1\n", ":2: a symmetric matrix must be square, not 2 x 3"},
      {"a.mtx", "%%MatrixMarket matrix coordinate \x01\xff general\n",
       ":1: unknown field '\\x01\\xff'; expected one of real, integer, pattern, double, complex"},
  });
}

TEST_CASE("broken Matrix Market entries are refused with the line and what was expected") {
  check_all({
      {"a.mtx", kReal + "2 2 3\n1 1 1\n2 2 2\n",
       ":4: the file ends after 2 entries; expected 3, as the header says"},
      {"a.mtx", kReal + "2 2 1\n1 1 1\n% c\n\n2 2 2\n",
       ":6: expected the end of the file after 1 entries, as the header says"},
      {"a.mtx", kReal + "2 2 900000000000000\n1 1 1\n",
       ":3: the file ends after 1 entries; expected 900000000000000, as the header says"},
      {"a.mtx", kReal + "2 2 1\n0 1 1\n", ":3: the row index is 0, outside [1, 2]"},
      {"a.mtx", kReal + "2 2 1\n3 1 1\n", ":3: the row index is 3, outside [1, 2]"},
      {"a.mtx", kReal + "2 2 1\n1 -1 1\n", ":3: the column index is -1, outside [1, 2]"},
      {"a.mtx", kReal + "2 2 1\n1 18446744073709551617 1\n",
       ":3: the column index is 18446744073709551617, outside [1, 2]"},
      {"a.mtx", kReal + "2 2 1\n1.0 1 1\n", ":3: expected the row index, not '1.0'"},
      {"a.mtx", kReal + "2 2 1\n1 1\n", ":3: expected the value, but the line ends"},
      {"a.mtx", kReal + "2 2 1\n1 1 1 0\n", ":3: expected the end of the line, not '0'"},
      {"a.mtx", kReal + "2 2 1\n1 1 one\n", ":3: expected the value, not 'one'"},
      {"a.mtx", kReal + "2 2 1\n1 1 1.5.5\n", ":3: expected the value, not '1.5.5'"},
      {"a.mtx", kReal + "2 2 1\n1 1 +-1\n", ":3: expected the value, not '+-1'"},
      {"a.mtx", kReal + "2 2 1\n1 1 nan\n", ":3: the value is 'nan'; expected a finite number"},
      {"a.mtx", kReal + "2 2 1\n1 1 -inf\n", ":3: the value is '-inf'; expected a finite number"},
      {"a.mtx", kReal + "2 2 1\n1 1 1e39\n",
       ":3: the value is 1e39, which FP32 cannot hold (largest: 3.4028235e+38)"},
      {"a.mtx", kReal + "2 2 1\n1 1 -1e99999\n",
       ":3: the value is -1e99999, which FP32 cannot hold (largest: 3.4028235e+38)"},
      {"a.mtx", kReal + "1 1 2\n1 1 3e38\n1 1 3e38\n",
       ": the 2 entries at row 1, column 1 (counted from 1) sum to 6.0000000109955115e+38, which "
       "FP32 "
       "cannot hold"},
      {"a.mtx", kPattern + "2 2 1\n1 1 1\n", ":3: expected the end of the line, not '1'"},
      {"a.mtx", "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n",
       ":3: expected the integer value, not '1.5'"},
      {"a.mtx", kSymmetric + "2 2 1\n1 2 1\n",
       ":3: row 1, column 2 is above the diagonal; expected a symmetric matrix to store its lower "
       "triangle only"},
      {"a.mtx", "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 1\n",
       ":3: row 2, column 2 is not below the diagonal; expected a skew-symmetric matrix to store "
       "its "
       "strict lower triangle only"},
      {"a.mtx", kArray + "2 2\n1\n2\n3\n",
       ":5: the file ends after 3 entries; expected 4, as the header says"},
      {"a.mtx", kArray + "1 2\n1\n2\n3\n",
       ":5: expected the end of the file after 2 entries, as the header says"},
      {"a.mtx", kArray + "1 2\n1 2\n", ":3: expected the end of the line, not '2'"},
      {"a.mtx", kReal + "2000000000 2 1\n1 1 1\n",
       ": 2000000000 rows are claimed, but only 1 entries given; expected one entry in 256 rows at "
       "least"},
  });
}

TEST_CASE("broken compressed files are refused by name") {
  const std::string text = kReal + "2 2 2\n1 1 1.5\n2 2 2.5\n";
  const std::string whole = gzipped(text);
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 6] = static_cast<char>(wrong_sum[whole.size() - 6] ^ 1);
  check_all({
      {"a.mtx.gz", whole.substr(0, whole.size() - 3),
       ": truncated: the gzip data ends in the middle"},
      {"a.mtx.gz", whole.substr(0, 15), ": truncated: the gzip data ends in the middle"},
      {"a.mtx.gz", whole + "garbage", ": bytes that are not gzip follow the gzip data"},
      {"a.mtx.gz", wrong_sum, ": damaged gzip data: incorrect data check"},
      {"a.mtx.gz", "\x1f\x8b\xff" + whole, ": damaged gzip data: unknown compression method"},
      {"a.txt.gz", gzipped("1 2\n3 x\n"), ":2: expected the second node, not 'x'"},
      {"a.tar.gz", whole, ": cannot open the archive: Unrecognized archive format"},
  });
  const TemporaryFolder folder;
  CHECK(message_of(folder / "a.unknown")
            .starts_with(folder / "a.unknown" +
                         ": no matrix format has this ending; expected one of "));
  CHECK(message_of(folder / "none.mtx") ==
        folder / "none.mtx" + ": cannot open: No such file or directory");
  write_text(folder / "two.mtx.gz", gzipped(kReal + "1 1 1\n") + gzipped("1 1 5\n"));
  CHECK(message_of(folder / "two.mtx.gz") == "no error");  // as `cat a.gz b.gz` makes them
}

/// A tar file of these members, by hand: any path, any order.
std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  constexpr std::size_t kUnit = 512;
  std::string tar;
  for (const auto& [name, text] : members) {
    std::string header(kUnit, '\0');
    const auto put = [&](std::size_t at, const std::string& field) {
      header.replace(at, field.size(), field);
    };
    put(0, name);
    put(100, "0000644");
    put(124, fmt::format("{:011o}", text.size()));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum) + '\0');
    tar += header + text + std::string((kUnit - text.size() % kUnit) % kUnit, '\0');
  }
  return tar + std::string(2 * kUnit, '\0');
}

TEST_CASE("an archive gives its main matrix, or says what it holds instead") {
  const std::string vector = kArray + "2 1\n7\n8\n", main = kReal + "1 1 1\n1 1 5\n";
  const TemporaryFolder folder;
  write_text(folder / "a.tar.gz",
             gzipped(tar_of({{"x/x_b.mtx", vector}, {"x/notes.txt", "?"}, {"x/x.mtx", main}})));

  CHECK(read_matrix(folder / "a.tar.gz").values[0] == 5.0f);
  check_all({
      {"a.tar.gz", gzipped(tar_of({{"x/x_b.mtx", vector}, {"x/y.mtx", main}})),
       ": no member NAME/NAME.mtx; expected one beside: x/x_b.mtx, x/y.mtx"},
      {"a.tgz", gzipped(tar_of({{"x/x.mtx", kReal + "1 1 1\n1 2 5\n"}})),
       "(x/x.mtx):3: the column index is 2, outside [1, 1]"},
      {"a.tar", tar_of({{"x/x.mtx", main}}).substr(0, 540),
       ": cannot read member 'x/x.mtx': Truncated tar archive"},
  });
}

TEST_CASE("broken edge lists, smtx and METIS files are refused with the line") {
  check_all({
      {"a.txt", "", ":1: the file holds no edges; expected lines of two node numbers"},
      {"a.txt", "# c\n# d\n", ":2: the file holds no edges; expected lines of two node numbers"},
      {"a.txt", "1 2\n3\n", ":2: expected the second node, but the line ends"},
      {"a.txt", "1 2\n3 4 5\n", ":2: expected the end of the line, not '5'"},
      {"a.txt", "1,2\n", ":1: expected the first node, not '1,2'"},
      {"a.txt", "-1 2\n", ":1: the first node is -1, outside [0, 2147483646]"},
      {"a.txt", "1 2147483647\n", ":1: the second node is 2147483647, outside [0, 2147483646]"},
      {"a.txt", "# Nodes: 3 Edges: 2\n1 2\n",
       ":2: the file holds 1 edges; expected 2, as line 1 says"},
      {"a.txt", "# Nodes: 2 Edges: 2\n1 2\n2 3\n",
       ":3: the edges join 3 nodes; expected at most 2, as line 1 says"},
      {"a.txt", "# Nodes: many Edges: 2\n1 2\n",
       ":1: expected the number after 'Nodes:', not 'many'"},
      {"a.txt", "5 2000000000\n",
       ": 2000000001 rows are claimed, but only 1 entries given; expected one entry in 256 rows at "
       "least"},
      {"a.smtx", "", ":1: expected the number of rows, but the line ends"},
      {"a.smtx", "2, 3\n", ":1: expected the number of nonzeros, but the line ends"},
      {"a.smtx", "2, 3, 2, 1\n",
       ":1: more numbers than the header says; expected the end of the line of sizes"},
      {"a.smtx", "2, 3, 2\n0 1\n0 1\n", ":2: expected the next row offset, but the line ends"},
      {"a.smtx", "2, 3, 2\n1 1 2\n0 1\n", ":2: the first row offset is 1, outside [0, 0]"},
      {"a.smtx", "3, 3, 2\n0 2 1 2\n0 1\n", ":2: the next row offset is 1, outside [2, 2]"},
      {"a.smtx", "2, 3, 2\n0 1 1\n0 1\n",
       ":2: the last row offset is 1; expected 2, the number of nonzeros"},
      {"a.smtx", "2, 3, 2\n0 1 2 2\n0 1\n",
       ":2: more numbers than the header says; expected the end of the line of row offsets"},
      {"a.smtx", "2, 3, 2\n0 1 2\n0 3\n", ":3: the column index is 3, outside [0, 2]"},
      {"a.smtx", "2, 3, 2\n0 1 2\n0\n", ":3: expected the column index, but the line ends"},
      {"a.smtx", "2, 3, 2\n0 1 2\n0 1 2\n",
       ":3: more numbers than the header says; expected the end of the line of column indices"},
      {"a.smtx", "2, 3, 2\n0 1 2\n0 1\n\n7\n",
       ":5: more numbers than the header says; expected the end of the file"},
      {"a.graph", "", ":1: the file is empty; expected numbers of vertices and edges"},
      {"a.graph", "3\n", ":1: expected the number of edges, but the line ends"},
      {"a.graph", "3 2 7\n", ":1: format '7'; expected up to three digits 0 or 1"},
      {"a.graph", "3 2\n2\n1 3\n",
       ":3: the file ends after 2 vertex lines; expected 3, as the header says"},
      {"a.graph", "2 1\n2\n1\n\n1\n",
       ":5: expected 2 vertex lines, as the header says, but more follow"},
      {"a.graph", "3 3\n2\n1 3\n2\n",
       ":4: the vertices list 4 neighbours; expected 6, both ends of the 3 edges of the header"},
      {"a.graph", "3 2\n2\n1 4\n2\n", ":3: the neighbour is 4, outside [1, 3]"},
      {"a.graph", "3 2\n2 0\n1 3\n\n", ":2: the neighbour is 0, outside [1, 3]"},
      {"a.graph", "3 2\n2\n% c\n1 2\n2\n", ":4: vertex 2 lists itself; expected no self-loops"},
      {"a.graph", "3 2\n2 2\n1 3\n\n", ":2: neighbour 2 is listed twice; expected distinct ones"},
      {"a.graph", "3 1\n2 3\n\n\n", ":2: vertex 1 lists vertex 2; expected 2 to list 1 as well"},
      {"a.graph", "3 1\n\n\n1 2\n",
       ":2: vertex 1 does not list vertex 3; expected it, as 3 lists 1"},
      {"a.graph", "2 1 1\n2 5\n1 6\n",
       ":2: an edge of vertex 1 has another weight at its other end"},
      {"a.graph", "2 1 1\n2\n1 6\n", ":2: expected the edge weight, but the line ends"},
      {"a.graph", "2 1 10\n7 2\nx 1\n", ":3: expected the vertex weight, not 'x'"},
      {"a.graph", "9999999999 1\n",
       ":1: the number of vertices is 9999999999, outside [0, 2147483647]"},
  });
}

// --- npz -----------------------------------------------------------------------------------------

/// The arrays of a .npz, as bytes of .npy files by name.
using Arrays = std::map<std::string, std::string>;

template <class T>
std::string npy(const std::string& type, const std::vector<T>& numbers) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(numbers.size())};
  return npy_header(type, shape) +
         std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

/// A zip file of stored members, written out here so that it can be wrong in any way.
std::string zip_of(const Arrays& arrays) {
  std::string zip, directory;
  const auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int b = 0; b < bytes; ++b) text += static_cast<char>(b < 8 ? value >> (8 * b) : 0);
    return text;
  };
  for (const auto& [name, bytes] : arrays) {
    const std::string file = name + ".npy";
    const std::uint64_t sum =
        crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    const std::string common = number(20, 2) + number(0, 8) + number(sum, 4) +
                               number(bytes.size(), 4) + number(bytes.size(), 4) +
                               number(file.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + common + number(0, 10) + number(zip.size(), 4) + file;
    zip += "PK\3\4" + common + file + bytes;
  }
  return zip + directory + "PK\5\6" + number(0, 4) + number(arrays.size(), 2) +
         number(arrays.size(), 2) + number(directory.size(), 4) + number(zip.size(), 4) +
         number(0, 2);
}

Arrays good_csr() {
  return {{"format", npy_header("|S3", {}) + "csr"},
          {"shape", npy<std::int64_t>("<i8", {2, 3})},
          {"indptr", npy<std::int32_t>("<i4", {0, 2, 3})},
          {"indices", npy<std::int32_t>("<i4", {0, 2, 1})},
          {"data", npy<float>("<f4", {1.5f, -2, 4})}};
}

TEST_CASE("broken npz files are refused with the array and the place") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& array) {
    Arrays arrays = good_csr();
    if (array.empty())
      arrays.erase(name);
    else
      arrays[name] = array;
    write_text(folder / "a.npz", zip_of(arrays));
    const std::string text = message_of(folder / "a.npz");
    const std::string start = folder / "a.npz" + ": ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  const auto i4 = [](std::vector<std::int32_t> v) { return npy("<i4", v); };
  const auto f8 = [](std::vector<double> v) { return npy("<f8", v); };

  CHECK(message("data", good_csr()["data"]) == "no error");
  for (const std::string name : {"shape", "indptr", "indices", "data"})
    CHECK(message(name, "") == "no array '" + name + "'");
  CHECK(message("format", "") ==
        "neither a sparse matrix of SciPy (no array 'format') nor a graph (no array 'src_li')");
  CHECK(message("format", npy_header("|S3", {}) + "bsr") ==
        "sparse format 'bsr'; expected csr, csc or coo");
  CHECK(message("format", npy_header("<i4", {}) + "1234") ==
        "format: array type '<i4'; expected a short text");
  CHECK(message("shape", i4({2, 3, 4})) == "'shape' holds 3 numbers; expected 2, rows and columns");
  CHECK(message("shape", i4({-2, 3})) == "-2 rows; expected 0 to 2147483647");
  CHECK(message("shape", npy<std::int64_t>("<i8", {2, 1ll << 31})) ==
        "2147483648 columns; expected 0 to 2147483647");
  CHECK(message("shape", i4({4, 3})) ==
        "'indptr' holds 3 numbers; expected 5, one more than the shape says");
  CHECK(message("indptr", i4({1, 2, 3})) == "indptr starts with 1; expected 0");
  CHECK(message("indptr", i4({0, 4, 3})) == "indptr[2] = 3 follows 4; expected it to ascend");
  CHECK(message("indptr", i4({0, 2, 4})) ==
        "'indices' holds 3 numbers; expected 4, the end of indptr");
  CHECK(message("data", npy<float>("<f4", {1, 2})) ==
        "'data' holds 2 numbers; expected 3, the end of indptr");
  CHECK(message("indices", i4({0, 3, 1})) == "indices[1] = 3, outside [0, 3)");
  CHECK(message("indices", i4({0, -1, 1})) == "indices[1] = -1, outside [0, 3)");
  CHECK(message("indices", npy<std::int64_t>("<i8", {0, 1, 1ll << 32})) ==
        "indices[2] = 4294967296; expected an integer of 32 bits");
  CHECK(message("indices", f8({0, 1, 2})) == "indices: array type '<f8'; expected integers");
  CHECK(message("data", f8({1, std::nan(""), 1})) ==
        "data[1] = nan; expected a finite number that FP32 can hold");
  CHECK(message("data", f8({1, 1, 1e39})) ==
        "data[2] = 1e+39; expected a finite number that FP32 can hold");
  CHECK(message("data", npy<std::uint16_t>("<f2", {0, 0x7c00, 0})) ==
        "data[1] = inf; expected a finite number that FP32 can hold");
  CHECK(message("data", npy<double>("<c16", {1, 2, 3, 4, 5, 6})) ==
        "data: array type '<c16'; expected real numbers");
  CHECK(message("data", npy<float>(">f4", {1, 2, 3})) ==
        "data: big-endian type '>f4'; expected little-endian");
  CHECK(message("data", npy<double>("|O", {1, 2, 3})) ==
        "data: an array of Python objects; expected numbers");
  CHECK(message("data", "not an array") ==
        "data: not a NumPy array: expected it to start with \\x93NUMPY");
  CHECK(message("data", good_csr()["data"] + "x") ==
        "data: bytes follow the 3 numbers that the header claims");
  const std::int64_t huge[] = {1ll << 40};
  CHECK(message("data", npy_header("<f4", huge) + "abcdefgh") ==
        "data: the array ends after 2 of 1099511627776 numbers");
  const std::string whole = zip_of(good_csr());
  for (const std::size_t size :
       {whole.size() - 30, whole.size() / 2, std::size_t{40}, std::size_t{0}}) {
    write_text(folder / "cut.npz", whole.substr(0, size));
    const std::string text = message_of(folder / "cut.npz");
    CAPTURE(size);
    CAPTURE(text);
    CHECK(text.starts_with(folder / "cut.npz" + ": "));
  }
}

TEST_CASE("broken graphs in npz files are refused") {
  const TemporaryFolder folder;
  const auto message = [&](const Arrays& arrays) {
    write_text(folder / "g.npz", zip_of(arrays));
    return message_of(folder / "g.npz").substr((folder / "g.npz").size());
  };
  const auto i8 = [](std::vector<std::int64_t> v) { return npy("<i8", v); };

  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 0})}}) == ": no array 'num_nodes'");
  CHECK(message({{"src_li", i8({0, 1})}, {"num_nodes", i8({2})}}) == ": no array 'dst_li'");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1})}, {"num_nodes", i8({2})}}) ==
        ": 'dst_li' holds 1 numbers; expected 2, as 'src_li'");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 2})}, {"num_nodes", i8({2})}}) ==
        ": dst_li[1] = 2, outside [0, 2)");
  CHECK(message({{"src_li", i8({0, 1})}, {"dst_li", i8({1, 0})}, {"num_nodes", i8({2, 2})}}) ==
        ": 'num_nodes' holds 2 numbers; expected one");
}

TEST_CASE("of several errors the first in the file is reported, at any number of threads") {
  const TemporaryFolder folder;
  std::string text = kReal + "1000 1000 100000\n";
  for (int k = 1; k <= 100000; ++k) text += k % 40000 == 0 ? "1 1 x\n" : "12 345 6.7890123456\n";
  write_text(folder / "a.mtx", text);

  for (const int count : {1, 2, 5}) {
    const ThreadCount threads(count);
    CHECK(message_of(folder / "a.mtx") == folder / "a.mtx" + ":40002: expected the value, not 'x'");
  }
}

// --- fuzz ----------------------------------------------------------------------------------------

std::string mutated(std::string text, const std::string& other, RandomSequence& random) {
  const int changes = 1 + static_cast<int>(random.below(4));
  for (int c = 0; c < changes && !text.empty(); ++c) {
    const std::size_t at = random.below(text.size());
    switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.bits());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, other.substr(random.below(other.size()), random.below(20)));
        break;
      default:
        text.erase(at, random.below(9));
        break;
    }
  }
  return text;
}

TEST_CASE("flipped, cut and spliced files load a valid matrix or throw an Error") {
  const TemporaryFolder folder;
  const std::string coordinates = kReal + "% c\n4 5 4\n1 1 1.5\n2 5 -2e3\n4 4 .25\n3 1 7\n";
  const std::vector<std::pair<std::string, std::string>> seeds = {
      {"a.mtx", coordinates},
      {"a.mtx", kSymmetric + "4 4 3\n1 1 1\n3 2 8\n4 1 2.5\n"},
      {"a.mtx", kArray + "2 3\n1\n2\n3\n4\n5\n6\n"},
      {"a.mtx.gz", gzipped(coordinates)},
      {"a.txt", "# c\n# Nodes: 6 Edges: 4\n0\t1\n1\t5\n2\t2\n5\t0\n"},
      {"a.smtx", "3, 4, 5\n0 2 3 5\n0 3 1 2 3\n"},
      {"a.graph", "% c\n4 3 11\n1 2 5 3 6\n1 1 5\n1 1 6 4 7\n1 3 7\n"},
      {"a.tar", tar_of({{"x/x.mtx", coordinates}})},
      {"a.npz", zip_of(good_csr())},
      {"a.npz", zip_of({{"src_li", npy<std::int64_t>("<i8", {0, 1, 2})},
                        {"dst_li", npy<std::int64_t>("<i8", {2, 0, 1})},
                        {"num_nodes", npy<std::int64_t>("<i8", {3})}})},
  };
  RandomSequence random(20);
  int loaded = 0, refused = 0;
  for (const auto& [name, text] : seeds) {
    write_text(folder / name, text);
    REQUIRE(message_of(folder / name) == "no error");
    for (int round = 0; round < 400; ++round) {
      const std::string mutant = mutated(text, seeds[random.below(seeds.size())].second, random);
      std::filesystem::remove(folder / name);  // some file systems are slow to overwrite one
      write_text(folder / name, mutant);
      CAPTURE(mutant);
      try {
        const CsrMatrix matrix = read_matrix(folder / name);
        CHECK_NOTHROW(validate(matrix));
        ++loaded;
      } catch (const Error& error) {
        CHECK(std::string(error.what()).starts_with(folder / name));
        ++refused;
      }
    }
  }
  CHECK(loaded > 100);  // both ends are reached
  CHECK(refused > 1000);
}

}  // namespace
}  // namespace tessera
