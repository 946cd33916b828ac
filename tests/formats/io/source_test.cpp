// Names of matrices, and loading them through the cache.
#include "formats/io/source.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/generators/generator.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/io/matrix_file.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::atomic<int> times_made = 0;  // by the reader and the generators of this file
std::atomic<int> generator_version = 1;

/// "rows cols nnz", then a line "row col value" a nonzero.
class TestFile final : public MatrixFile {
 public:
  std::vector<std::string> suffixes() const override { return {".tiny", ".tiny.txt"}; }

  CsrMatrix read(const std::string& path) const override {
    ++times_made;
    std::ifstream file(path);
    CsrMatrix matrix;
    std::int64_t nnz = 0;
    require(bool(file >> matrix.rows >> matrix.cols >> nnz) && matrix.rows >= 0 && nnz >= 0,
            "{}:1: expected rows, columns and nonzeros", path);
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> cols;
    std::vector<float> values;
    for (std::int64_t k = 0; k < nnz; ++k) {
      std::int64_t row = 0;
      std::int32_t col = 0;
      float value = 0;
      require(bool(file >> row >> col >> value) && row >= 0 && row < matrix.rows,
              "{}:{}: expected row, column and value", path, k + 2);
      while (static_cast<std::int64_t>(offsets.size()) <= row) offsets.push_back(k);
      cols.push_back(col);
      values.push_back(value);
    }
    while (static_cast<std::int64_t>(offsets.size()) <= matrix.rows) offsets.push_back(nnz);
    matrix.row_offsets = std::move(offsets);
    matrix.col_indices = std::move(cols);
    matrix.values = std::move(values);
    validate(matrix);
    return matrix;
  }

  void write(const CsrMatrix& matrix, const std::string& path) const override {
    std::string text = fmt::format("{} {} {}\n", matrix.rows, matrix.cols, matrix.nnz());
    for (std::int32_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k)
        text += fmt::format("{} {} {:.9g}\n", row, matrix.col_indices[k], matrix.values[k]);
    write_text(path, text);
  }
};

const Register<MatrixFile> file_entry{{
    .name = "test file",
    .summary = "of the tests",
    .make = [](const Params&) { return std::make_unique<TestFile>(); },
}};

class Wave final : public Generator {
 public:
  Wave(std::int64_t size, std::int64_t seed)
      : size_(static_cast<std::int32_t>(size)), seed_(static_cast<std::uint64_t>(seed)) {}
  CsrMatrix generate() const override {
    ++times_made;
    return random_sparse(size_, size_, 0.3, seed_);
  }
  int version() const override { return generator_version; }

 private:
  std::int32_t size_;
  std::uint64_t seed_;
};

const Register<Generator> wave_entry{{
    .name = "test_wave",
    .summary = "of the tests",
    .params = {{"size", std::int64_t{12}, "rows and columns", {}, 0, 1000},
               {"gain", 0.5, "of no effect"},
               {"seed", std::int64_t{1}, "of the pattern"}},
    .make =
        [](const Params& p) {
          return std::make_unique<Wave>(p.integer("size"), p.integer("seed"));
        },
}};

const Register<Generator> wave2_entry{{
    .name = "test_wave2d",
    .summary = "of the tests",
    .params = {{"side", std::int64_t{3}, "rows and columns", {}, 0, 1000}},
    .make = [](const Params& p) { return std::make_unique<Wave>(p.integer("side"), 2); },
}};

class Mirror final : public Generator {
 public:
  Mirror(std::string of, std::string label) : of_(std::move(of)), label_(std::move(label)) {}
  CsrMatrix generate() const override {
    ++times_made;
    const auto made_of = [](std::size_t offsets) {
      return CsrMatrix{0, 0, std::vector<std::int64_t>(offsets, 0), {}, {}};
    };
    if (label_ == "huge") return made_of(std::size_t{1} << 59);     // no memory is so large
    if (label_ == "endless") return made_of(std::size_t{1} << 61);  // nor any vector
    return transpose(load_matrix(of_).matrix);
  }

 private:
  std::string of_, label_;
};

const Register<Generator> mirror_entry{{
    .name = "test_mirror",
    .summary = "of the tests",
    .params = {{"of", std::string("test_wave"), "which matrix"}, {"label", std::string("a"), ""}},
    .make = [](const Params& p) { return std::make_unique<Mirror>(p.text("of"), p.text("label")); },
}};

