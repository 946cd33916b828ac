// The analysis of row_spgemm on the host: the tasks of a product, and the work in each.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spgemm/row/row_spgemm.hpp"
#include "kernels/spgemm/shared/tiles.hpp"

namespace tessera::row_spgemm::tracing {

/// A task and its work.
struct TaskWork {
  Task task;
  std::int64_t products = 0, words_read = 0;   // nonzeros of B that it meets, and their words
  std::int32_t filled_words = 0, columns = 0;  // words with marks, and columns of C
  std::int64_t turns_of_ranks =
      0;  // per 32 slots the most columns of a slot, summed over the slots

  /// True when a warp loads all words of the task at once.
  bool is_one_prefetch() const {
    return is_one_set(task.nonzeros) && row_spgemm::is_one_prefetch(words_read);
  }

  /// The task as it is once its columns are counted.
  Task counted() const {
    Task counted = task;
    if (task.storage == MarkStorage::kWords) counted.kept = filled_words;
    return counted;
  }

  /// The class of the task in the first or the second phase.
  int class_in(bool is_sum) const {
    return is_sum ? sum_class(counted(), columns) : mark_class(task);
  }
};

/// A product, the description of B and the tasks.
struct ProductAnalysis {
  const CsrMatrix& a;
  const CsrMatrix& b;
  std::vector<std::int32_t> words =
      {};  // [nonzeros of B], those of a row from its first nonzero on
  std::vector<std::int32_t> columns_of_words = {};  // [nonzeros of B]: one bit per column
  std::vector<std::int32_t> num_words = {};         // [rows of B]
  std::vector<TaskWork> tasks = {};
  std::vector<std::int64_t> offsets = {0};      // [tasks + 1]: columns of C before each task
  std::vector<std::int32_t> first_tasks = {0};  // [rows of A + 1]

  bool words_wait = false;  // B's words are described only after the rows of A
  bool is_marked = false;   // some task needs words of B

  /// The columns of C of a task, ascending.
  std::vector<std::int32_t> columns_of(const Task& task) const;

  bool is_sliced() const { return std::ssize(tasks) != a.rows; }
  /// True where tasks are few enough that the columns of C are added up by tile.
  bool is_tiled() const { return std::ssize(tasks) <= spgemm::kMostTiled; }
};

/// Analyses A B. The analysis refers to A and B, which have to outlive it.
ProductAnalysis analyse(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::row_spgemm::tracing
