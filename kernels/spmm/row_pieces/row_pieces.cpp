#include "kernels/spmm/row_pieces/row_pieces.hpp"

#include <algorithm>
#include <numeric>

#include "formats/base/check.hpp"

namespace tessera::row_pieces {
namespace {

/// Loads of four nonzeros may begin up to three before a row part and end after it.
constexpr std::int64_t kMaxNonzeros = (std::int64_t{1} << 32) - 256;
constexpr std::int64_t kMaxRowParts = (std::int64_t{1} << 31) - 1;

void number_slots(Plan& plan, const std::vector<std::uint32_t>& parts_of_row) {
  std::vector<std::uint32_t> of_split_rows;
  for (std::size_t p = 0; p < plan.row_parts.size(); ++p)
    if (parts_of_row[plan.row_parts[p].row] > 1)
      of_split_rows.push_back(static_cast<std::uint32_t>(p));
  std::ranges::sort(of_split_rows, [&](std::uint32_t p, std::uint32_t q) {
    const RowPart &x = plan.row_parts[p], &y = plan.row_parts[q];
    return x.row != y.row ? x.row < y.row : x.first < y.first;
  });
  plan.split_row_of_slot.reserve(of_split_rows.size());
  for (std::uint32_t slot = 0; slot < of_split_rows.size(); ++slot) {
    RowPart& part = plan.row_parts[of_split_rows[slot]];
    if (plan.split_rows.empty() || plan.split_rows.back().row != part.row)
      plan.split_rows.push_back({part.row, slot, parts_of_row[part.row]});
    plan.split_row_of_slot.push_back(static_cast<std::uint32_t>(plan.split_rows.size() - 1));
    part.slot = slot + 1;
  }
}

}  // namespace

std::vector<std::uint32_t> Plan::cleared(bool atomic) const {
  std::vector<std::uint32_t> rows = unwritten_rows;
  if (atomic)
    for (const SplitRow& split : split_rows) rows.push_back(split.row);
  return rows;
}

void require_countable(const CsrMatrix& a) {
  require<Unsupported>(a.nnz() <= kMaxNonzeros,
                       "the kernels over row parts take at most {} nonzeros, not {}", kMaxNonzeros,
                       a.nnz());
}

Plan make_plan(const CsrMatrix& a, std::vector<RowPart> row_parts,
               std::vector<std::uint32_t> shares) {
  require<Unsupported>(std::ssize(row_parts) <= kMaxRowParts,
                       "the kernels over row parts take at most {} row parts, not {}", kMaxRowParts,
                       row_parts.size());
  Plan plan{.row_parts = std::move(row_parts), .shares = std::move(shares)};
  std::vector<std::uint32_t> parts_of_row(static_cast<std::size_t>(a.rows), 0);
  for (const RowPart& part : plan.row_parts) ++parts_of_row[part.row];
  number_slots(plan, parts_of_row);
  for (std::uint32_t row = 0; row < parts_of_row.size(); ++row)
    if (parts_of_row[row] == 0) plan.unwritten_rows.push_back(row);
  return plan;
}

std::vector<RowPart> whole_rows(const CsrMatrix& a, const std::vector<std::uint32_t>& order) {
  require_countable(a);
  std::vector<RowPart> row_parts;
  row_parts.reserve(order.size());
  for (const std::uint32_t row : order)
    row_parts.push_back({row, static_cast<std::uint32_t>(a.row_offsets[row]),
                         static_cast<std::uint32_t>(a.row_offsets[row + 1]), 0});
  return row_parts;
}

std::vector<std::uint32_t> natural_order(const CsrMatrix& a) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(a.rows));
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::vector<std::uint32_t> by_length(const CsrMatrix& a) {
  std::vector<std::uint32_t> order = natural_order(a);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::uint32_t row) { return a.row_length(row); });
  return order;
}

Plan equal_shares(const CsrMatrix& a, std::int64_t nonzeros) {
  require_countable(a);
  std::vector<RowPart> row_parts;
  std::vector<std::uint32_t> shares{0};
  for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(a.rows); ++row) {
    for (std::int64_t first = a.row_offsets[row]; first < a.row_offsets[row + 1];) {
      const std::int64_t end = (first / nonzeros + 1) * nonzeros;
      const std::int64_t last = std::min(end, a.row_offsets[row + 1]);
      row_parts.push_back(
          {row, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), 0});
      if (last == end || last == a.nnz())
        shares.push_back(static_cast<std::uint32_t>(row_parts.size()));
      first = last;
    }
  }
  return make_plan(a, std::move(row_parts), std::move(shares));
}

