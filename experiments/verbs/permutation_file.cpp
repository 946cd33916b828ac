#include "experiments/verbs/permutation_file.hpp"

#include <charconv>
#include <fstream>

#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"
#include "formats/io/npy.hpp"

namespace tessera {

bool is_permutation_file_name(const std::string& path) {
  return path.ends_with(".txt") || path.ends_with(".npy");
}

void write_permutation(const std::string& path, const Permutation& permutation) {
  const auto indices = permutation.old_of_new();
  if (path.ends_with(".npy")) {
    write_npy_indices(path, indices);
    return;
  }
  std::string text;
  for (const std::int32_t index : indices) text += fmt::format("{}\n", index);
  write_file(path, text);
}

Permutation read_permutation(const std::string& path) {
  std::vector<std::int32_t> indices;
  if (path.ends_with(".npy")) {
    indices = read_npy_indices(path);
  } else {
    std::ifstream file(path);
    require(file.good(), "{}: cannot be read", path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      std::int32_t index = 0;
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
      require(error == std::errc() && end == line.data() + line.size(),
              "{}:{}: expected one index, found '{}'", path, number, line);
      indices.push_back(index);
    }
  }
  try {
    return Permutation(std::move(indices));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

Order order_from_file(const std::string& path, const CsrMatrix& matrix, bool symmetric) {
  Permutation rows = read_permutation(path);
  require(rows.size() == matrix.rows, "{}: orders {} rows, the matrix has {}", path, rows.size(),
          matrix.rows);
  if (!symmetric) return {std::move(rows), std::nullopt};
  require(matrix.rows == matrix.cols, "--symmetric needs a square matrix, this one is {} x {}",
          matrix.rows, matrix.cols);
  return {rows, rows};
}

}  // namespace tessera
