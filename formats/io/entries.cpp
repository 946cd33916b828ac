#include "formats/io/entries.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr int kMostScans = 16;  // more ranges would only repeat the scan of the entries
constexpr std::int64_t kEntriesPerScan = 1 << 16;
constexpr std::int64_t kRowGrain = 1 << 12;

/// Calls use(row, col, value) for every entry and its mirror image with begin <= row < end.
template <class Use>
void for_each_entry(const Entries& entries, std::int64_t begin, std::int64_t end, Use use) {
  const bool mirrored = entries.mirror != Mirror::kNone;
  const float sign = entries.mirror == Mirror::kNegated ? -1.0f : 1.0f;
  for (const EntryBlock& block : entries.blocks) {
    for (std::size_t k = 0; k < block.rows.size(); ++k) {
      const std::int32_t row = block.rows[k], col = block.cols[k];
      const auto value = [&] { return block.values.empty() ? 1.0f : block.values[k]; };
      if (row >= begin && row < end) use(row, col, value());
      if (mirrored && row != col && col >= begin && col < end) use(col, row, sign * value());
    }
  }
}

std::int64_t num_entries(const Entries& entries) {
  std::int64_t count = 0;
  for (const EntryBlock& block : entries.blocks) count += block.size();
  return count;
}

/// The ends of row ranges with about equal work; the last is `rows`.
std::vector<std::int64_t> cut_rows(const std::vector<std::int64_t>& starts, std::int64_t pieces) {
  const auto rows = static_cast<std::int64_t>(starts.size()) - 1;
  std::vector<std::int64_t> ends;
  for (std::int64_t p = 1; p < pieces; ++p) {
    const std::int64_t target = starts.back() / pieces * p;
    ends.push_back(std::lower_bound(starts.begin(), starts.end() - 1, target) - starts.begin());
  }
  ends.push_back(rows);
  return ends;
}

void sort_row(std::int32_t* cols, float* values, std::int64_t length) {
  if (std::is_sorted(cols, cols + length)) return;
  std::vector<std::pair<std::int32_t, float>> row(length);
  for (std::int64_t k = 0; k < length; ++k) row[k] = {cols[k], values[k]};
  std::ranges::stable_sort(row, {}, &std::pair<std::int32_t, float>::first);
  for (std::int64_t k = 0; k < length; ++k) std::tie(cols[k], values[k]) = row[k];
}

/// Merges equal neighbours in the sorted rows and moves all entries to the front.
void merge_duplicates(std::vector<std::int64_t>& offsets, std::vector<std::int32_t>& cols,
                      std::vector<float>& values, bool pattern, std::string_view name) {
  std::int64_t out = 0;
  std::int64_t begin = 0;
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const std::int64_t end = offsets[row + 1];
    for (std::int64_t k = begin; k < end;) {
      const std::int32_t col = cols[k];
      double sum = 0;
      std::int64_t copies = 0;
      for (; k < end && cols[k] == col; ++k, ++copies) sum += double{values[k]};
      // A single value stays unchanged: adding it to zero would lose the sign of -0.
      const float merged = copies == 1 || pattern ? values[k - 1] : static_cast<float>(sum);
      require(std::isfinite(merged),
              "{}: the {} entries at row {}, column {} (counted from 1) "
              "sum to {}, which FP32 cannot hold",
              name, copies, row + 1, col + 1, sum);
      cols[out] = col;
      values[out++] = merged;
    }
    begin = end;
    offsets[row + 1] = out;
  }
  cols.resize(out);
  values.resize(out);
}

}  // namespace

void require_plausible_rows(std::int64_t rows, std::int64_t entries, std::string_view name) {
  constexpr std::int64_t kAlwaysFine = 1 << 24;
  constexpr std::int64_t kRowsPerEntry = 256;
  require(rows <= kAlwaysFine || rows / kRowsPerEntry <= entries,
          "{}: {} rows are claimed, but only {} entries given; expected one entry in {} rows at "
          "least",
          name, rows, entries, kRowsPerEntry);
}

CsrMatrix finish_rows(std::int32_t rows, std::int32_t cols, std::vector<std::int64_t> offsets,
                      std::vector<std::int32_t> col_indices, std::vector<float> values,
                      bool pattern, std::string_view name) {
  std::atomic<bool> duplicates = false;
  parallel_for(rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int32_t* first = col_indices.data() + offsets[row];
      const std::int64_t length = offsets[row + 1] - offsets[row];
      sort_row(first, values.data() + offsets[row], length);
      if (std::adjacent_find(first, first + length) != first + length) duplicates = true;
    }
  });
  if (duplicates) merge_duplicates(offsets, col_indices, values, pattern, name);
  return {rows, cols, std::move(offsets), std::move(col_indices), std::move(values)};
}

CsrMatrix build_csr(Entries entries, std::string_view name) {
  const std::int64_t rows = entries.rows;
  require_plausible_rows(rows, num_entries(entries), name);
  const std::int64_t pieces = std::clamp<std::int64_t>(num_entries(entries) / kEntriesPerScan, 1,
                                                       std::min(num_threads(), kMostScans));

  std::vector<std::int64_t> starts(rows + 1, 0);  // counts, one index below the CSR offsets
  parallel_for(pieces, 1, [&](std::int64_t p, std::int64_t) {
    for_each_entry(entries, rows * p / pieces, rows * (p + 1) / pieces,
                   [&](std::int32_t row, std::int32_t, float) { ++starts[row]; });
  });
  std::int64_t sum = 0;
  for (std::int64_t& start : starts) start = std::exchange(sum, sum + start);

  std::vector<std::int32_t> cols(sum);
  std::vector<float> values(sum);
  const std::vector<std::int64_t> ends = cut_rows(starts, pieces);
  parallel_for(pieces, 1, [&](std::int64_t p, std::int64_t) {
    for_each_entry(entries, p == 0 ? 0 : ends[p - 1], ends[p],
                   [&](std::int32_t row, std::int32_t col, float value) {
                     const std::int64_t place = starts[row]++;
                     cols[place] = col;
                     values[place] = value;
                   });
  });
  entries.blocks.clear();
  entries.blocks.shrink_to_fit();

  // Every start has moved to the end of its row, which is the start of the next.
  std::shift_right(starts.begin(), starts.end(), 1);
  starts[0] = 0;
  return finish_rows(entries.rows, entries.cols, std::move(starts), std::move(cols),
                     std::move(values), entries.pattern, name);
}

}  // namespace tessera
