#include "kernels/row_spgemm_work.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

void describe_rows_of_b(Product& product) {
  const CsrMatrix& b = product.b;
  product.words.resize(static_cast<std::size_t>(b.nnz()));
  product.columns_of_words.resize(product.words.size());
  product.num_words.resize(static_cast<std::size_t>(b.rows));
  for (std::int32_t row = 0; row < b.rows; ++row) {
    const std::int64_t begin = b.row_offsets[row];
    std::int64_t end = begin;
    for (std::int64_t at = begin; at < b.row_offsets[row + 1]; ++at) {
      const std::int32_t word = b.col_indices[at] / kWordCols;
      if (end == begin || product.words[end - 1] != word) product.words[end++] = word;
      product.columns_of_words[end - 1] |=
          static_cast<std::int32_t>(1u << (b.col_indices[at] % kWordCols));
    }
    product.num_words[row] = static_cast<std::int32_t>(end - begin);
  }
}

RowPlan analyse_row(const CsrMatrix& a, const CsrMatrix& b, std::int32_t row) {
  std::int64_t products = 0;
  std::int32_t first = b.cols, last = 0;
  for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
    const std::int64_t begin = b.row_offsets[a.col_indices[k]];
    const std::int64_t end = b.row_offsets[a.col_indices[k] + 1];
    if (begin == end) continue;
    products += end - begin;
    first = std::min(first, b.col_indices[begin]);
    last = std::max(last, b.col_indices[end - 1]);
  }
  return plan_row(row, products, a.row_offsets[row + 1] - a.row_offsets[row], first, last);
}

/// Counts what the tasks of a row have in them.
class TaskCounter {
 public:
  void count(const Product& product, const RowPlan& plan, std::vector<TaskWork>& to) {
    const auto first = to.size();
    for (int slice = 0; slice < plan.slices; ++slice) to.push_back({.task = plan.task(slice)});
    if (plan.whole.words == 0) return;
    const auto of_word = [&](std::int32_t word) -> TaskWork& {
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
    for (const std::int32_t word : touched_) {
      ++of_word(word).filled_words;
      of_word(word).columns += std::popcount(marks_[word]);
      marks_[word] = 0;
    }
    touched_.clear();
  }

 private:
  std::vector<std::uint32_t> marks_;  // [words of a row]
  std::vector<std::int32_t> touched_;
};

}  // namespace

Product analyse(const CsrMatrix& a, const CsrMatrix& b) {
  Product product{.a = a, .b = b};
  describe_rows_of_b(product);
  constexpr std::int64_t kRowsOfPiece = 512;
  std::vector<std::vector<TaskWork>> pieces(static_cast<std::size_t>(parts(a.rows, kRowsOfPiece)));
  ScratchPool<TaskCounter> pool;
  parallel_for(a.rows, kRowsOfPiece, [&](std::int64_t begin, std::int64_t end) {
    pool.use([&](TaskCounter& counter) {
      for (std::int64_t row = begin; row < end; ++row)
        counter.count(product, analyse_row(a, b, static_cast<std::int32_t>(row)),
                      pieces[static_cast<std::size_t>(begin / kRowsOfPiece)]);
    });
  });
  for (const auto& piece : pieces)
    product.tasks.insert(product.tasks.end(), piece.begin(), piece.end());
  for (const TaskWork& task : product.tasks)
    product.offsets.push_back(product.offsets.back() + task.columns);
  return product;
}

}  // namespace tessera::row_spgemm::tracing
