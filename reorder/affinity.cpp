// Data-affinity order (Acc-SpMM, section 3.2, Algorithm 1): the next row is the one that has most
// columns in common with the rows just placed; Rabbit Order's dendrogram breaks the ties.
//
// Readings where the paper is silent. "Common neighbours" are common columns of A's rows. Every row
// not yet placed competes, ties go to the earlier one in the base order, and where no row shares a
// column the next one of the base order follows. The paper's step II ends when all are placed.
// Departures: a column offers only its `candidates` nearest unplaced rows on each side of the row
// that was placed, nearest in the base order, so a hub costs no more than another column; rows with
// the same columns are placed as one; score = window compares with all rows of the current row
// window (its first row with those of the window before), not the last row alone; ties = short
// takes the row that adds fewest columns first. Time: O(nnz (candidates + log of a column's
// length)), one thread. Memory: 12 bytes a nonzero and about 60 bytes a row and a column, after
// those of Rabbit Order have gone.

#include <algorithm>
#include <numeric>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "reorder/rabbit.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// Rows with the same columns, as one. Groups are numbered by their first row in the base order,
/// and the rows of a group keep that order.
struct RowGroups {
  std::vector<std::int32_t> rows;     // [matrix.rows] group by group
  std::vector<std::int32_t> offsets;  // [groups + 1]

  std::int32_t size() const { return static_cast<std::int32_t>(offsets.size()) - 1; }
  std::int32_t first(std::int32_t group) const { return rows[offsets[group]]; }
};

std::uint64_t hash_of(std::span<const std::int32_t> cols) {
  std::uint64_t hash = cols.size();
  for (const std::int32_t col : cols) hash = random_bits(hash, col);
  return hash;
}

RowGroups group_rows(const CsrMatrix& matrix, const std::vector<std::int32_t>& base, bool merge) {
  struct Row {
    std::uint64_t hash;
    std::int32_t rank;
    std::int32_t leader;  // rank of the first row of the group
  };
  std::vector<Row> rows(base.size());
  for (std::int32_t rank = 0; rank < matrix.rows; ++rank)
    rows[rank] = {merge ? hash_of(matrix.row_cols(base[rank])) : 0, rank, rank};
  if (merge) {
    std::ranges::sort(rows, {}, [](const Row& row) { return std::pair(row.hash, row.rank); });
    // Different rows of one hash, if ever, stay apart: a group lost, not a wrong one.
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const std::int32_t leader = rows[i - 1].leader;
      if (rows[i].hash == rows[i - 1].hash &&
          std::ranges::equal(matrix.row_cols(base[rows[i].rank]), matrix.row_cols(base[leader])))
        rows[i].leader = leader;
    }
    std::ranges::sort(rows, {}, [](const Row& row) { return std::pair(row.leader, row.rank); });
  }
  RowGroups groups;
  groups.rows.reserve(base.size());
  for (std::int32_t i = 0; i < matrix.rows; ++i) {
    if (rows[i].leader == rows[i].rank) groups.offsets.push_back(i);
    groups.rows.push_back(base[rows[i].rank]);
  }
  groups.offsets.push_back(matrix.rows);
  return groups;
}

/// For each column the groups that hold it and are not placed yet, as a list ascending by group.
class OpenColumns {
 public:
  OpenColumns(const CsrMatrix& matrix, const RowGroups& groups) : offsets_(matrix.cols + 1, 0) {
    for (std::int32_t g = 0; g < groups.size(); ++g)
      for (const std::int32_t col : matrix.row_cols(groups.first(g))) ++offsets_[col + 1];
    std::partial_sum(offsets_.begin(), offsets_.end(), offsets_.begin());
    entries_.resize(offsets_.back());
    std::vector<std::int32_t> filled(matrix.cols, 0);
    for (std::int32_t g = 0; g < groups.size(); ++g) {
      for (const std::int32_t col : matrix.row_cols(groups.first(g))) {
        const std::int32_t place = filled[col]++;
        entries_[offsets_[col] + place] = {g, place - 1, place + 1};
      }
    }
  }

  /// Takes an open group out of a column and calls visit(group) for up to `most` open ones on
  /// either side of it, the nearest first.
  template <class Visit>
  void take_out(std::int32_t col, std::int32_t group, std::int32_t most, Visit visit) {
    Entry* const column = entries_.data() + offsets_[col];
    const auto length = static_cast<std::int32_t>(offsets_[col + 1] - offsets_[col]);
    const Entry entry =
        *std::lower_bound(column, column + length, group,
                          [](const Entry& e, std::int32_t wanted) { return e.group < wanted; });
    if (entry.before >= 0) column[entry.before].after = entry.after;
    if (entry.after < length) column[entry.after].before = entry.before;
    std::int32_t place = entry.before;
    for (std::int32_t i = 0; i < most && place >= 0; ++i, place = column[place].before)
      visit(column[place].group);
    place = entry.after;
    for (std::int32_t i = 0; i < most && place < length; ++i, place = column[place].after)
      visit(column[place].group);
  }

 private:
  struct Entry {
    std::int32_t group;
    std::int32_t before, after;  // places in the column of the nearest open groups
  };
  std::vector<std::int64_t> offsets_;  // [cols + 1]
  std::vector<Entry> entries_;         // [nonzeros of the groups' first rows]
};

/// Columns that a group shares with the rows it is compared with, as far as it was a candidate.
class Scores {
 public:
  /// `lengths`, if not empty, decide between equal scores: the shorter row wins.
  Scores(std::int32_t groups, std::vector<std::int32_t> lengths)
      : common_(groups, 0), lengths_(std::move(lengths)) {}

