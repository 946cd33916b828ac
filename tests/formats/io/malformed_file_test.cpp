// Broken text files: every one is refused with one message that names the file, the line and what
// was expected, the same at any number of threads.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "formats/io/text_reader.hpp"
#include "tests/forged_files.hpp"

namespace tessera {
namespace {

struct Broken {
  std::string name;  // of the file; its ending chooses the reader
  std::string text;
  // After the file's path. A message that ends in "..." goes on in the words of libarchive, which
  // change with its version.
  std::string message;
};

void check_all(const std::vector<Broken>& files) {
  const TemporaryFolder folder;
  for (const Broken& file : files) {
    CAPTURE(file.text);
    write_text(folder / file.name, file.text);
    const std::string said = message_of(folder / file.name);
    if (file.message.ends_with("...")) {
      const std::string start = file.message.substr(0, file.message.size() - 3);
      CHECK(said.starts_with(folder / file.name + start));
      CHECK(said.size() > (folder / file.name + start).size());
    } else {
      CHECK(said == folder / file.name + file.message);
    }
  }
}

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
      {"a.mtx", kReal + "2 2 -9223372036854775808\n",  // its negation overflows
       ":2: the number of entries is -9223372036854775808, outside [0, 999999999999999999]"},
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
      {"a.tar.gz", whole, ": cannot open the archive: ..."},
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

TEST_CASE("an archive gives its main matrix, or an error that lists its members") {
  const std::string vector = kArray + "2 1\n7\n8\n", main = kReal + "1 1 1\n1 1 5\n";
  const std::string more(1 << 20, '%');  // too much to be read in one piece with the main matrix
  const std::string whole = gzipped(
      tar_of({{"x/x_b.mtx", vector}, {"x/notes.txt", "?"}, {"x/x.mtx", main}, {"x/y.mtx", more}}));
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 6] = static_cast<char>(wrong_sum[whole.size() - 6] ^ 1);
  const TemporaryFolder folder;
  write_text(folder / "a.tar.gz", whole);

