// The binary cache: what goes in comes out unchanged and uncopied, or not at all.
#include "formats/io/cache.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "formats/base/check.hpp"
#include "formats/io/matrix_file.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A cache that holds one matrix.
struct FilledCache {
  explicit FilledCache(CsrMatrix stored) : matrix(std::move(stored)) {
    cache.store(matrix, hash());
  }
  std::string hash() const { return content_hash(matrix); }
  std::string file() const { return cache.matrix_path(hash()); }
  std::optional<CsrMatrix> load() const { return cache.load(hash()); }

  CsrMatrix matrix;
  TemporaryFolder folder;
  MatrixCache cache{folder.path()};
};

TEST_CASE("a matrix comes out of the cache as it went in, without a copy") {
  const FilledCache filled(random_sparse(300, 1200, 0.8, 3));  // more than one chunk
  const auto is_mapped = [&] {
    return read_text("/proc/self/maps").find(filled.hash()) != std::string::npos;
  };

  std::optional<CsrMatrix> loaded = filled.load();

  REQUIRE(loaded.has_value());
  validate(*loaded);
  CHECK(*loaded == filled.matrix);
  CHECK(content_hash(*loaded) == filled.hash());
  const auto values = reinterpret_cast<std::uintptr_t>(loaded->values.data());
  const auto indices = reinterpret_cast<std::uintptr_t>(loaded->col_indices.data());
  CHECK(values - indices == (loaded->nnz() * 4 + 63) / 64 * 64);  // neighbours in one file
  CHECK(is_mapped());

  const Array<float> kept = loaded->values;
  loaded.reset();
  CHECK(is_mapped());
  CHECK(std::ranges::equal(kept, filled.matrix.values));
}

TEST_CASE("the mapping of a cached matrix ends with its last array") {
  const FilledCache filled(random_sparse(30, 20, 0.5, 4));

  { const auto loaded = filled.load(); }

  CHECK(read_text("/proc/self/maps").find(filled.hash()) == std::string::npos);
}

TEST_CASE("matrices without nonzeros, rows or columns are cached like any other") {
  for (const CsrMatrix& matrix :
       {CsrMatrix{}, CsrMatrix{0, 5, std::vector<std::int64_t>{0}, {}, {}},
        CsrMatrix{3, 0, std::vector<std::int64_t>(4, 0), {}, {}}, random_sparse(7, 1, 0.0, 1)}) {
    const FilledCache filled(matrix);
    const auto loaded = filled.load();
    REQUIRE(loaded.has_value());
    CHECK(*loaded == matrix);
  }
}

TEST_CASE("a cached file with any one bit turned is not used") {
  const FilledCache filled(random_sparse(23, 17, 0.4, 5));
  const std::string whole = read_text(filled.file());

  const Outcome outcome = in_child([&] {  // in a child because each refusal says so on stderr
    int used = 0;
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << byte % 8));
      write_text(filled.file(), damaged);
      used += filled.load().has_value();
    }
    _exit(used == 0 ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("its header is damaged") != std::string::npos);
  CHECK(outcome.output.find("its data is damaged") != std::string::npos);
  CHECK(filled.load() == std::nullopt);  // the last damage
  write_text(filled.file(), whole);
  CHECK(filled.load() == filled.matrix);
}

TEST_CASE("a cached file cut off anywhere, or longer than it was, is not used") {
  const FilledCache filled(random_sparse(23, 17, 0.4, 6));
  const std::string whole = read_text(filled.file());

  const Outcome outcome = in_child([&] {
    int used = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      write_text(filled.file(), whole.substr(0, size));
      used += filled.load().has_value();
    }
    write_text(filled.file(), whole + "x");
    used += filled.load().has_value();
    _exit(used == 0 ? 0 : 1);
  });

  CHECK(outcome.exit_code == 0);
  CHECK(outcome.output.find("it is too short") != std::string::npos);
}

