#include "kernels/spmm/distributed/chain_spmm.hpp"

#include <algorithm>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"

namespace tessera {
namespace {

DistributedOptions with_needed_rows(DistributedOptions options) {
  options.exchange = Exchange::kNeeded;
  return options;
}

/// The rows of A that a part owns and another one needs, ascending.
std::vector<std::int32_t> boundary_of(const ExchangeLists& lists, int part) {
  std::vector<std::int32_t> rows;
  for (int to = 0; to < lists.parts(); ++to)
    rows.insert(rows.end(), lists.rows(to, part).begin(), lists.rows(to, part).end());
  std::ranges::sort(rows);
  const auto doubles = std::ranges::unique(rows);
  rows.erase(doubles.begin(), doubles.end());
  return rows;
}

/// The places in ascending `rows` at which the pieces of the ascending `boundary` begin and end.
/// [pieces + 1]
std::vector<std::int64_t> cuts_of(const std::vector<std::int32_t>& rows,
                                  const std::vector<std::int32_t>& boundary, int pieces) {
  std::vector<std::int64_t> cuts{0};
  for (int piece = 1; piece < pieces; ++piece) {
    const std::size_t first =
        boundary.size() * static_cast<std::size_t>(piece) / static_cast<std::size_t>(pieces);
    cuts.push_back(first == boundary.size()
                       ? std::ssize(rows)
                       : std::ranges::lower_bound(rows, boundary[first]) - rows.begin());
  }
  cuts.push_back(std::ssize(rows));
  return cuts;
}

/// Rows of the part, with the columns of received rows behind those of its own. `remote_row` has
/// the row of `part.remote` that belongs to each; -1 for none.
CsrMatrix merged_rows(const PartOfProduct& part, const std::vector<std::int64_t>& remote_row,
                      const std::vector<std::int32_t>& rows) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  const auto add = [&](const CsrMatrix& from, std::int64_t row, std::int32_t first) {
    for (const std::int32_t col : from.row_cols(row)) cols.push_back(first + col);
    values.insert(values.end(), from.row_values(row).begin(), from.row_values(row).end());
  };
  for (const std::int32_t row : rows) {
    add(part.local, row, 0);
    const std::int64_t other = remote_row[static_cast<std::size_t>(row)];
    if (other >= 0) add(part.remote, other, part.local.cols);
    offsets.push_back(std::ssize(cols));
  }
  return {static_cast<std::int32_t>(rows.size()), part.local.cols + part.remote.cols,
          std::move(offsets), std::move(cols), std::move(values)};
}

}  // namespace

ChainPart chain_part(const CsrMatrix& a, const Distribution& distribution, int part, int pieces) {
  require(a.rows == a.cols, "a chain needs a square A, not one of {} x {}", a.rows, a.cols);
  require(pieces >= 1, "a boundary has {} pieces; it needs at least one", pieces);
  require(distribution.exchange != Exchange::kGathered,
          "a chain has no use for all of B; its exchange is gathered");
  const ExchangeLists& lists = distribution.travelling;
  const PartOfProduct of = part_of(a, distribution, part);
  ChainPart made{.part = part,
                 .rows = of.rows,
                 .received = of.remote.cols,
                 .sent_rows = of.sent_rows,
                 .pieces = std::vector<ChainPiece>(static_cast<std::size_t>(pieces) + 1)};

  const std::vector<std::int32_t> boundary = boundary_of(lists, part);
  const auto add_blocks = [&](const PeerRows& block, const std::vector<std::int32_t>& rows,
                              const std::vector<std::int32_t>& of_sender, auto list) {
    const std::vector<std::int64_t> cuts = cuts_of(rows, of_sender, pieces);
    for (std::size_t piece = 0; piece + 1 < cuts.size(); ++piece)
      if (const std::int64_t count = cuts[piece + 1] - cuts[piece]; count > 0)
        (made.pieces[piece].*list).push_back({block.peer, block.first + cuts[piece], count});
  };
  for (const PeerRows& block : of.sends)
    add_blocks(block, lists.rows(block.peer, part), boundary, &ChainPiece::sends);
  for (const PeerRows& block : of.receives)
    add_blocks(block, lists.rows(part, block.peer), boundary_of(lists, block.peer),
               &ChainPiece::receives);

  // Rows of the part by piece, those of no piece last.
  std::vector<std::int64_t> remote_row(of.rows.size(), -1);
  for (std::size_t i = 0; i < of.remote_rows.size(); ++i)
    remote_row[static_cast<std::size_t>(of.remote_rows[i])] = static_cast<std::int64_t>(i);
  const std::vector<std::int64_t> cuts = cuts_of(boundary, boundary, pieces);
  std::size_t next = 0;
  for (std::size_t row = 0; row < of.rows.size(); ++row) {
    std::size_t piece = made.pieces.size() - 1;
    if (next < boundary.size() && boundary[next] == of.rows[row]) {
      piece = 0;
      while (static_cast<std::int64_t>(next) >= cuts[piece + 1]) ++piece;
      ++next;
    }
    made.pieces[piece].rows.push_back(static_cast<std::int32_t>(row));
  }
  for (ChainPiece& piece : made.pieces) piece.a = merged_rows(of, remote_row, piece.rows);
  return made;
}