  CHECK(read_matrix(folder / "a.tar.gz").values[0] == 5.0f);
  check_all({
      {"a.tar.gz", gzipped(tar_of({{"x/x_b.mtx", vector}, {"x/y.mtx", main}})),
       ": no member NAME/NAME.mtx; expected one beside: x/x_b.mtx, x/y.mtx"},
      {"a.tar", tar_of({{"x/\x1b[2J\xff.mtx", main}}),
       ": no member NAME/NAME.mtx; expected one beside: x/\\x1b[2J\\xff.mtx"},
      {"a.tgz", gzipped(tar_of({{"x/x.mtx", kReal + "1 1 1\n1 2 5\n"}})),
       "(x/x.mtx):3: the column index is 2, outside [1, 1]"},
      {"a.tar", tar_of({{"x/x.mtx", main}}).substr(0, 540), ": cannot read member 'x/x.mtx': ..."},
      {"a.tar", tar_of({{"x/x.mtx", main}}, 8ull << 29), ": cannot read member 'x/x.mtx': ..."},
      {"a.tar", tar_of({{"x/x.mtx", main}}, 3),
       "(x/x.mtx):4: expected the row index, not '\\x00\\x00\\x00'"},
      {"a.tar", tar_of({{"x/x.mtx", main}}).replace(0, 1, "y"), ": cannot open the archive: ..."},
      {"a.tar", tar_of({{"x/x.mtx", main}, {"x/x_b.mtx", vector}}).substr(0, 1540),
       ": cannot read the next member: ..."},
      {"a.tar.gz", whole.substr(0, whole.size() - 4),
       ": truncated: the gzip data ends in the middle"},
      {"a.tar.gz", wrong_sum, ": damaged gzip data: incorrect data check"},
      {"a.tar.gz", gzipped("not a tar file"), ": cannot open the archive: ..."},
      {"a.tar.gz", "", ": cannot open the archive: ..."},
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

TEST_CASE("a line that no matrix needs is refused, before it fills the memory") {
  const std::string blanks(TextReader::kLongestLine, ' ');
  const std::string said = ": the line is longer than 16777216 bytes";
  const std::vector<Broken> files = {
      {"a.mtx.gz", gzipped(blanks), ":1" + said},
      {"a.mtx.gz", gzipped(kReal + "%" + blanks + "\n1 1 1\n"), ":2" + said},
      {"a.mtx.gz", gzipped(kReal + "2 2 2\n1 1 1\n" + blanks + "1 1 1\n"), ":4" + said},
      {"a.mtx.gz", gzipped(kReal + "2 2 2\n1 1 1\n" + blanks), ":4" + said},
      {"a.mtx.gz", gzipped(kReal + "2 2 2\n1 1 x\n" + blanks + "1 1 1\n"),
       ":3: expected the value, not 'x'"},
      {"a.txt.gz", gzipped("# Nodes: 2 Edges: 1\n1 2\n\n" + blanks + "\n"), ":4" + said},
      {"a.graph.gz", gzipped("2 1\n2\n" + blanks + "1\n"), ":3" + said},
  };
  for (const int count : {1, 40}) {
    const ThreadCount threads(count);
    check_all(files);
  }
  const TemporaryFolder folder;
  const std::string fits = blanks.substr(std::string("%\n").size());
  write_text(folder / "a.mtx.gz", gzipped(kReal + "%" + fits + "\n1 1 0\n"));
  CHECK(message_of(folder / "a.mtx.gz") == "no error");
}

TEST_CASE("a vertex of a METIS graph may have a line as long as its neighbours need") {
  constexpr int kLeaves = 1'200'000;
  std::string text = fmt::format("{} {}\n", kLeaves + 1, kLeaves);
  for (int leaf = 0; leaf < kLeaves; ++leaf) text += fmt::format("{:>14} ", leaf + 2);
  for (int leaf = 0; leaf < kLeaves; ++leaf) text += "\n1";
  const TemporaryFolder folder;
  write_text(folder / "star.graph", text);
  CHECK(read_matrix(folder / "star.graph").nnz() == 2 * kLeaves);
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

TEST_CASE("the program refuses a broken file with exit code 2 and one line that says why") {
  const char* program = std::getenv("TESSERA_BINARY");
  if (program == nullptr) {
    MESSAGE("skipped: TESSERA_BINARY does not name the program");
    return;
  }
  const TemporaryFolder folder;
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  const auto info = [&](const std::string& name, const std::string& bytes) {
    write_text(folder / name, bytes);
    const int status = std::system(fmt::format("'{}' matrix info '{}' > '{}' 2> '{}'", program,
                                               folder / name, folder / "out", folder / "err")
                                       .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };

  CHECK(info("good.mtx", kReal + "2 2 1\n1 2 5\n") == 0);
  CHECK(read_text(folder / "out").find("nnz") != std::string::npos);
  CHECK(read_text(folder / "err") == "");
  const std::string whole = gzipped(kReal + "2 2 1\n1 2 5\n");
  const Broken files[] = {
      {"a.mtx", "", ":1: the file is empty"},
      {"a.mtx", kReal + "2 2 1\n1 3 5\n", ":3: the column index is 3, outside [1, 2]"},
      {"a.mtx", kReal + "2 2 1\n1 1 \x01\x1b[2J\r\v\xff\n", ":3: expected the value, not '\\x01"},
      {"a.mtx.gz", whole.substr(0, whole.size() / 2), ": truncated"},
      {"a.tar.gz", whole, ": cannot open the archive"},
      {"a.npz", "PK\3\4 and nothing like a zip file\n\n", ": "},
      {"a.smtx", "2, 3, 2\n0 1 2\n0 3\n", ":3: the column index is 3"},
      {"a.graph", "3 2\n2\n1 4\n2\n", ":3: the neighbour is 4"},
      {"a.txt", "1 2\n3\n", ":2: expected the second node"},
      {"a.unknown", "1 2\n", " ends in none of the known endings"},
  };
  for (const Broken& file : files) {
    CAPTURE(file.name);
    CAPTURE(file.text);
    CHECK(info(file.name, file.text) == 2);
    const std::string said = read_text(folder / "err");
    CAPTURE(said);
    CHECK(said.starts_with("error: " + folder / file.name + file.message));
    CHECK(said.ends_with('\n'));
    CHECK(std::ranges::count(said, '\n') == 1);
    CHECK(read_text(folder / "out") == "");
  }
}

}  // namespace
}  // namespace tessera