TEST_CASE("a whole cached file under another matrix's name is not used") {
  const FilledCache filled(random_sparse(23, 17, 0.4, 7));
  const std::string other = content_hash(random_sparse(23, 17, 0.4, 8));
  fs::copy_file(filled.file(), filled.cache.matrix_path(other));

  CHECK_FALSE(filled.cache.load(other).has_value());
  CHECK(filled.load().has_value());
}

TEST_CASE("a cached file with right checksums that holds no matrix is not used, and says why") {
  const FilledCache filled(random_sparse(23, 17, 0.4, 13));
  const auto forged = [&](const std::function<void(CsrMatrix&)>& forge) {
    CsrMatrix matrix = filled.matrix;
    forge(matrix);
    return matrix;
  };
  const auto with = [](const auto& array, std::size_t place, auto value) {
    std::vector changed(array.begin(), array.end());
    changed[place] = value;
    return changed;
  };
  const std::vector<std::pair<CsrMatrix, std::string>> cases = {
      {forged([&](CsrMatrix& m) { m.col_indices = with(m.col_indices, 3, 1'000'000'000); }),
       "row 0 holds column 1000000000, outside [0, 17)"},
      {forged([&](CsrMatrix& m) { m.col_indices = with(m.col_indices, 0, -1); }),
       "row 0 holds column -1, outside [0, 17)"},
      {forged([&](CsrMatrix& m) { m.col_indices = with(m.col_indices, 1, m.col_indices[0]); }),
       "they must ascend"},
      {forged([&](CsrMatrix& m) { m.row_offsets = with(m.row_offsets, 5, 1'000'000'000L); }),
       "to 1000000000 of"},
      {forged([&](CsrMatrix& m) { m.row_offsets = with(m.row_offsets, 0, -8L); }),
       "row offsets start at -8, not 0"},
      {forged([&](CsrMatrix& m) { m.cols = 3; }), "outside [0, 3)"},
  };

  for (const auto& [matrix, problem] : cases) {
    const Outcome outcome = in_child([&] {
      filled.cache.store(matrix, filled.hash());
      _exit(filled.load() ? 1 : 0);
    });

    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.find("is not used: ") != std::string::npos);
    CHECK(outcome.output.find(problem) != std::string::npos);
  }
}

TEST_CASE("a folder or a FIFO in the place of a cached file counts as absent, and says so") {
  const FilledCache filled(random_sparse(23, 17, 0.4, 14));
  filled.cache.remember("a", filled.hash());
  const auto in_place = [&](const std::string& path, bool fifo) {
    fs::remove_all(path);
    if (fifo) return ::mkfifo(path.c_str(), 0600) == 0;
    return fs::create_directory(path);
  };
  for (const bool fifo : {false, true}) {
    REQUIRE(in_place(filled.file(), fifo));
    REQUIRE(in_place(filled.cache.source_path("a"), fifo));

    const Outcome outcome = in_child([&] {
      ::alarm(20);  // a FIFO without a writer would wait for ever
      const bool absent = !filled.load() && filled.cache.known_content("a").empty();
      _exit(absent ? 0 : 1);
    });

    CHECK(outcome.signal == 0);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.find(filled.file() + " is not used: it is no file") != std::string::npos);
    CHECK(outcome.output.find(filled.cache.source_path("a") + " is not used: it is no file") !=
          std::string::npos);
  }
}

TEST_CASE("a source is remembered by its whole identity, and a damaged note is forgotten") {
  const TemporaryFolder folder;
  const MatrixCache cache(folder.path());
  const std::string hash = content_hash(random_sparse(5, 5, 0.5, 9));

  CHECK(cache.known_content("file a\nof two lines") == "");
  cache.remember("file a\nof two lines", hash);
  CHECK(cache.known_content("file a\nof two lines") == hash);
  CHECK(cache.known_content("file a") == "");

  const std::string note = read_text(cache.source_path("file a\nof two lines"));
  for (std::size_t byte = 0; byte < note.size(); ++byte) {
    std::string damaged = note;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
    write_text(cache.source_path("file a\nof two lines"), damaged);
    CHECK(cache.known_content("file a\nof two lines") == "");
    write_text(cache.source_path("file a\nof two lines"), note.substr(0, byte));
    CHECK(cache.known_content("file a\nof two lines") == "");
  }
}

TEST_CASE("writers of one cached matrix may race with each other and with readers") {
  const FilledCache filled(random_sparse(200, 200, 0.5, 10));
  std::atomic<int> bad = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 25; ++i) {
          filled.cache.store(filled.matrix, filled.hash());
          const auto loaded = filled.load();
          bad += !loaded || !(*loaded == filled.matrix);
        }
      });
  }

  CHECK(bad == 0);
  const auto files = fs::directory_iterator(fs::path(filled.file()).parent_path());
  CHECK(std::distance(begin(files), end(files)) == 1);  // nothing left beside
}

