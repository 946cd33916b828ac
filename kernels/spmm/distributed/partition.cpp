#include "kernels/spmm/distributed/partition.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/product_counts.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kRowsOfTask = 4096;  // of a parallel loop
constexpr int kHalvings = 64;               // of the interval that holds the least largest sum

/// The first index from `first` on whose prefix exceeds `limit`.
std::int64_t end_of_part(const std::vector<double>& prefix, std::int64_t first, double limit) {
  const auto found = std::upper_bound(prefix.begin() + first + 1, prefix.end(),
                                      prefix[static_cast<std::size_t>(first)] + limit);
  return found - prefix.begin() - 1;
}

/// True when that many contiguous parts of at most `limit` hold everything.
bool fits(const std::vector<double>& prefix, int parts, double limit) {
  const auto rows = static_cast<std::int64_t>(prefix.size()) - 1;
  std::int64_t row = 0;
  for (int part = 0; part < parts && row < rows; ++part) row = end_of_part(prefix, row, limit);
  return row == rows;
}

/// The formula's time for these counts.
double rated(const CostModel& model, const WorkCounts& counts, const Params& params) {
  return model.rate(counts, params, "h200").time_us;
}

/// The time that one more of `name` adds: over a thousandth of what there is, since a formula is
/// a sum of products and maxima.
double slope(const CostModel& model, WorkCounts counts, const Params& params, const char* name) {
  const double before = rated(model, counts, params);
  const double step = std::max(counts.at(name) / 1000, 1.0);
  counts[name] += step;
  return std::max((rated(model, counts, params) - before) / step, 0.0);
}

/// Marks the columns in which these rows have nonzeros. [cols]
std::vector<char> columns_of(const CsrMatrix& a, const std::vector<std::int32_t>& rows) {
  std::vector<char> has(static_cast<std::size_t>(a.cols));
  parallel_for(std::ssize(rows), kRowsOfTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (const std::int32_t col : a.row_cols(rows[static_cast<std::size_t>(i)])) {
        std::atomic_ref<char> mark(has[static_cast<std::size_t>(col)]);
        if (mark.load(std::memory_order_relaxed) == 0) mark.store(1, std::memory_order_relaxed);
      }
  });
  return has;
}

/// The owner of each row of B of a rectangular A: a part that needs it, if any does.
std::vector<std::int32_t> cheapest_owners(const CsrMatrix& a,
                                          const std::vector<std::int32_t>& of_row, int parts) {
  std::vector<std::vector<char>> needs;
  for (const auto& rows : members_of(of_row, parts)) needs.push_back(columns_of(a, rows));
  std::vector<std::int64_t> owned(static_cast<std::size_t>(parts));
  std::vector<std::int32_t> owners(static_cast<std::size_t>(a.cols));
  for (std::size_t col = 0; col < owners.size(); ++col) {
    int best = -1;
    bool best_needs = false;
    for (int part = 0; part < parts; ++part) {
      const bool needs_it = needs[static_cast<std::size_t>(part)][col] != 0;
      const bool has_fewer =
          best < 0 || owned[static_cast<std::size_t>(part)] < owned[static_cast<std::size_t>(best)];
      if (needs_it > best_needs || (needs_it == best_needs && has_fewer))
        best = part, best_needs = needs_it;
    }
    owners[col] = best;
    ++owned[static_cast<std::size_t>(best)];
  }
  return owners;
}

}  // namespace

std::vector<std::int32_t> contiguous_parts(std::span<const double> costs, int parts) {
  require(parts >= 1, "A is cut into {} parts; it needs at least one", parts);
  std::vector<double> prefix(costs.size() + 1);
  std::partial_sum(costs.begin(), costs.end(), prefix.begin() + 1);
  double low = prefix.back() / parts, high = prefix.back();
  for (int i = 0; i < kHalvings && high - low > 1e-9 * high; ++i) {
    const double middle = (low + high) / 2;
    (fits(prefix, parts, middle) ? high : low) = middle;
  }
  std::vector<std::int32_t> of_row(costs.size(), parts - 1);
  std::int64_t row = 0;
  for (int part = 0; part < parts - 1; ++part) {
    const std::int64_t end = end_of_part(prefix, row, high);
    std::fill(of_row.begin() + row, of_row.begin() + end, part);
    row = end;
  }
  return of_row;
}

