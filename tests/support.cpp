#include "tests/support.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <limits>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"

namespace tessera {

CsrMatrix random_sparse(std::int32_t rows, std::int32_t cols, double density, std::uint64_t seed) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;
  for (std::int32_t i = 0; i < rows; ++i) {
    for (std::int32_t j = 0; j < cols; ++j) {
      const std::uint64_t cell = static_cast<std::uint64_t>(i) * cols + j;
      if (random_unit(seed, cell) >= density) continue;
      indices.push_back(j);
      values.push_back(random_signed(seed + 1, cell));
    }
    offsets.push_back(static_cast<std::int64_t>(indices.size()));
  }
  return {rows, cols, std::move(offsets), std::move(indices), std::move(values)};
}

std::string shared_path(const std::string& name) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/../shared/" + name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("skipped: there is no shared folder with " << name << " beside the checkout");
  return "";
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "tessera-test-XXXXXX";
  require(mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder {}", pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool run_scipy(const TemporaryFolder& folder, const std::string& script) {
  std::string python;
  for (const std::string candidate : {"python3", "/usr/bin/python3"})
    if (std::system((candidate + " -c 'import scipy' 2> /dev/null").c_str()) == 0)
      python = candidate;
  if (python.empty()) {
    MESSAGE("skipped: there is no SciPy");
    return false;
  }
  write_text(folder / "script.py", "import numpy as np, scipy.sparse as s\n" + script);
  const std::string command = "cd " + folder.path() + " && " + python + " script.py > printed";
  REQUIRE(std::system(command.c_str()) == 0);
  return true;
}

Outcome in_child(const std::function<void()>& body) {
  int ends[2];
  require(pipe(ends) == 0, "cannot make a pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    for (const int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
    body();
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    outcome.output.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

EnvironmentVariable::EnvironmentVariable(std::string name, const std::string& value)
    : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str())) before_ = before;
  setenv(name_.c_str(), value.c_str(), 1);
}

EnvironmentVariable::~EnvironmentVariable() {
  if (before_)
    setenv(name_.c_str(), before_->c_str(), 1);
  else
    unsetenv(name_.c_str());
}

DenseMatrix to_dense(const CsrMatrix& matrix) {
  DenseMatrix dense(matrix.rows, matrix.cols);
  for (std::int32_t i = 0; i < matrix.rows; ++i)
    for (std::int64_t k = matrix.row_offsets[i]; k < matrix.row_offsets[i + 1]; ++k)
      dense.at(i, matrix.col_indices[k]) = matrix.values[k];
  return dense;
}

DenseMatrix dense_beyond_fp16(std::int64_t rows, std::uint64_t seed) {
  DenseMatrix b = random_dense(rows, 9, seed);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(7, 3) = std::numeric_limits<float>::infinity();
  b.at(9, 4) = 70000;
  for (std::int64_t k = 0; k < rows; ++k) b.at(k, 7) *= 0x1p-126f;
  for (std::int64_t k = 0; k < rows; ++k) b.at(k, 8) *= 0x1p-24f;
  return b;
}

}  // namespace tessera