/// Data folders and a cache of its own.
struct Workshop {
  TemporaryFolder folder;
  std::string first = folder / "first", second = folder / "second, (2)";
  EnvironmentVariable data{"TESSERA_DATA", first + "::" + second};
  EnvironmentVariable cache{"TESSERA_CACHE", folder / "cache"};

  Workshop() {
    for (const std::string& each : {first, second, folder / "cache/downloads/HB"})
      fs::create_directories(each);
  }
  static std::string put(const std::string& path, const CsrMatrix& matrix) {
    TestFile().write(matrix, path);
    return path;
  }
};

std::string message_of(std::string_view spec) {
  try {
    find_matrix(spec);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST_CASE("a call is read with its parameters, nested calls and quotes") {
  const Call call = parse_call(R"( mix ( a = 3,of=rmat(scale=4, of="x)\"y"), p="a, \"b\\" ) )");

  CHECK(call.name == "mix");
  REQUIRE(call.given.size() == 3);
  CHECK(to_text(call.given.at("a")) == "3");
  CHECK(to_text(call.given.at("of")) == R"(rmat(scale=4, of="x)\"y"))");
  CHECK(to_text(call.given.at("p")) == R"(a, "b\)");
  CHECK(parse_call("mix").given.empty());
  CHECK(parse_call("mix()").given.empty());
  for (const std::string value : {"plain", "a,b", " edge", "(", "q\"", "\\", "", "a b"})
    CHECK(to_text(parse_call("f(x=" + quote_value(value) + ")").given.at("x")) == value);
}

TEST_CASE("a malformed call is an error with the place and the expectation") {
  const auto expect = [](std::string_view text, std::string_view place) {
    CHECK_THROWS_WITH_AS(parse_call(text), fmt::format("'{}', {}", text, place).c_str(), Error);
  };
  expect("", "character 1 (the end): expected a name");
  expect("(a=1)", "character 1 ('('): expected a name");
  expect("f(a=1", "character 6 (the end): expected ',' or ')'");
  expect("f(a=1,)", "character 7 (')'): expected a parameter name");
  expect("f(a)", "character 4 (')'): expected '=' and a value after 'a'");
  expect("f(a=)", "character 5 (')'): expected a value");
  expect("f(a=1, a=2)", "character 8 ('a'): expected 'a' only once");
  expect("f(a=g(1)", "character 9 (the end): expected ',' or ')'");
  expect("f(a=g(1", "character 6 ('('): expected a closing ')' for the one here");
  expect("f(a=\"x)", "character 5 ('\"'): expected a closing '\"' for the one here");
  expect("f(a=1)b", "character 7 ('b'): expected nothing after the closing ')'");
  expect("f(a=\"x\"y)", "character 8 ('y'): expected ',' or ')'");
}

TEST_CASE("a path, a bare name and a downloaded name find their files") {
  const Workshop workshop;
  const CsrMatrix matrix = random_sparse(6, 8, 0.5, 1);
  workshop.put(workshop.second + "/cora.tiny.txt", matrix);
  workshop.put(workshop.folder / "cache/downloads/HB/bcsstk17.tiny", matrix);

  const MatrixSource by_path = find_matrix(workshop.second + "/../second, (2)/cora.tiny.txt");
  CHECK(by_path.path == fs::canonical(workshop.second).string() + "/cora.tiny.txt");
  CHECK(by_path.canonical == by_path.path);
  CHECK(by_path.reference == by_path.path);
  CHECK(find_matrix(" cora ").reference == "cora");
  CHECK(find_matrix("HB/bcsstk17").reference == "HB/bcsstk17");
  CHECK(by_path.name == "cora");
  CHECK_FALSE(by_path.synthetic());
  CHECK(find_matrix("cora").path == by_path.path);
  CHECK(find_matrix(" cora.tiny.txt ").path == by_path.path);
  CHECK(find_matrix(by_path.canonical).path == by_path.path);
  CHECK(find_matrix("HB/bcsstk17").name == "bcsstk17");

  workshop.put(workshop.first + "/cora.tiny", matrix);  // an earlier folder comes first
  CHECK(find_matrix("cora").path != by_path.path);
  workshop.put(workshop.first + "/cora.tiny.txt", matrix);
  CHECK(contains(message_of("cora"), "'cora' could be any of"));
}