  void count(std::int32_t group) {
    if (common_[group]++ == 0) candidates_.push_back(group);
  }
  void remove(std::int32_t group) { common_[group] = kPlaced; }
  bool is_placed(std::int32_t group) const { return common_[group] == kPlaced; }

  /// The open group with the highest score, of several the shorter or the first; -1 without any.
  std::int32_t best() const {
    std::int32_t best = -1;
    for (const std::int32_t group : candidates_)
      if (!is_placed(group) && (best < 0 || goes_before(group, best))) best = group;
    return best;
  }

  void clear() {
    for (const std::int32_t group : candidates_)
      if (!is_placed(group)) common_[group] = 0;
    candidates_.clear();
  }

 private:
  bool goes_before(std::int32_t a, std::int32_t b) const {
    if (common_[a] != common_[b]) return common_[a] > common_[b];
    if (!lengths_.empty() && lengths_[a] != lengths_[b]) return lengths_[a] < lengths_[b];
    return a < b;
  }

  static constexpr std::int32_t kPlaced = -1;
  std::vector<std::int32_t> common_;   // [groups] kPlaced once placed
  std::vector<std::int32_t> lengths_;  // [groups] columns of a row, or none
  std::vector<std::int32_t> candidates_;
};

struct Choices {
  bool rabbit_base;
  bool merge_identical;
  bool shorter_first;  // of rows with the same score
  std::int32_t candidates;
  std::int32_t window_rows;  // rows compared with: 1 is the last one alone
};

std::vector<std::int32_t> lengths(const CsrMatrix& matrix, const RowGroups& groups) {
  std::vector<std::int32_t> lengths(groups.size());
  for (std::int32_t g = 0; g < groups.size(); ++g)
    lengths[g] = static_cast<std::int32_t>(matrix.row_length(groups.first(g)));
  return lengths;
}

/// Groups in the order in which they are placed.
std::vector<std::int32_t> chain(const CsrMatrix& matrix, const RowGroups& groups,
                                const Choices& choices) {
  OpenColumns open(matrix, groups);
  Scores scores(groups.size(),
                choices.shorter_first ? lengths(matrix, groups) : std::vector<std::int32_t>{});
  std::vector<std::int32_t> order, window_of_col(matrix.cols, -1);
  order.reserve(groups.size());
  std::int32_t next = 0, window = 0;
  std::int64_t placed_rows = 0;
  while (static_cast<std::int32_t>(order.size()) < groups.size()) {
    std::int32_t group = scores.best();
    if (group < 0) {
      while (scores.is_placed(next)) ++next;
      group = next;
    }
    const std::int32_t before = window;
    const std::int64_t last_row =
        placed_rows + groups.offsets[group + 1] - groups.offsets[group] - 1;
    window = static_cast<std::int32_t>(last_row / choices.window_rows);
    if (window != before) scores.clear();
    scores.remove(group);
    for (const std::int32_t col : matrix.row_cols(groups.first(group))) {
      const bool is_new = window_of_col[col] != window;
      open.take_out(col, group, is_new ? choices.candidates : 0,
                    [&](std::int32_t other) { scores.count(other); });
      window_of_col[col] = window;
    }
    placed_rows = last_row + 1;
    order.push_back(group);
  }
  return order;
}

class Affinity final : public Reordering {
 public:
  explicit Affinity(const Choices& choices) : choices_(choices) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    std::vector<std::int32_t> base(matrix.rows);
    std::iota(base.begin(), base.end(), 0);
    if (choices_.rabbit_base) base = rabbit_walk(matrix).rows;
    const RowGroups groups = group_rows(matrix, base, choices_.merge_identical);
    std::vector<std::int32_t> rows;
    rows.reserve(matrix.rows);
    for (const std::int32_t group : chain(matrix, groups, choices_))
      rows.insert(rows.end(), groups.rows.begin() + groups.offsets[group],
                  groups.rows.begin() + groups.offsets[group + 1]);
    return {Permutation(std::move(rows)), std::nullopt};
  }

 private:
  Choices choices_;
};

const Register<Reordering> entry{{
    .name = "affinity",
    .summary = "Acc-SpMM's data affinity: next the row with most columns in common",
    .params = {{"base",
                std::string("rabbit"),
                "order that breaks ties: Rabbit Order or that of the file",
                {"rabbit", "none"}},
               {"score",
                std::string("last"),
                "columns in common with the last row or with the row window so far",
                {"last", "window"}},
               {"window_rows", std::int64_t{8}, "height of that row window", {}, 1, 1024},
               {"candidates",
                std::int64_t{32},
                "rows of a column that may come next, on each side of the row just placed",
                {},
                1,
                0x1p30},
               {"ties",
                std::string("base"),
                "of rows with as many columns in common: in base order, or the shorter first",
                {"base", "short"}},
               {"merge_identical", true, "place rows with the same columns as one"}},
    .make =
        [](const Params& p) {
          const bool last = p.text("score") == "last";
          return std::make_unique<Affinity>(Choices{
              .rabbit_base = p.text("base") == "rabbit",
              .merge_identical = p.flag("merge_identical"),
              .shorter_first = p.text("ties") == "short",
              .candidates = static_cast<std::int32_t>(p.integer("candidates")),
              .window_rows = last ? 1 : static_cast<std::int32_t>(p.integer("window_rows"))});
        },
}};

}  // namespace
}  // namespace tessera
