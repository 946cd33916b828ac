// Shared by several test files: small seeded matrices, and settings that are restored at scope end.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {

/// A matrix whose cells are nonzero with the given probability; values in (-1, 1), never zero.
CsrMatrix random_sparse(std::int32_t rows, std::int32_t cols, double density, std::uint64_t seed);

DenseMatrix to_dense(const CsrMatrix& matrix);

/// The path of `name` ("data/cora.npz") in the shared folder beside the checkout, which holds real
/// matrices and recorded results and is not part of the project. When it is missing, the path is
/// empty and a message says that the test is skipped: write `if (path.empty()) return;`.
std::string shared_path(const std::string& name);

/// A new folder under the system's temporary folder, removed at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

/// Runs Python in the folder, with `np` and `s` (scipy.sparse) imported and its output in the file
/// "printed". Without SciPy it returns false and a message says that the test is skipped.
bool run_scipy(const TemporaryFolder& folder, const std::string& script);

/// Nine columns of random numbers with the special values of FP16 operands: a NaN (row 3), an
/// infinity (7), a number beyond FP16 (9), and two columns that vanish in FP32 and in FP16.
DenseMatrix dense_beyond_fp16(std::int64_t rows, std::uint64_t seed);

/// The end of a process that ran a piece of code.
struct Outcome {
  int exit_code = -1;  // when it exited
  int signal = 0;      // when a signal ended it
  std::string output;  // what it printed, both streams
};

/// Runs `body` in a forked child, for code that is expected to abort.
Outcome in_child(const std::function<void()>& body);

/// Sets an environment variable until it goes out of scope.
class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, const std::string& value);
  ~EnvironmentVariable();
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

/// Sets the number of threads of parallel loops until it goes out of scope.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) { set_num_threads(threads); }
  ~ThreadCount() { set_num_threads(0); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
};

/// The values times 2^exponent(k), with k the index of a value.
template <class Exponent>
CsrMatrix rescaled(const CsrMatrix& matrix, Exponent exponent) {
  std::vector<float> values(matrix.values.begin(), matrix.values.end());
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = std::ldexp(values[k], exponent(static_cast<int>(k)));
  return {matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, std::move(values)};
}

}  // namespace tessera