TEST_CASE("an unknown matrix name is Unsupported and lists the searched places") {
  const Workshop workshop;
  workshop.put(workshop.second + "/pubmed.tiny", random_sparse(3, 3, 0.5, 1));

  CHECK_THROWS_AS(find_matrix("nowhere"), Unsupported);
  const std::string message = message_of("pubmde");
  CHECK(contains(message, "there is no matrix 'pubmde', did you mean 'pubmed'; looked in: "));
  for (const std::string& folder :
       {workshop.first, workshop.second, workshop.folder / "cache/downloads"})
    CHECK(contains(message, folder));
  CHECK(contains(message, ".tiny"));
  CHECK(contains(message_of("test_wav14"), "did you mean 'test_wave'"));
  CHECK(contains(message_of("HB/bcsstk18"), "`tessera matrix fetch HB/bcsstk18` downloads one"));
  CHECK_FALSE(contains(message_of("./HB/bcsstk18.tiny"), "fetch"));
  CHECK(contains(message_of("  "), "a matrix name is empty"));
  write_text(workshop.folder / "notes.odt", "no matrix");
  CHECK(contains(message_of(workshop.folder / "notes.odt"), "none of the known endings"));
}

TEST_CASE("what lies under a matrix's name and is no file is told with its kind") {
  const Workshop workshop;
  const auto path = [&](const std::string& name) { return workshop.folder / name; };
  fs::create_directory(path("a.tiny"));
  REQUIRE(::mkfifo(path("b.tiny").c_str(), 0600) == 0);
  fs::create_symlink("c.tiny", path("c.tiny"));
  fs::create_symlink("nowhere", path("d.tiny"));
  REQUIRE(::mkfifo((workshop.second + "/karate.tiny").c_str(), 0600) == 0);

  CHECK(message_of(path("a.tiny")) == path("a.tiny") + ": it is a folder; expected a file");
  CHECK(message_of(path("b.tiny")) == path("b.tiny") + ": it is a FIFO; expected a file");
  CHECK(message_of(path("c.tiny")) ==
        path("c.tiny") + ": it is a loop of symbolic links; expected a file");
  CHECK(message_of(path("d.tiny")) ==
        path("d.tiny") + ": it is a symbolic link to nothing; expected a file");
  const std::string in_data = workshop.second + "/karate.tiny: it is a FIFO; expected a file";
  CHECK(message_of("karate") == in_data);
  CHECK(message_of("karate.tiny") == in_data);
}

TEST_CASE("a matrix name with control characters or without UTF-8 is refused, escaped") {
  const Workshop workshop;
  const std::string why =
      "': the name of a matrix holds no control characters and no bytes that are not UTF-8; rename "
      "the file";
  for (const auto& [name, shown] :
       {std::pair<std::string, std::string>("\x1b[2Jb.tiny", "\\x1b[2Jb.tiny"),
        {"\xff.tiny", "\\xff.tiny"}}) {
    const std::string path = workshop.put(workshop.folder / name, random_sparse(3, 3, 0.5, 1));
    CHECK(message_of(path) == fmt::format("'{}{}", workshop.folder / shown, why));
    CHECK(message_of(name) == fmt::format("'{}{}", shown, why));
    fs::create_symlink(path, workshop.folder / "plain.tiny");
    CHECK(message_of(workshop.folder / "plain.tiny") ==
          fmt::format("'{}{}", workshop.folder / shown, why));
    fs::remove(workshop.folder / "plain.tiny");
  }
  const std::string group =
      workshop.put(workshop.folder / "gr\xc3\xbc\xc3\x9f.tiny", random_sparse(3, 3, 0.5, 1));
  CHECK(find_matrix(group).name == "gr\xc3\xbc\xc3\x9f");
}

TEST_CASE("generators take parameters, defaults and a trailing number") {
  const Workshop workshop;

  const MatrixSource call = find_matrix("test_wave( seed=7 )");
  CHECK(call.canonical == "test_wave(size=12, gain=0.5, seed=7)");
  CHECK(call.name == "test_wave(seed=7)");
  CHECK(call.generator == "test_wave");
  CHECK(call.synthetic());
  CHECK(call.params.integer("seed") == 7);
  CHECK(find_matrix(call.canonical).canonical == call.canonical);
  CHECK(find_matrix("test_wave").canonical == "test_wave(size=12, gain=0.5, seed=1)");

  CHECK(find_matrix("test_wave_20").params.integer("size") == 20);
  CHECK(find_matrix("test_wave20").canonical == find_matrix("test_wave(size=20)").canonical);
  CHECK(find_matrix("test_wave20").name == "test_wave20");
  CHECK(find_matrix("test_wave20").reference == "test_wave20");
  CHECK(call.reference == call.canonical);
  CHECK(find_matrix("test_wave2d5").generator == "test_wave2d");
  CHECK_THROWS_WITH_AS(find_matrix("test_wave2000"),
                       "generator test_wave: size = 2000 is outside [0, 1000]", Error);
  CHECK(contains(message_of("tset_wave(size=3)"),
                 "unknown generator 'tset_wave', did you mean 'test_wave'"));
  CHECK(contains(message_of("test_wave(sized=3)"), "did you mean 'size'"));
  CHECK(contains(message_of("test_wave(size=3"), "character 17 (the end)"));
}

