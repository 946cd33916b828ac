// What row_spgemm's analysis finds of a product, on the host: rows cut into tasks, and what is in
// each.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"

namespace tessera::row_spgemm::tracing {

/// A task and what is in it.
struct TaskWork {
  Task task;
  std::int64_t products = 0, words_read = 0;  // of B's nonzeros, and of their words
  std::int32_t filled_words = 0, columns = 0;
  std::int64_t turns_of_ranks = 0;  // the most columns of a slot, of each 32 slots

  /// Whether a warp has all words at once.
  bool is_one_wave() const {
    constexpr int kWave = 4 * 32;
    return task.nonzeros <= 32 && words_read <= kWave;
  }

  /// Once its columns are counted.
  Task counted() const {
    Task counted = task;
    if (task.keeping == Keeping::kWords) counted.kept = filled_words;
    return counted;
  }
};

/// The product as row_spgemm's analysis sees it.
struct Product {
  const CsrMatrix& a;
  const CsrMatrix& b;
  std::vector<std::int32_t> words = {};  // [nonzeros of B], as many of each row as it has
  std::vector<std::int32_t> columns_of_words = {};  // [nonzeros of B]: bits, one per column
  std::vector<std::int32_t> num_words = {};         // [rows of B]
  std::vector<TaskWork> tasks = {};
  std::vector<std::int64_t> offsets = {0};      // [tasks + 1]: in C
  std::vector<std::int32_t> first_tasks = {0};  // [rows of A + 1]

  bool words_wait = false;  // until it is known whether tasks need any
  bool is_marked = false;   // tasks need words of B

  bool is_sliced() const { return std::ssize(tasks) != a.rows; }
};

/// Refers to A and B.
Product analyse(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::row_spgemm::tracing