ChainSpmm::ChainSpmm(DistributedOptions options, std::int64_t n, int pieces)
    : kernel_(with_needed_rows(std::move(options)), n), n_(n), pieces_(pieces) {
  const Storage has = kernel_.kernel().arithmetic().storage;
  require<Unsupported>(has.b == has.c, "C of a chain is the next B, but {} is not {}",
                       name_of(has.c), name_of(has.b));
}

std::vector<std::int64_t> ChainSpmm::terms_per_row(const PackedMatrix& packed) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const Distribution distribution = distribute(a, n_, options());
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows));
  for (int number = 0; number < options().parts; ++number) {
    const ChainPart part = chain_part(a, distribution, number, pieces_);
    for (const ChainPiece& piece : part.pieces) {
      const auto of_rows = kernel_.kernel().terms_per_row(*kernel_.pack(piece.a));
      for (std::size_t i = 0; i < of_rows.size(); ++i)
        terms[static_cast<std::size_t>(part.rows[static_cast<std::size_t>(piece.rows[i])])] =
            of_rows[i];
    }
  }
  return terms;
}

DenseMatrix ChainSpmm::emulate_sums(const ChainPart& part, const DenseMatrix& x,
                                    const Generation& generation) const {
  DenseMatrix sums(std::ssize(part.rows), x.cols);
  for (const ChainPiece& piece : part.pieces) {
    if (piece.rows.empty()) continue;
    const DenseMatrix of_piece = kernel_.kernel().emulate(*kernel_.pack(piece.a), x, generation);
    for (std::size_t i = 0; i < piece.rows.size(); ++i)
      std::ranges::copy(of_piece.row(static_cast<std::int64_t>(i)),
                        sums.row(piece.rows[i]).begin());
  }
  return sums;
}

DenseMatrix ChainSpmm::emulate_part(const ChainPart& part, const DenseMatrix& x,
                                    const Generation& generation, float alpha) const {
  const DenseMatrix not_read(std::ssize(part.rows), x.cols);
  return emulate_scaling({alpha, 0}, emulate_sums(part, x, generation), not_read,
                         arithmetic().storage.c);
}

DenseMatrix ChainSpmm::emulate(const PackedMatrix& packed, const DenseMatrix& b,
                               const Generation& generation) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const Distribution distribution = distribute(a, n_, options());
  DenseMatrix c(a.rows, b.cols);
  for (int number = 0; number < options().parts; ++number) {
    const ChainPart part = chain_part(a, distribution, number, pieces_);
    std::vector<std::int32_t> of_x = part.rows;
    for (int peer = 0; peer < options().parts; ++peer) {
      const auto& rows = distribution.travelling.rows(number, peer);
      of_x.insert(of_x.end(), rows.begin(), rows.end());
    }
    const DenseMatrix of_part = emulate_sums(part, rows_of(b, of_x), generation);
    for (std::size_t i = 0; i < part.rows.size(); ++i)
      std::ranges::copy(of_part.row(static_cast<std::int64_t>(i)), c.row(part.rows[i]).begin());
  }
  return c;
}

DenseMatrix ChainSpmm::run_on_host(const CsrMatrix& a, const DenseMatrix& own, int products,
                                   float alpha, const Generation& generation,
                                   Communicator& comm) const {
  const Distribution distribution = distribute(a, n_, options());
  const ChainPart part = chain_part(a, distribution, comm.rank(), pieces_);
  const ElementType type = distribution.b;
  const std::int64_t row_bytes = distribution.row_bytes;
  DenseMatrix x(own.rows + part.received, own.cols), c = own;
  for (int product = 0; product < products; ++product) {
    std::ranges::copy(c.values, x.values.begin());
    const std::vector<std::byte> sent = bytes_in(type, rows_of(c, part.sent_rows).values);
    std::vector<std::byte> received(static_cast<std::size_t>(part.received * row_bytes));
    for (const ChainPiece& piece : part.pieces) {
      std::vector<OutgoingBlock> sends;
      std::vector<IncomingBlock> receives;
      for (const PeerRows& block : piece.sends)
        sends.push_back(
            {block.peer, sent.data() + block.first * row_bytes, block.count * row_bytes});
      for (const PeerRows& block : piece.receives)
        receives.push_back(
            {block.peer, received.data() + block.first * row_bytes, block.count * row_bytes});
      if (!sends.empty() || !receives.empty()) comm.exchange(sends, receives, nullptr);
    }
    read_from(type, received, std::span(x.values).subspan(c.values.size()));
    c = emulate_part(part, x, generation, alpha);
  }
  return c;
}

}  // namespace tessera