TEST_CASE("a generator beyond the memory is told with its complete call") {
  const Workshop workshop;
  for (const std::string label : {"huge", "endless"}) {
    const std::string call =
        fmt::format("test_mirror(of=test_wave(size=3, gain=0.5, seed=1), label={})", label);
    const std::string said = call + ": this machine has too little memory for the matrix";
    CHECK_THROWS_WITH_AS(load_matrix(call), said.c_str(), OutOfMemory);
  }
}

TEST_CASE("a file in a data folder comes before a generator of that name") {
  const Workshop workshop;
  workshop.put(workshop.first + "/test_wave9.tiny", random_sparse(2, 2, 0.5, 1));

  CHECK_FALSE(find_matrix("test_wave9").synthetic());
  CHECK(find_matrix("test_wave9").reference == "test_wave9");  // as where there is no file
  CHECK(find_matrix("test_wave(size=9)").synthetic());
}

TEST_CASE("of alternatives the first one that is here is taken, under its own name") {
  const Workshop workshop;
  const std::string spec = "cora or nowhere or test_wave(size=5)";
  CHECK(find_matrix(spec).name == "test_wave(size=5)");
  // Another matrix than the file's, so another name in points.
  CHECK(matrix_reference(spec) == find_matrix("test_wave(size=5)").canonical);
  CHECK(find_matrix("test_mirror(of=cora or test_wave5)").canonical ==
        find_matrix("test_mirror(of=test_wave5)").canonical);
  workshop.put(workshop.first + "/cora.tiny", random_sparse(2, 2, 0.5, 1));
  CHECK(find_matrix(spec).name == "cora");
  CHECK(matrix_reference(spec) == "cora");
  workshop.put(workshop.first + "/this or that.tiny", random_sparse(3, 3, 0.5, 1));
  CHECK(find_matrix(workshop.first + "/this or that.tiny").name == "this or that");

  CHECK_THROWS_AS(find_matrix("absent or nowhere"), Unsupported);
  CHECK(contains(message_of("absent or nowhere"), "there is no matrix 'nowhere'"));
  CHECK(matrix_reference("absent or nowhere") == "nowhere");
  CHECK(contains(message_of("test_wave(sized=3) or test_wave5"), "did you mean 'size'"));
}

TEST_CASE("a matrix is referred to alike where its file is and where it is not") {
  const char* const names[] = {"cora", " HB/bcsstk17 ", "test_mirror(of=cora)",
                               "test_mirror(label=b, of=test_mirror(of=cora))", "test_wave5"};
  for (const char* name : names) {
    CAPTURE(name);
    const Workshop workshop;
    const std::string absent = matrix_reference(name);
    workshop.put(workshop.second + "/cora.tiny", random_sparse(6, 8, 0.5, 1));
    workshop.put(workshop.folder / "cache/downloads/HB/bcsstk17.tiny", random_sparse(3, 3, 0.5, 1));

    CHECK(absent == find_matrix(name).reference);
    CHECK(absent == matrix_reference(name));
  }
  CHECK(matrix_reference("test_mirror(of=cora)") == "test_mirror(of=cora, label=a)");
  CHECK_THROWS_AS(matrix_reference("test_mirror(lable=b, of=cora)"), Error);
}

TEST_CASE("a parameter may name a matrix, to any reasonable depth") {
  const Workshop workshop;
  workshop.put(workshop.second + "/cora.tiny", random_sparse(6, 8, 0.5, 1));

  const MatrixSource nested = find_matrix("test_mirror(of=test_mirror(of=test_wave5), label=b)");
  CHECK(nested.canonical ==
        "test_mirror(of=test_mirror(of=test_wave(size=5, gain=0.5, seed=1), label=a), label=b)");
  CHECK(nested.name == "test_mirror(of=test_mirror(of=test_wave5), label=b)");
  CHECK(load_matrix(nested).matrix == load_matrix("test_wave5").matrix);

  const MatrixSource of_file = find_matrix("test_mirror(of=cora)");
  CHECK(of_file.name == "test_mirror(of=cora)");
  CHECK(of_file.reference == "test_mirror(of=cora, label=a)");
  CHECK(contains(of_file.canonical, "second, (2)/cora.tiny\""));  // quoted: commas and brackets
  CHECK(find_matrix(of_file.canonical).canonical == of_file.canonical);
  CHECK(load_matrix(of_file.canonical).matrix.rows == 8);
  CHECK(contains(message_of("test_mirror(of=nowhere)"), "there is no matrix 'nowhere'"));

  std::string deep = "test_wave";
  for (int i = 0; i < 5000; ++i) deep = "test_mirror(of=" + deep + ")";
  CHECK(contains(message_of(deep), "nested 16 deep, not deeper"));
}