TEST_CASE("a cache that cannot be written costs one warning and nothing else") {
  const TemporaryFolder folder;
  write_text(folder / "file", "in the way");
  const CsrMatrix matrix = random_sparse(5, 5, 0.5, 11);

  const Outcome outcome = in_child([&] {
    const MatrixCache cache(folder / "file/cache");
    cache.store(matrix, content_hash(matrix));
    cache.store(matrix, content_hash(matrix));
    cache.remember("a", content_hash(matrix));
    if (cache.load(content_hash(matrix)) || !cache.known_content("a").empty()) _exit(1);
  });

  CHECK(outcome.exit_code == 0);
  const std::size_t first = outcome.output.find("warning: the cache cannot be written");
  CHECK(first != std::string::npos);
  CHECK(outcome.output.find("warning", first + 1) == std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// The least processor time of a few runs, in seconds: unlike wall time, it does not depend on what
/// else the machine is doing.
double least_cpu_seconds(const std::function<void()>& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const std::clock_t start = std::clock();
    work();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST_CASE("a matrix loads from the cache at least 10 times faster than from its text") {
  // About 20 times: checksums and column indices are verified, and pages mapped.
  const FilledCache filled(random_sparse(2000, 2000, 0.15, 12));
  write_matrix(filled.matrix, filled.folder / "a.mtx");
  const ThreadCount threads(1);

  const double parse_s = least_cpu_seconds([&] {
    const CsrMatrix matrix = read_matrix(filled.folder / "a.mtx");
    REQUIRE(matrix.nnz() == filled.matrix.nnz());
  });
  const double load_s = least_cpu_seconds([&] { REQUIRE(filled.load().has_value()); });

  CAPTURE(parse_s);
  CAPTURE(load_s);
  CHECK(parse_s > 10 * load_s);
}
#endif

TEST_CASE("the cache folder follows its three variables in order") {
  const EnvironmentVariable home("HOME", "/home/ada");
  const EnvironmentVariable xdg("XDG_CACHE_HOME", "");
  const EnvironmentVariable own("TESSERA_CACHE", "");
  CHECK(cache_folder() == "/home/ada/.cache/tessera");
  {
    const EnvironmentVariable relative("XDG_CACHE_HOME", "cache");
    CHECK(cache_folder() == "/home/ada/.cache/tessera");
  }
  const EnvironmentVariable xdg_set("XDG_CACHE_HOME", "/var/cache/ada");
  CHECK(cache_folder() == "/var/cache/ada/tessera");
  {
    const EnvironmentVariable chosen("TESSERA_CACHE", "/scratch/cache");
    CHECK(cache_folder() == "/scratch/cache");
  }
  const EnvironmentVariable no_home("HOME", ""), no_xdg("XDG_CACHE_HOME", "");
  CHECK(cache_folder() == "");
  const MatrixCache nowhere;
  CHECK_NOTHROW(nowhere.remember("a", "b"));
  CHECK(nowhere.known_content("a") == "");
}

}  // namespace
}  // namespace tessera
