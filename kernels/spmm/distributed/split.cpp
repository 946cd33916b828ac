#include "kernels/spmm/distributed/split.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr std::int32_t kNowhere = -1;

/// The number of each row of B in a part's renumbering, kNowhere where it has none.
using Numbers = std::vector<std::int32_t>;

/// A matrix that is built row by row.
struct RowsInMaking {
  std::vector<std::int64_t> row_offsets{0};
  std::vector<std::int32_t> col_indices;
  std::vector<float> values;

  void add(std::int32_t col, float value) {
    col_indices.push_back(col);
    values.push_back(value);
  }
  void end_row() { row_offsets.push_back(std::ssize(col_indices)); }
  bool has_open_row() const { return row_offsets.back() < std::ssize(col_indices); }
  CsrMatrix take(std::int64_t cols) {
    const auto rows = static_cast<std::int32_t>(row_offsets.size() - 1);
    return {rows, static_cast<std::int32_t>(cols), std::move(row_offsets), std::move(col_indices),
            std::move(values)};
  }
};

/// Appends the row's nonzeros under their numbers, which the order of the parts may have mixed.
void add_sorted(std::span<const std::int32_t> cols, std::span<const float> values,
                const Numbers& numbers, RowsInMaking& made) {
  const auto begin = static_cast<std::size_t>(made.row_offsets.back());
  bool is_sorted = true;
  for (std::size_t k = 0; k < cols.size(); ++k) {
    const std::int32_t number = numbers[static_cast<std::size_t>(cols[k])];
    if (number == kNowhere) continue;
    is_sorted = is_sorted && (made.col_indices.size() == begin || made.col_indices.back() < number);
    made.add(number, values[k]);
  }
  if (is_sorted) return;
  const std::size_t count = made.col_indices.size() - begin;
  std::vector<std::pair<std::int32_t, float>> row(count);
  for (std::size_t i = 0; i < count; ++i)
    row[i] = {made.col_indices[begin + i], made.values[begin + i]};
  std::ranges::sort(row, {}, &std::pair<std::int32_t, float>::first);
  for (std::size_t i = 0; i < count; ++i)
    std::tie(made.col_indices[begin + i], made.values[begin + i]) = row[i];
}

}  // namespace

const char* name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::kNeeded:
      return "needed";
    case Exchange::kReplicated:
      return "replicated";
    case Exchange::kGathered:
      break;
  }
  return "gathered";
}

PartOfProduct split(const CsrMatrix& a, const RowPartition& partition, const ExchangeLists& lists,
                    int part) {
  PartOfProduct made{.part = part};
  made.rows = members_of(partition.of_row, partition.parts)[static_cast<std::size_t>(part)];
  made.b_rows = members_of(partition.of_col, partition.parts)[static_cast<std::size_t>(part)];

  Numbers local(static_cast<std::size_t>(a.cols), kNowhere), remote = local;
  for (std::size_t i = 0; i < made.b_rows.size(); ++i)
    local[static_cast<std::size_t>(made.b_rows[i])] = static_cast<std::int32_t>(i);
  std::int64_t received = 0;
  for (int peer = 0; peer < partition.parts; ++peer) {
    if (peer == part) continue;
    if (const auto& rows = lists.rows(part, peer); !rows.empty()) {
      made.receives.push_back({peer, received, std::ssize(rows)});
      for (const std::int32_t row : rows)
        remote[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(received++);
    }
    if (const auto& rows = lists.rows(peer, part); !rows.empty()) {
      made.sends.push_back({peer, std::ssize(made.sent_rows), std::ssize(rows)});
      for (const std::int32_t row : rows)
        made.sent_rows.push_back(local[static_cast<std::size_t>(row)]);
    }
  }

  RowsInMaking own, others;
  std::int64_t nonzeros = 0;
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    const auto cols = a.row_cols(made.rows[i]);
    const auto values = a.row_values(made.rows[i]);
    nonzeros += std::ssize(cols);
    add_sorted(cols, values, local, own);
    own.end_row();
    add_sorted(cols, values, remote, others);
    if (!others.has_open_row()) continue;
    others.end_row();
    made.remote_rows.push_back(static_cast<std::int32_t>(i));
  }
  require(std::ssize(own.col_indices) + std::ssize(others.col_indices) == nonzeros,
          "part {} has {} nonzeros, but the rows of B that it owns and receives meet {} of them",
          part, nonzeros, own.col_indices.size() + others.col_indices.size());
  made.local = own.take(std::ssize(made.b_rows));
  made.remote = others.take(received);
  return made;
}

CsrMatrix rows_of_part(const CsrMatrix& a, const RowPartition& partition, int part) {
  Numbers numbers(static_cast<std::size_t>(a.cols));
  std::int32_t next = 0;
  for (const auto& owned : members_of(partition.of_col, partition.parts))
    for (const std::int32_t row : owned) numbers[static_cast<std::size_t>(row)] = next++;
  const auto rows_of = members_of(partition.of_row, partition.parts);
  RowsInMaking made;
  for (const std::int32_t row : rows_of[static_cast<std::size_t>(part)]) {
    add_sorted(a.row_cols(row), a.row_values(row), numbers, made);
    made.end_row();
  }
  return made.take(a.cols);
}

}  // namespace tessera