TEST_CASE("a second load comes from the cache and gives the same matrix") {
  const Workshop workshop;
  const CsrMatrix matrix = random_sparse(40, 30, 0.3, 5);
  const std::string path = workshop.put(workshop.first + "/a.tiny", matrix);
  for (const std::string& spec : {path, std::string("test_wave(size=30, seed=4)")}) {
    CHECK(known_content_hash(find_matrix(spec)) == "");
    const LoadedMatrix parsed = load_matrix(spec);
    const int made = times_made;
    const LoadedMatrix cached = load_matrix(spec);
    CHECK(times_made == made);
    CHECK_FALSE(parsed.from_cache);
    CHECK(cached.from_cache);
    CHECK(cached.matrix == parsed.matrix);
    CHECK(cached.content_hash == content_hash(parsed.matrix));
    CHECK(known_content_hash(find_matrix(spec)) == cached.content_hash);
    CHECK(cached.load_s > 0);

    const LoadedMatrix again = load_matrix(spec, false);
    CHECK_FALSE(again.from_cache);
    CHECK(times_made == made + 1);
    CHECK(again.matrix == parsed.matrix);
    CHECK(again.content_hash == cached.content_hash);
  }
  CHECK(load_matrix(path).matrix == matrix);
}

TEST_CASE("a changed file is read again, even when its size and date are the same") {
  const Workshop workshop;
  const CsrMatrix old_matrix{1, 9, std::vector<std::int64_t>{0, 1}, std::vector<std::int32_t>{3},
                             std::vector<float>{1.5f}};
  CsrMatrix new_matrix = old_matrix;
  new_matrix.col_indices = std::vector<std::int32_t>{4};
  const std::string path = workshop.put(workshop.first + "/a.tiny", old_matrix);
  const auto date = fs::last_write_time(path);
  const LoadedMatrix before = load_matrix(path);
  const LoadedMatrix mirrored = load_matrix("test_mirror(of=a)");

  struct stat status;
  const auto change_time = [&] {
    REQUIRE(stat(path.c_str(), &status) == 0);
    return std::pair(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
  };
  const auto changed = change_time();
  do workshop.put(path, new_matrix);  // until the file system's clock has moved on
  while (change_time() == changed);
  fs::last_write_time(path, date);

  CHECK(before.matrix == old_matrix);
  CHECK(load_matrix(path).matrix == new_matrix);
  CHECK(load_matrix("test_mirror(of=a)").matrix == transpose(new_matrix));
  CHECK(mirrored.matrix == transpose(old_matrix));
}

TEST_CASE("a generator with a new version runs again") {
  const Workshop workshop;
  load_matrix("test_wave");
  CHECK(load_matrix("test_wave").from_cache);

  generator_version = 2;

  CHECK_FALSE(load_matrix("test_wave").from_cache);
  CHECK(load_matrix("test_wave").from_cache);
  generator_version = 1;
}

TEST_CASE("a damaged cache is rebuilt, and one that cannot be written stops no load") {
  const Workshop workshop;
  const LoadedMatrix first = load_matrix("test_wave15");
  const std::string file = MatrixCache().matrix_path(first.content_hash);
  std::string bytes = read_text(file);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 4);
  write_text(file, bytes);

  const LoadedMatrix rebuilt = load_matrix("test_wave15");
  CHECK_FALSE(rebuilt.from_cache);
  CHECK(rebuilt.matrix == load_matrix("test_wave15").matrix);
  CHECK(load_matrix("test_wave15").from_cache);

  write_text(workshop.folder / "file", "in the way");
  const EnvironmentVariable unwritable("TESSERA_CACHE", workshop.folder / "file/cache");
  const LoadedMatrix uncached = load_matrix("test_wave15");
  CHECK_FALSE(uncached.from_cache);
  CHECK(uncached.matrix == rebuilt.matrix);
}

}  // namespace
}  // namespace tessera
