#include "kernels/spgemm/row/work.hpp"

#include <algorithm>
#include <bit>
#include <climits>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

void describe_rows_of_b(ProductAnalysis& product) {
  const CsrMatrix& b = product.b;
  product.words.resize(static_cast<std::size_t>(b.nnz()));
  product.columns_of_words.resize(product.words.size());
  product.num_words.resize(static_cast<std::size_t>(b.rows));
  for (std::int32_t row = 0; row < b.rows; ++row) {
    const std::int64_t begin = b.row_offsets[row];
    std::int64_t end = begin;
    for (std::int64_t at = begin; at < b.row_offsets[row + 1]; ++at) {
      const std::int32_t word = word_of(b.col_indices[at]);
      if (end == begin || product.words[end - 1] != word) product.words[end++] = word;
      product.columns_of_words[end - 1] |=
          static_cast<std::int32_t>(1u << (b.col_indices[at] % kWordCols));
    }
    product.num_words[row] = static_cast<std::int32_t>(end - begin);
  }
}

RowFacts facts_of_row(const ProductAnalysis& product, std::int32_t row) {
  const CsrMatrix &a = product.a, &b = product.b;
  RowFacts facts{.begin = static_cast<std::int32_t>(a.row_offsets[row]),
                 .nonzeros = static_cast<std::int32_t>(a.row_offsets[row + 1] - a.row_offsets[row]),
                 .first = INT_MAX};
  for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
    const std::int32_t of = a.col_indices[k];
    const std::int64_t begin = b.row_offsets[of], end = b.row_offsets[of + 1];
    if (begin == end) continue;
    facts.products += end - begin;
    facts.words += product.words_wait ? end - begin : product.num_words[of];
    facts.first = std::min(facts.first, b.col_indices[begin]);
    facts.last = std::max(facts.last, b.col_indices[end - 1]);
  }
  return facts;
}

RowPlan plan(const ProductAnalysis& product, std::int32_t row) {
  const CsrMatrix &a = product.a, &b = product.b;
  return plan_row(row, facts_of_row(product, row), thresholds_for(a.nnz(), b.nnz(), b.rows));
}

/// Counts the work of the tasks of a row.
class TaskCounter {
 public:
  void count(const ProductAnalysis& product, const RowPlan& plan, std::vector<TaskWork>& to) {
    const auto first = to.size();
    for (int slice = 0; slice < plan.slices; ++slice)
      to.push_back({.task = slice_of(plan.whole, plan.slice_words, slice)});
    const auto of_word = [&](std::int32_t word) -> TaskWork& {
      if (plan.slices == 1) return to[first];
      return to[first +
                static_cast<std::size_t>((word - plan.whole.first_word) / plan.slice_words)];
    };
    marks_.resize(static_cast<std::size_t>(product.b.cols / kWordCols + 1));
    const CsrMatrix& a = product.a;
    for (std::int64_t k = a.row_offsets[plan.whole.row]; k < a.row_offsets[plan.whole.row + 1];
         ++k) {
      const std::int64_t begin = product.b.row_offsets[a.col_indices[k]];
      for (std::int64_t at = begin; at < begin + product.num_words[a.col_indices[k]]; ++at) {
        const std::int32_t word = product.words[at];
        const auto columns = static_cast<std::uint32_t>(product.columns_of_words[at]);
        if (marks_[word] == 0) touched_.push_back(word);
        marks_[word] |= columns;
        ++of_word(word).words_read;
        of_word(word).products += std::popcount(columns);
      }
    }
    std::ranges::sort(touched_);
    std::int32_t group = -1, most = 0;  // a task's 32 slots, and the most columns of one of them
    const TaskWork* last = nullptr;
    for (const std::int32_t word : touched_) {
      TaskWork& work = of_word(word);
      const int columns = std::popcount(marks_[word]);
      const std::int32_t slot = work.task.storage == MarkStorage::kWords
                                    ? work.filled_words
                                    : word - work.task.first_word;
      if (&work != last || slot / 32 != group) most = 0;
      group = slot / 32;
      work.turns_of_ranks += std::max(0, columns - most);
      most = std::max(most, columns);
      last = &work;
      ++work.filled_words;
      work.columns += columns;
      marks_[word] = 0;
    }
    touched_.clear();
  }

 private:
  std::vector<std::uint32_t> marks_;  // [words of a row]
  std::vector<std::int32_t> touched_;
};

}  // namespace

std::vector<std::int32_t> ProductAnalysis::columns_of(const Task& task) const {
  std::vector<std::int32_t> columns;
  for (std::int64_t k = a.row_offsets[task.row]; k < a.row_offsets[task.row + 1]; ++k)
    for (const std::int32_t col : b.row_cols(a.col_indices[static_cast<std::size_t>(k)]))
      if (const std::int32_t word = word_of(col) - task.first_word; word >= 0 && word < task.words)
        columns.push_back(col);
  std::ranges::sort(columns);
  const auto repeated = std::ranges::unique(columns);
  columns.erase(repeated.begin(), repeated.end());
  return columns;
}

ProductAnalysis analyse(const CsrMatrix& a, const CsrMatrix& b) {
  for (const CsrMatrix* matrix : {&a, &b})
    require<Unsupported>(matrix->nnz() <= INT_MAX,
                         "row_spgemm counts nonzeros in 32 bits, and {} has {}",
                         matrix == &a ? 'A' : 'B', matrix->nnz());
  ProductAnalysis product{.a = a, .b = b};
  describe_rows_of_b(product);
  product.words_wait = words_can_wait(a.nnz(), a.rows, b.nnz(), b.rows);
  constexpr std::int64_t kRowsOfPiece = 512;
  std::vector<std::vector<TaskWork>> pieces(static_cast<std::size_t>(parts(a.rows, kRowsOfPiece)));
  ScratchPool<TaskCounter> pool;
  parallel_for(a.rows, kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](TaskCounter& counter) {
      for (std::int64_t row = begin; row < end; ++row)
        counter.count(product, plan(product, static_cast<std::int32_t>(row)),
                      pieces[static_cast<std::size_t>(begin / kRowsOfPiece)]);
    });
  });
  for (const auto& piece : pieces)
    product.tasks.insert(product.tasks.end(), piece.begin(), piece.end());
  for (const TaskWork& task : product.tasks) {
    product.offsets.push_back(product.offsets.back() + task.columns);
    product.is_marked |= task.task.storage != MarkStorage::kLanes;
    // Every row has a task, and tasks follow each other in the order of rows.
    product.first_tasks.resize(static_cast<std::size_t>(task.task.row) + 2);
    product.first_tasks.back() = static_cast<std::int32_t>(std::ssize(product.offsets) - 1);
  }
  return product;
}

}  // namespace tessera::row_spgemm::tracing
