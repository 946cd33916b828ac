#include "reorder/row_chain.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "formats/base/parallel.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/candidates.hpp"
#include "reorder/open_columns.hpp"
#include "reorder/row_groups.hpp"
#include "reorder/row_pattern.hpp"

namespace tessera {
namespace {

/// One chain over the rows of a stretch.
class Chain {
 public:
  Chain(const RowPattern& pattern, const RowGroups& groups, const ChainRule& rule)
      : groups_(groups), rule_(rule), open_(pattern), candidates_(pattern, open_, rule) {}

  /// Writes the rows in order. Calls stops_at(rows written) regularly.
  template <class StopsAt>
  void write(std::span<std::int32_t> order, StopsAt stops_at) {
    auto out = order.begin();
    std::int32_t next = 0;  // start of the search in base order
    std::int64_t window = -1;
    for (std::int32_t placed = 0; placed < groups_.size(); ++placed) {
      if (placed % kAskEvery == 0 && stops_at(out - order.begin())) break;
      std::int32_t group = candidates_.best();
      if (group < 0) {
        while (!open_.is_open(next)) ++next;
        group = next;
      }
      out = std::ranges::copy(groups_.of(group), out).out;
      const std::int64_t last_window = (out - order.begin() - 1) / rule_.window_rows;
      if (std::exchange(window, last_window) != last_window) candidates_.begin_window();
      candidates_.place(group);
      open_.place(group);
      candidates_.offer(group);
    }
    for (std::int32_t group = 0; out != order.end(); ++group)
      if (open_.is_open(group)) out = std::ranges::copy(groups_.of(group), out).out;
  }

 private:
  static constexpr std::int32_t kAskEvery = 1024;

  const RowGroups& groups_;
  const ChainRule& rule_;
  OpenColumns open_;
  Candidates candidates_;
};

/// The starts of stretches with similar numbers of nonzeros, and the end; a stretch is whole
/// windows.
std::vector<std::int64_t> cut(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                              const ChainRule& rule) {
  const std::int64_t stretches =
      rule.stretch_rows > 0 ? std::max<std::int64_t>(1, matrix.rows / rule.stretch_rows) : 1;
  std::vector<std::int64_t> cuts{0};
  std::int64_t before = 0;  // nonzeros plus rows
  const std::int64_t all = matrix.nnz() + matrix.rows;
  for (std::int64_t rank = 0; rank < matrix.rows; ++rank) {
    if (rank % rule.window_rows == 0 && rank > cuts.back() &&
        before >= all * std::ssize(cuts) / stretches)
      cuts.push_back(rank);
    before += matrix.row_length(base[rank]) + 1;
  }
  cuts.push_back(matrix.rows);
  return cuts;
}

}  // namespace

std::vector<std::int32_t> chain_rows(const CsrMatrix& matrix, const std::vector<std::int32_t>& base,
                                     const ChainRule& rule, Watch& watch) {
  const std::vector<std::int64_t> cuts = cut(matrix, base, rule);
  std::vector<std::int32_t> order(base.size());
  ScratchPool<ColumnNumbers> pool;
  std::atomic<std::int64_t> written = 0;  // by all chains
  parallel_for(std::ssize(cuts) - 1, 1, [&](std::int64_t stretch, std::int64_t) {
    const std::int64_t begin = cuts[stretch], size = cuts[stretch + 1] - begin;
    const RowGroups groups =
        group_rows(matrix, std::span(base).subspan(begin, size), rule.merge_identical);
    pool.use([&](ColumnNumbers& numbers) {
      const RowPattern pattern = numbers.number(matrix, groups.firsts());
      std::int64_t before = 0;  // written by this chain
      const auto stops_at = [&](std::int64_t rows) {
        written += rows - std::exchange(before, rows);
        watch.report(static_cast<double>(written) / matrix.rows);
        return watch.stop();
      };
      Chain(pattern, groups, rule).write(std::span(order).subspan(begin, size), stops_at);
    });
  });
  return order;
}

}  // namespace tessera
