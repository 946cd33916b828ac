// Files that take their place whole: what others planted, and what killed processes left beside.
#include "formats/io/new_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "formats/base/check.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/npy.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

void make_older(const fs::path& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::minutes(2));
}

std::ptrdiff_t entries_of(const std::string& folder) {
  const fs::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

TEST_CASE("a new file takes its place when it is kept, and leaves nothing beside it") {
  const TemporaryFolder folder;
  write_text(folder / "a.txt", "old");
  {
    NewFile file(folder / "a.txt");
    write_text(file.path(), "new");
    CHECK(read_text(folder / "a.txt") == "old");
    CHECK(fs::status(fs::path(file.path()).parent_path()).permissions() == fs::perms::owner_all);
    file.keep();
  }
  CHECK(read_text(folder / "a.txt") == "new");
  {
    const NewFile dropped(folder / "a.txt");
    write_text(dropped.path(), "dropped");
  }
  CHECK(read_text(folder / "a.txt") == "new");
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("a place that cannot be written is an error that names it") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(NewFile(folder / "none/a.txt"),
                       (folder / "none/a.txt: cannot write: No such file or directory").c_str(),
                       Error);
  CHECK_THROWS_AS(NewFile(folder / "none/"), Error);
  fs::create_directory(folder / "a.mtx");
  const std::string taken = folder / "a.mtx: cannot write: Is a directory";
  CHECK_THROWS_WITH_AS(write_matrix(random_sparse(3, 3, 0.5, 1), folder / "a.mtx"), taken.c_str(),
                       Error);
  CHECK(entries_of(folder.path()) == 1);
}

TEST_CASE("an error of a writer names the file that was asked for, and leaves nothing") {
  const TemporaryFolder folder;
  const CsrMatrix matrix = random_sparse(300, 300, 0.5, 3);
  const auto write = [&](const std::string& name) {
    if (name.ends_with(".npy"))
      write_npy(folder / name, DenseMatrix(300, 300, 1));
    else
      write_matrix(matrix, folder / name);
  };
  for (const std::string name : {"a.mtx", "a.mtx.gz", "a.npz", "a.npy"}) {
    CAPTURE(name);
    const Outcome outcome = in_child([&] {
      const rlimit limit{1000, 1000};  // bytes of a file
      std::signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &limit);
      try {
        write(name);
      } catch (const Error& error) {
        fmt::print("{}", error.what());
        std::fflush(stdout);
        _exit(7);
      }
      _exit(0);
    });
    CHECK(outcome.exit_code == 7);
    CHECK(outcome.output.find(folder / name + ": cannot write: ") != std::string::npos);
    CHECK(entries_of(folder.path()) == 0);
    write(name);
    CHECK(entries_of(folder.path()) == 1);
    fs::remove(folder / name);
  }
}

TEST_CASE("a matrix is not written through a link that was planted beside it") {
  const TemporaryFolder folder;
  write_text(folder / "victim", "kept");
  // The number of the process was once all of the name beside.
  fs::create_symlink(folder / "victim", folder / fmt::format(".{}.a.mtx", getpid()));
  const CsrMatrix matrix = random_sparse(5, 4, 0.5, 2);

  write_matrix(matrix, folder / "a.mtx");

  CHECK(read_text(folder / "victim") == "kept");
  CHECK_FALSE(fs::is_symlink(folder / "a.mtx"));
  CHECK(read_matrix(folder / "a.mtx") == matrix);
}

TEST_CASE("what a killed process left is removed, and nothing that is in use or of others") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "of a user");
  write_text(folder / "of a user/file", "kept");
  fs::create_directory_symlink(folder / "of a user", folder / ".tessera-new-abcdef");
  const Outcome killed = in_child([&] {
    const NewFile file(folder / "a.txt");
    write_text(file.path(), "half");
    make_older(fs::path(file.path()).parent_path());
    _exit(0);
  });
  REQUIRE(killed.exit_code == 0);
  REQUIRE(entries_of(folder.path()) == 3);

  // Each parent is looked through once a process; another spelling of it counts as another one.
  NewFile used(folder / "used.txt");
  CHECK(entries_of(folder.path()) == 3);  // of the user, the link, and the folder in use
  write_text(used.path(), "whole");
  make_older(fs::path(used.path()).parent_path());
  const NewFile other(folder / "./other.txt");
  CHECK(fs::exists(used.path()));
  CHECK(read_text(folder / "of a user/file") == "kept");
  used.keep();
  CHECK(read_text(folder / "used.txt") == "whole");
}

}  // namespace
}  // namespace tessera