std::int64_t share_size(std::int64_t items, std::int64_t requested) {
  constexpr std::int64_t kUnits = 16384;  // three times as many warps as an H200 holds
  if (requested != 0) return requested;
  return std::clamp<std::int64_t>((items / kUnits + 7) / 8 * 8, 16, 128);
}

Method warp_a_row(std::string name, UnitShape shape, std::int64_t columns, std::int64_t unroll,
                  int most) {
  return {.name = std::move(name),
          .version = 1,
          .atomic = false,
          .cut = [](const CsrMatrix& a) { return make_plan(a, whole_rows(a, natural_order(a))); },
          .shape =
              [=](const CsrMatrix& a, std::int64_t n) {
                UnitShape mine = shape;
                mine.unroll = rows_in_flight(a, unroll, most);
                return warp_for(n, columns, mine);
              }};
}

int rows_in_flight(const CsrMatrix& a, std::int64_t requested, int most) {
  // While a row waits for one load of B, an H200 multiplies about 8000 nonzeros of other rows at
  // N = 128. The bound is twice that, because other warps compete for the same units.
  constexpr std::int64_t kLatency = 2 * 8000;
  if (requested != 0) return static_cast<int>(requested);
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) longest = std::max(longest, a.row_length(row));
  int rows = 4;
  while (rows < most && rows * a.nnz() < kLatency * longest) rows *= 2;
  return rows;
}

UnitShape lanes_for(std::int64_t n, std::int64_t columns, UnitShape shape) {
  if (columns == 0) columns = n <= 32 ? 32 : n <= 64 ? 64 : 128;
  shape.values = 4;
  shape.lanes = static_cast<int>(columns / 4);
  return shape;
}

UnitShape warp_for(std::int64_t n, std::int64_t columns, UnitShape shape) {
  if (columns == 0) columns = n <= 32 ? 32 : n <= 64 ? 64 : 128;
  shape.values = static_cast<int>(columns / 32);
  shape.lanes = 32;
  return shape;
}

ParamSpec columns_param() {
  return {
      "columns",
      std::int64_t{0},
      "columns of C of a unit; a row's nonzeros are read once for each; 0: 32, 64 or 128, by the "
      "width of C",
      {"0", "32", "64", "128"}};
}

ParamSpec combine_param() {
  return {"combine",
          std::string("ordered"),
          "addition of the parts of a split row: in the order of its nonzeros, or by atomics",
          {"ordered", "atomic"}};
}

ParamSpec unroll_param(std::int64_t fallback, std::vector<std::string> choices) {
  return {"unroll", fallback,
          std::string("rows of B that a unit has in flight, where it loads 16 bytes a lane") +
              (fallback == 0 ? "; 0: by the longest row" : ""),
          std::move(choices)};
}

ParamSpec warps_param(std::int64_t fallback) {
  return {"warps", fallback, "warps of a thread block", {"1", "2", "4", "8"}};
}

ParamSpec share_param(const std::string& name, const std::string& items) {
  return {name,
          std::int64_t{0},
          items + " of a share, which one unit takes; 0: 16 to 128, by the matrix",
          {},
          0,
          1 << 20};
}

bool is_atomic(const Params& params) { return params.text("combine") == "atomic"; }

int registers(const UnitShape& shape) {
  const int floats = shape.unroll * shape.values;  // of rows of B, of a lane
  if (shape.streams) return floats > 16 ? 80 : floats > 4 ? 64 : 56;
  if (floats > 32) return 120;
  if (shape.delivery == NonzeroDelivery::kBroadcastLoads) return floats > 16 ? 64 : 40;
  if (shape.unroll == 16) return shape.values == 1 ? 72 : 80;
  if (floats > 16) return 72;
  if (shape.unroll == 8)
    return shape.delivery == NonzeroDelivery::kSharedMemory && shape.values == 1 ? 48 : 56;
  return shape.values == 4 ? 48 : 40;
}

}  // namespace tessera::row_pieces
