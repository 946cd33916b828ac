// Downloads, against a server on the loopback interface that misbehaves on request.
#include "formats/io/fetch.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/io/collection_index.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// tests/http_server.py, running for as long as the object lives.
class Server {
 public:
  Server(const std::string& folder, const std::string& log) {
    int in[2], out[2];
    require(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "cannot make a pipe");
    const std::string script = std::string(TESSERA_SOURCE_DIR) + "/tests/http_server.py";
    child_ = fork();
    if (child_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execlp("python3", "python3", script.c_str(), folder.c_str(), log.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    stdin_ = in[1];
    std::string line;
    for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    close(out[0]);
    require(!line.empty(), "{} does not start", script);
    port_ = std::stoi(line);
  }
  ~Server() {
    close(stdin_);  // which ends it
    waitpid(child_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url(const std::string& mode) const {
    return fmt::format("http://127.0.0.1:{}/{}", port_, mode);
  }

 private:
  pid_t child_ = -1;
  int stdin_ = -1;
  int port_ = 0;
};

/// A server with one file, HB/thing.tar.gz, and a place to fetch into.
struct Bench {
  TemporaryFolder folder;
  std::string body = random_gzip_like();
  EnvironmentVariable no_proxy{"no_proxy", "127.0.0.1"};
  EnvironmentVariable cache{"TESSERA_CACHE", folder / "cache"};
  Server server{prepared(), folder / "log"};
  std::string path = folder / "cache/downloads/HB/thing.tar.gz";

  static std::string random_gzip_like() {
    std::string bytes = "\x1f\x8b";
    for (std::uint64_t i = 0; i < 300000; ++i)
      bytes += static_cast<char>(random_bits(17, i) & 0xff);
    return bytes;
  }
  std::string prepared() const {
    fs::create_directories(folder / "served/HB");
    write_text(folder / "served/HB/thing.tar.gz", body);
    write_text(folder / "served/ca-GrQc.txt.gz", body);
    return folder / "served";
  }
  FetchOptions options(const std::string& mode) const {
    FetchOptions options;
    options.suitesparse_url = server.url(mode);
    options.snap_url = server.url(mode);
    options.download.retry_wait_s = 0.01;
    return options;
  }
  FetchedFile fetch(const std::string& mode) const {
    return fetch_matrix("HB/thing", options(mode));
  }
  /// The requests since the last call, a line each.
  std::string requests() {
    const std::string log = read_text(folder / "log");
    const std::string news = log.substr(read_);
    read_ = log.size();
    return news;
  }
  std::string error_of(const FetchOptions& options) const {
    try {
      fetch_matrix("HB/thing", options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string error_of(const std::string& mode) const { return error_of(options(mode)); }
  /// Names in the folder of the download.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(fs::path(path).parent_path()))
      names.push_back(file.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

 private:
  std::size_t read_ = 0;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST_CASE("a fetched file is whole, recorded, and not fetched again while it stays so") {
  Bench bench;

  std::int64_t last_done = 0, last_total = 0;
  FetchOptions options = bench.options("plain");
  options.download.progress = [&](std::int64_t done, std::int64_t total) {
    CHECK(done >= last_done);
    last_done = done;
    last_total = total;
  };
  const FetchedFile fetched = fetch_matrix("HB/thing", options);

  CHECK(fetched.downloaded);
  CHECK(fetched.path == bench.path);
  CHECK(read_text(bench.path) == bench.body);
  CHECK(fetched.bytes == static_cast<std::int64_t>(bench.body.size()));
  CHECK(last_done == fetched.bytes);
  CHECK(last_total == fetched.bytes);
  CHECK(bench.requests() == "plain HB/thing.tar.gz -\n");
  CHECK(bench.leftovers() == std::vector<std::string>{"thing.tar.gz", "thing.tar.gz.json"});
  const auto record = nlohmann::json::parse(read_text(bench.path + ".json"));
  CHECK(record.at("url") == bench.server.url("plain") + "/HB/thing.tar.gz");
  CHECK(record.at("bytes") == fetched.bytes);
  CHECK(record.at("sha256") == fetched.sha256);
  CHECK(record.at("etag") == "\"v1\"");
  CHECK(record.at("date").get<std::string>().size() == 20);

  const FetchedFile again = bench.fetch("plain");
  CHECK_FALSE(again.downloaded);
  CHECK(again.sha256 == fetched.sha256);
  CHECK(bench.requests() == "");

  std::string damaged = bench.body;
  damaged[5000] = static_cast<char>(damaged[5000] ^ 1);
  for (const std::string& bad : {damaged, bench.body.substr(0, 9), std::string()}) {
    write_text(bench.path, bad);
    CHECK(bench.fetch("plain").downloaded);
    CHECK(read_text(bench.path) == bench.body);
  }
  for (const char* bad : {"", "{}", "[1]", R"({"bytes": "many"})"}) {
    write_text(bench.path + ".json", bad);
    CHECK(bench.fetch("plain").downloaded);
  }
}

TEST_CASE("the SHA-256 is that of the standard, and a file with another one is refused") {
  Bench bench;
  write_text(bench.folder / "served/HB/thing.tar.gz",
             "\x1f\x8b"
             "abc");
  FetchOptions options = bench.options("plain");
  // printf '\x1f\x8babc' | sha256sum
  options.sha256 = "49d07e32b9cecb2ae7f8c77f8d75b400d00a9d671f74e13455c0a8cbb9d627a6";

  CHECK(fetch_matrix("HB/thing", options).sha256 == options.sha256);
  std::string upper = options.sha256;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  options.sha256 = upper;
  CHECK_FALSE(fetch_matrix("HB/thing", options).downloaded);

  options.sha256[3] = options.sha256[3] == '0' ? '1' : '0';
  fs::remove(bench.path);
  CHECK(contains(bench.error_of(options),
                 "its SHA-256 is 49d07e32b9cecb2ae7f8c77f8d75b400d00a9d671f74e13455c0a8cbb9d627a6, "
                 "expected "));
  CHECK(bench.leftovers() == std::vector<std::string>{"thing.tar.gz.json"});
  options.sha256 = "12ab";
  CHECK(bench.error_of(options) == "'12ab' is no SHA-256: expected 64 hexadecimal digits");
}

TEST_CASE("one turned bit is noticed when the SHA-256 is known") {
  Bench bench;
  FetchOptions options = bench.options("corrupt");
  options.sha256 = bench.fetch("plain").sha256;
  fs::remove(bench.path);

  CHECK(contains(bench.error_of(options), "its SHA-256 is "));
  CHECK_FALSE(fs::exists(bench.path));
}

TEST_CASE("a broken download is resumed where it broke off") {
  Bench bench;

  CHECK(bench.fetch("truncate_once").downloaded);

  CHECK(read_text(bench.path) == bench.body);
  CHECK(bench.requests() == fmt::format("truncate_once HB/thing.tar.gz -\n"
                                        "truncate_once HB/thing.tar.gz bytes={}-\n",
                                        bench.body.size() / 2));
}

TEST_CASE("a download that was stopped is resumed by the next one") {
  Bench bench;
  FetchOptions options = bench.options("plain");
  options.download.progress = [](std::int64_t done, std::int64_t) {
    require(done < 100000, "stopped by the user");
  };

  CHECK(bench.error_of(options) == "stopped by the user");
  CHECK_FALSE(fs::exists(bench.path));
  const auto kept = fs::file_size(bench.path + ".part");
  CHECK(kept >= 100000);
  CHECK(kept < bench.body.size());
  bench.requests();

  CHECK(bench.fetch("plain").downloaded);
  CHECK(read_text(bench.path) == bench.body);
  CHECK(bench.requests() == fmt::format("plain HB/thing.tar.gz bytes={}-\n", kept));
  CHECK(bench.leftovers() == std::vector<std::string>{"thing.tar.gz", "thing.tar.gz.json"});
}

TEST_CASE("a partial file that cannot be continued safely is fetched from the start") {
  for (const char* mode : {"no_range", "changed", "no_etag"}) {
    CAPTURE(mode);
    Bench bench;
    CHECK(bench.fetch(mode).downloaded);
    CHECK(read_text(bench.path) == bench.body);
  }

  Bench bench;  // bytes of unknown origin, and ones beyond the end
  fs::create_directories(fs::path(bench.path).parent_path());
  write_text(bench.path + ".part", "\x1f\x8b and more");
  CHECK(bench.fetch("plain").downloaded);
  CHECK(read_text(bench.path) == bench.body);
  fs::remove(bench.path);
  write_text(bench.path + ".part", bench.body + "and more");
  write_text(bench.path + ".part.json",
             nlohmann::json{{"url", bench.server.url("plain") + "/HB/thing.tar.gz"},
                            {"validator", "\"v1\""}}
                 .dump());
  CHECK(bench.fetch("plain").downloaded);
  CHECK(read_text(bench.path) == bench.body);
}

TEST_CASE("a download follows no link that somebody planted under the names it uses") {
  for (const char* name : {".part", ".part.json", ".json"}) {
    for (const bool hard : {false, true}) {
      CAPTURE(name);
      CAPTURE(hard);
      Bench bench;
      const std::string victim = bench.folder / "victim";
      write_text(victim, "kept");
      fs::create_directories(fs::path(bench.path).parent_path());
      if (hard)
        fs::create_hard_link(victim, bench.path + name);
      else
        fs::create_symlink(victim, bench.path + name);

      CHECK(bench.fetch("plain").downloaded);

      CHECK(read_text(victim) == "kept");
      CHECK(read_text(bench.path) == bench.body);
      CHECK(fs::is_regular_file(fs::symlink_status(bench.path)));
      CHECK(bench.leftovers() == std::vector<std::string>{"thing.tar.gz", "thing.tar.gz.json"});
    }
  }
}

TEST_CASE("a download waits for no pipe, and names its file when it cannot be written") {
  Bench bench;
  fs::create_directories(fs::path(bench.path).parent_path());
  for (const char* name : {".part", ".part.json", ".json"})
    REQUIRE(mkfifo((bench.path + name).c_str(), 0600) == 0);
  CHECK(bench.fetch("plain").downloaded);
  CHECK(read_text(bench.path) == bench.body);

  fs::remove(bench.path);
  fs::create_directories(bench.path + ".part/full");
  CHECK(bench.error_of("plain") == bench.path + " cannot be written: File exists");
}

TEST_CASE("a partial file beside a whole one does not stay") {
  Bench bench;
  bench.fetch("plain");
  write_text(bench.path + ".part", "half");
  write_text(bench.path + ".part.json", "{}");

  CHECK_FALSE(bench.fetch("plain").downloaded);

  CHECK(bench.leftovers() == std::vector<std::string>{"thing.tar.gz", "thing.tar.gz.json"});
}

TEST_CASE("transient errors are retried, others are reported at once") {
  Bench bench;

  CHECK(bench.fetch("503_once").downloaded);
  CHECK(bench.requests() == "503_once HB/thing.tar.gz -\n503_once HB/thing.tar.gz -\n");
  fs::remove(bench.path);

  const std::string url = "/HB/thing.tar.gz: ";
  CHECK(bench.error_of("503") ==
        bench.server.url("503") + url + "the server answered 503 (attempt 4 of 4)");
  bench.requests();
  CHECK(bench.error_of("404") ==
        bench.server.url("404") + url + "the server answered 404 (not found)");
  CHECK(bench.requests() == "404 HB/thing.tar.gz -\n");
  CHECK(contains(bench.error_of("html"), "the downloaded file is not gzipped"));
  CHECK(contains(bench.error_of("shifted"), "requested the bytes from 150001, the server sent"));
  CHECK_FALSE(fs::exists(bench.path));
}

TEST_CASE("an answer shorter than announced is an error after all attempts") {
  Bench bench;
  FetchOptions options = bench.options("truncate");
  options.download.attempts = 2;

  const std::string error = bench.error_of(options);

  CHECK(contains(error, fmt::format("of {} bytes", bench.body.size())));
  CHECK(contains(error, "(attempt 2 of 2)"));
  CHECK_FALSE(fs::exists(bench.path));
}

TEST_CASE("hosts that do not answer are errors that name the URL") {
  Bench bench;
  FetchOptions options = bench.options("stall");
  options.download.attempts = 1;
  options.download.stall_s = 1;
  CHECK(contains(bench.error_of(options), "/stall/HB/thing.tar.gz: "));

  options.suitesparse_url = "http://127.0.0.1:1";  // a port that nobody listens on
  CHECK(contains(bench.error_of(options), "http://127.0.0.1:1/HB/thing.tar.gz: "));
  options.suitesparse_url = "file:///etc";
  CHECK(contains(bench.error_of(options), "file:///etc/HB/thing.tar.gz: "));
}

TEST_CASE("redirections and answers of unknown length are followed to their end") {
  for (const char* mode : {"redirect", "chunked"}) {
    CAPTURE(mode);
    Bench bench;
    CHECK(bench.fetch(mode).bytes == static_cast<std::int64_t>(bench.body.size()));
    CHECK(read_text(bench.path) == bench.body);
  }
}

TEST_CASE("a request that began encrypted is not redirected to one that is not") {
  CHECK(std::string(redirection_protocols("https://sparse.tamu.edu/MM/HB/a.tar.gz")) == "https");
  CHECK(std::string(redirection_protocols("HTTPS://sparse.tamu.edu/MM/HB/a.tar.gz")) == "https");
  CHECK(std::string(redirection_protocols("http://127.0.0.1/a")) == "http,https");
}

TEST_CASE("a download larger than allowed is refused, announced or not, and tried once") {
  Bench bench;
  for (const char* mode : {"plain", "chunked"}) {
    CAPTURE(mode);
    FetchOptions options = bench.options(mode);
    options.download.most_bytes = std::ssize(bench.body) - 1;

    CHECK(bench.error_of(options).ends_with(
        fmt::format(" bytes, and at most {} are downloaded", bench.body.size() - 1)));
    CHECK(bench.requests() == fmt::format("{} HB/thing.tar.gz -\n", mode));
    CHECK_FALSE(fs::exists(bench.path));

    options.download.most_bytes = std::ssize(bench.body);
    CHECK(fetch_matrix("HB/thing", options).bytes == std::ssize(bench.body));
    bench.requests();
    fs::remove_all(fs::path(bench.path).parent_path());
  }
}

TEST_CASE("a fetched archive is found under its name and loaded") {
  const std::string archive = shared_path("data/formats/bcsstk17.tar.gz");
  if (archive.empty()) return;
  Bench bench;
  fs::copy_file(archive, bench.folder / "served/HB/bcsstk17.tar.gz");
  CHECK_THROWS_AS(find_matrix("HB/bcsstk17"), Unsupported);

  const FetchedFile fetched = fetch_matrix("HB/bcsstk17", bench.options("truncate_once"));

  const LoadedMatrix loaded = load_matrix("HB/bcsstk17");
  CHECK(loaded.source.path == fs::canonical(fetched.path).string());
  CHECK(loaded.source.name == "bcsstk17");
  CHECK(loaded.matrix.rows == 10974);
  CHECK(loaded.matrix.nnz() == 428650);
}

TEST_CASE("the collection's index is fetched once, and anything but an index is refused") {
  Bench bench;
  const EnvironmentVariable own("TESSERA_COLLECTION_INDEX", "");
  write_text(bench.folder / "served/index.csv",
             "1\n31-Oct-2026\nHB,thing,5,5,9,1,0,0,0,1,1,structural problem\n");
  const auto options = [&](const std::string& mode) {
    FetchOptions of_mode = bench.options(mode);
    of_mode.index_url = bench.server.url(mode) + "/index.csv";
    return of_mode;
  };

  CHECK_THROWS_AS(fetch_collection_index(options("html")), Error);
  CHECK_FALSE(collection_index());
  const FetchedFile fetched = fetch_collection_index(options("plain"));

  CHECK(fetched.downloaded);
  CHECK(fetched.path == fetched_index_path());
  CHECK(collection_index().value().matrices.at(0).full_name() == "HB/thing");
  bench.requests();
  CHECK_FALSE(fetch_collection_index(options("404")).downloaded);
  CHECK(bench.requests() == "");

  // A later revision, for who deletes the one that is here.
  fs::remove(fetched.path);
  write_text(bench.folder / "served/index.csv", "1\n1-Nov-2026\nHB,a,5,5,9,1,0,0,0,1,1,a kind\n");
  CHECK(fetch_collection_index(options("plain")).sha256 != fetched.sha256);
  CHECK(collection_index().value().revised == "1-Nov-2026");
}

TEST_CASE("a name determines its collection, and only plain names are accepted") {
  Bench bench;

  const FetchedFile snap = fetch_matrix("snap/ca-GrQc", bench.options("plain"));
  CHECK(snap.path == bench.folder / "cache/downloads/snap/ca-GrQc.txt.gz");
  CHECK(bench.requests() == "plain ca-GrQc.txt.gz -\n");
  for (const char* name : {"thing", "", "/", "HB/", "/thing", "HB/a/b", "../thing", "HB/..",
                           "HB/a b", "HB/a?b", "HB/a%2f"})
    CHECK_THROWS_AS(fetch_matrix(name, bench.options("plain")), Error);
  CHECK(bench.requests() == "");

  FetchOptions elsewhere = bench.options("plain");
  write_text(bench.folder / "file", "in the way");
  elsewhere.folder = bench.folder / "file/downloads";
  CHECK(contains(bench.error_of(elsewhere), "cannot be made"));
}

}  // namespace
}  // namespace tessera