std::vector<double> nonzero_costs(const CsrMatrix& a) {
  std::vector<double> costs(static_cast<std::size_t>(a.rows));
  for (std::size_t row = 0; row < costs.size(); ++row)
    costs[row] = static_cast<double>(a.row_length(static_cast<std::int64_t>(row)));
  return costs;
}

std::vector<double> time_costs(const CsrMatrix& a, std::int64_t n, const std::string& kernel,
                               const Params& params) {
  const auto& models = Registry<CostModel>::instance();
  require<Unsupported>(models.contains(kernel), "there is no formula for the time of {}", kernel);
  const auto model = models.make(kernel);
  const WorkCounts counts = product_counts(a, n);
  const double of_nonzero = slope(*model, counts, params, "nonzeros"),
               of_column = slope(*model, counts, params, "condensed_columns"),
               of_block = slope(*model, counts, params, "tc_blocks"),
               of_row = slope(*model, counts, params, "rows");
  std::vector<double> costs(static_cast<std::size_t>(a.rows));
  for_each_counted_window(a, [&](const CountedWindow& window) {
    const double shared = (of_column * static_cast<double>(window.columns) +
                           of_block * static_cast<double>(window.blocks)) /
                          static_cast<double>(window.last_row - window.first_row);
    for (std::int64_t row = window.first_row; row < window.last_row; ++row)
      costs[static_cast<std::size_t>(row)] =
          shared + of_row + of_nonzero * static_cast<double>(a.row_length(row));
  });
  return costs;
}

RowPartition make_partition(const CsrMatrix& a, std::vector<std::int32_t> of_row, int parts) {
  require(std::ssize(of_row) == a.rows, "the partition has {} rows, but A has {}", of_row.size(),
          a.rows);
  for (std::size_t row = 0; row < of_row.size(); ++row)
    require(of_row[row] >= 0 && of_row[row] < parts, "row {} is in part {}, outside [0, {})", row,
            of_row[row], parts);
  std::vector<std::int32_t> of_col = a.rows == a.cols ? of_row : cheapest_owners(a, of_row, parts);
  return {parts, std::move(of_row), std::move(of_col)};
}

std::vector<std::vector<std::int32_t>> members_of(std::span<const std::int32_t> parts_of,
                                                  int parts) {
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(parts));
  for (std::size_t i = 0; i < parts_of.size(); ++i)
    members[static_cast<std::size_t>(parts_of[i])].push_back(static_cast<std::int32_t>(i));
  return members;
}

std::int64_t ExchangeLists::received(int part) const {
  std::int64_t rows = 0;
  for (int from = 0; from < parts_; ++from) rows += std::ssize(this->rows(part, from));
  return rows;
}

std::int64_t ExchangeLists::sent(int part) const {
  std::int64_t rows = 0;
  for (int to = 0; to < parts_; ++to) rows += std::ssize(this->rows(to, part));
  return rows;
}

std::int64_t ExchangeLists::volume() const {
  std::int64_t rows = 0;
  for (int part = 0; part < parts_; ++part) rows += received(part);
  return rows;
}

ExchangeLists needed_rows(const CsrMatrix& a, const RowPartition& partition) {
  ExchangeLists lists(partition.parts);
  const auto rows_of = members_of(partition.of_row, partition.parts);
  std::vector<char> is_used(static_cast<std::size_t>(a.cols));
  for (int part = 0; part < partition.parts; ++part) {
    const std::vector<char> has = columns_of(a, rows_of[static_cast<std::size_t>(part)]);
    for (std::size_t col = 0; col < has.size(); ++col) {
      if (has[col] == 0) continue;
      if (is_used[col] != 0) ++lists.connectivity_bound;
      is_used[col] = 1;
      const int owner = partition.of_col[col];
      if (owner != part) lists.rows(part, owner).push_back(static_cast<std::int32_t>(col));
    }
  }
  return lists;
}

ExchangeLists all_rows(const RowPartition& partition, const ExchangeLists& needed) {
  ExchangeLists lists(partition.parts);
  lists.connectivity_bound = needed.connectivity_bound;
  const auto owned = members_of(partition.of_col, partition.parts);
  for (int to = 0; to < partition.parts; ++to)
    for (int from = 0; from < partition.parts; ++from)
      if (to != from) lists.rows(to, from) = owned[static_cast<std::size_t>(from)];
  return lists;
}

}  // namespace tessera
