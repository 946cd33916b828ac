#include "kernels/spmm/row_pieces/row_pieces.hpp"

#include <algorithm>
#include <numeric>

#include "formats/base/check.hpp"

namespace tessera::row_pieces {
namespace {

/// Loads of groups of nonzeros may begin up to three before a piece and end after it.
constexpr std::int64_t kMaxNonzeros = (std::int64_t{1} << 32) - 256;

void number_parts(Plan& plan, const std::vector<std::uint32_t>& pieces_of_row) {
  std::vector<std::uint32_t> parts;
  for (std::size_t p = 0; p < plan.pieces.size(); ++p)
    if (pieces_of_row[plan.pieces[p].row] > 1) parts.push_back(static_cast<std::uint32_t>(p));
  std::ranges::sort(parts, [&](std::uint32_t p, std::uint32_t q) {
    const Piece &x = plan.pieces[p], &y = plan.pieces[q];
    return x.row != y.row ? x.row < y.row : x.first < y.first;
  });
  plan.split_of_slot.reserve(parts.size());
  for (std::uint32_t slot = 0; slot < parts.size(); ++slot) {
    Piece& piece = plan.pieces[parts[slot]];
    if (plan.splits.empty() || plan.splits.back().row != piece.row)
      plan.splits.push_back({piece.row, slot, pieces_of_row[piece.row]});
    plan.split_of_slot.push_back(static_cast<std::uint32_t>(plan.splits.size() - 1));
    piece.slot = slot + 1;
  }
}

}  // namespace

std::vector<std::uint32_t> Plan::cleared(bool atomic) const {
  std::vector<std::uint32_t> rows = unwritten;
  if (atomic)
    for (const Split& split : splits) rows.push_back(split.row);
  return rows;
}

Plan make_plan(const CsrMatrix& a, std::vector<Piece> pieces, std::vector<std::uint32_t> shares) {
  require<Unsupported>(a.nnz() <= kMaxNonzeros, "{} nonzeros are more than the {} kernels count",
                       a.nnz(), kMaxNonzeros);
  require<Unsupported>(pieces.size() < (std::size_t{1} << 31),
                       "{} pieces of rows are more than the kernels count", pieces.size());
  Plan plan{.pieces = std::move(pieces), .shares = std::move(shares)};
  std::vector<std::uint32_t> pieces_of_row(static_cast<std::size_t>(a.rows), 0);
  for (const Piece& piece : plan.pieces) ++pieces_of_row[piece.row];
  number_parts(plan, pieces_of_row);
  for (std::uint32_t row = 0; row < pieces_of_row.size(); ++row)
    if (pieces_of_row[row] == 0) plan.unwritten.push_back(row);
  return plan;
}

std::vector<Piece> whole_rows(const CsrMatrix& a, const std::vector<std::uint32_t>& order) {
  std::vector<Piece> pieces;
  pieces.reserve(order.size());
  for (const std::uint32_t row : order)
    pieces.push_back({row, static_cast<std::uint32_t>(a.row_offsets[row]),
                      static_cast<std::uint32_t>(a.row_offsets[row + 1]), 0});
  return pieces;
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
  std::vector<Piece> pieces;
  std::vector<std::uint32_t> shares{0};
  for (std::uint32_t row = 0; row < static_cast<std::uint32_t>(a.rows); ++row) {
    for (std::int64_t first = a.row_offsets[row]; first < a.row_offsets[row + 1];) {
      const std::int64_t end = (first / nonzeros + 1) * nonzeros;
      const std::int64_t last = std::min(end, a.row_offsets[row + 1]);
      pieces.push_back(
          {row, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last), 0});
      if (last == end || last == a.nnz())
        shares.push_back(static_cast<std::uint32_t>(pieces.size()));
      first = last;
    }
  }
  return make_plan(a, std::move(pieces), std::move(shares));
}

std::int64_t share_size(std::int64_t items, std::int64_t asked) {
  constexpr std::int64_t kUnits = 16384;  // three times as many warps as an H200 holds
  if (asked != 0) return asked;
  return std::clamp<std::int64_t>((items / kUnits + 7) / 8 * 8, 16, 128);
}

Method warp_a_row(std::string name, Shape shape, std::int64_t columns, std::int64_t unroll,
                  int most) {
  return {.name = std::move(name),
          .version = 1,
          .atomic = false,
          .cut = [](const CsrMatrix& a) { return make_plan(a, whole_rows(a, natural_order(a))); },
          .shape =
              [=](const CsrMatrix& a, std::int64_t n) {
                Shape mine = shape;
                mine.unroll = rows_in_flight(a, unroll, most);
                return warp_for(n, columns, mine);
              }};
}

int rows_in_flight(const CsrMatrix& a, std::int64_t asked, int most) {
  // While a row waits for one load of B, an H200 gets through about 8000 nonzeros of other rows,
  // for N = 128; twice that, as others take their share of it.
  constexpr std::int64_t kLatency = 2 * 8000;
  if (asked != 0) return static_cast<int>(asked);
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) longest = std::max(longest, a.row_length(row));
  int rows = 4;
  while (rows < most && rows * a.nnz() < kLatency * longest) rows *= 2;
  return rows;
}

Shape lanes_for(std::int64_t n, std::int64_t columns, Shape shape) {
  if (columns == 0) columns = n <= 32 ? 32 : n <= 64 ? 64 : 128;
  shape.values = 4;
  shape.lanes = static_cast<int>(columns / 4);
  return shape;
}

Shape warp_for(std::int64_t n, std::int64_t columns, Shape shape) {
  if (columns == 0) columns = n <= 32 ? 32 : n <= 64 ? 64 : 128;
  shape.values = static_cast<int>(columns / 32);
  shape.lanes = 32;
  return shape;
}

ParamSpec columns_param() {
  return {"columns",
          std::int64_t{0},
          "columns of C that a row's nonzeros are read for at a time; 0: 32, 64 or 128, by the "
          "width of C",
          {"0", "32", "64", "128"}};
}

ParamSpec combine_param() {
  return {"combine",
          std::string("ordered"),
          "sums of a row's parts: in the order of its nonzeros, or by atomics",
          {"ordered", "atomic"}};
}

ParamSpec unroll_param(std::int64_t fallback, std::vector<std::string> choices) {
  return {"unroll", fallback,
          std::string("rows of B that a warp, or its part, has in flight (rows in 16 bytes)") +
              (fallback == 0 ? "; 0: more where a row is long" : ""),
          std::move(choices)};
}

ParamSpec warps_param(std::int64_t fallback) {
  return {"warps", fallback, "warps of a thread block", {"1", "2", "4", "8"}};
}

ParamSpec share_param(const std::string& name, const std::string& items) {
  return {name,
          std::int64_t{0},
          items + " that are worked on one after another; 0: 16 to 128, by the matrix",
          {},
          0,
          1 << 20};
}

bool is_atomic(const Params& params) { return params.text("combine") == "atomic"; }

int registers(const Shape& shape) {
  const int floats = shape.unroll * shape.values;  // of rows of B
  if (shape.streams) return floats > 16 ? 80 : floats > 4 ? 64 : 56;
  if (floats > 32) return 120;
  if (shape.reach == NonzeroDelivery::kBroadcast) return floats > 16 ? 64 : 40;
  if (shape.unroll == 16) return shape.values == 1 ? 72 : 80;
  if (floats > 16) return 72;
  if (shape.unroll == 8)
    return shape.reach == NonzeroDelivery::kShared && shape.values == 1 ? 48 : 56;
  return shape.values == 4 ? 48 : 40;
}

}  // namespace tessera::row_pieces
