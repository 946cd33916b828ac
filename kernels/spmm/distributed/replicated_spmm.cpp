#include "kernels/spmm/distributed/replicated_spmm.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/distributed/partition.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"
#include "kernels/storage.hpp"

namespace tessera {
namespace {

/// The sum that a rank adds for one element.
float added(float sum, float next) { return scaled({1, 1}, next, &sum); }

std::vector<RowRange> ranges_of(const std::vector<std::int32_t>& part_of, int parts) {
  std::vector<RowRange> ranges(static_cast<std::size_t>(parts));
  for (const std::int32_t part : part_of) ++ranges[static_cast<std::size_t>(part)].count;
  for (std::size_t i = 1; i < ranges.size(); ++i)
    ranges[i].first = ranges[i - 1].first + ranges[i - 1].count;
  return ranges;
}

void add_block(std::vector<PeerRows>& blocks, int peer, std::int64_t first, std::int64_t count) {
  if (count > 0) blocks.push_back({peer, first, count});
}

}  // namespace

RowRange RowRange::piece(int number, int pieces) const {
  const std::int64_t begin = count * number / pieces, end = count * (number + 1) / pieces;
  return {first + begin, end - begin};
}

ReplicatedLayout::ReplicatedLayout(const CsrMatrix& a, const ReplicatedOptions& options)
    : groups_(0), copies_(options.copies) {
  require(options.copies >= 1 && options.parts >= 1 && options.parts % options.copies == 0,
          "{} copies of B do not divide {} parts", options.copies, options.parts);
  groups_ = options.groups();
  rows_ = ranges_of(contiguous_parts(nonzero_costs(a), groups_), groups_);
  b_rows_ = rows_;
  if (a.rows == a.cols) return;
  for (int group = 0; group < groups_; ++group)
    b_rows_[static_cast<std::size_t>(group)] = RowRange{0, a.cols}.piece(group, groups_);
}

RowRange ReplicatedLayout::slice(int rank) const {
  return RowRange{0, rows(rank).count}.piece(copy_of(rank), copies_);
}

std::vector<std::int32_t> ReplicatedLayout::share(int rank) const {
  std::vector<std::int32_t> rows;
  for (const RowRange& block : b_rows_) {
    const RowRange piece = block.piece(copy_of(rank), copies_);
    for (std::int64_t i = 0; i < piece.count; ++i)
      rows.push_back(static_cast<std::int32_t>(piece.first + i));
  }
  return rows;
}

CsrMatrix ReplicatedLayout::part(const CsrMatrix& a, int rank) const {
  const std::vector<std::int32_t> rows_of_b = share(rank);
  std::vector<std::int32_t> place(static_cast<std::size_t>(a.cols), -1);
  for (std::size_t i = 0; i < rows_of_b.size(); ++i)
    place[static_cast<std::size_t>(rows_of_b[i])] = static_cast<std::int32_t>(i);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  const RowRange& of = rows(rank);
  for (std::int64_t row = of.first; row < of.first + of.count; ++row) {
    for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
      const std::int32_t col = place[static_cast<std::size_t>(a.col_indices[k])];
      if (col < 0) continue;
      cols.push_back(col);  // ascending, as the rows of a share are
      values.push_back(a.values[k]);
    }
    offsets.push_back(std::ssize(cols));
  }
  return {static_cast<std::int32_t>(of.count), static_cast<std::int32_t>(rows_of_b.size()), offsets,
          cols, values};
}

OwnPiece ReplicatedLayout::own_piece(int rank) const {
  std::int64_t place = 0;
  for (int group = 0; group < group_of(rank); ++group)
    place += b_rows_[static_cast<std::size_t>(group)].piece(copy_of(rank), copies_).count;
  const RowRange piece = b_rows(rank).piece(copy_of(rank), copies_);
  return {piece.first - b_rows(rank).first, place, piece.count};
}

RowMoves ReplicatedLayout::gather(int rank) const {
  RowMoves moves;
  const OwnPiece own = own_piece(rank);
  std::int64_t place = 0;
  for (int group = 0; group < groups_; ++group) {
    const auto count = b_rows_[static_cast<std::size_t>(group)].piece(copy_of(rank), copies_).count;
    if (group != group_of(rank)) {
      add_block(moves.sends, this->rank(group, copy_of(rank)), own.first, own.count);
      add_block(moves.receives, this->rank(group, copy_of(rank)), place, count);
    }
    place += count;
  }
  return moves;
}

RowMoves ReplicatedLayout::collect(int rank) const {
  RowMoves moves;
  const std::int64_t count = slice(rank).count;
  std::int64_t place = 0;
  for (int copy = 0; copy < copies_; ++copy) {
    const int peer = this->rank(group_of(rank), copy);
    if (peer == rank) continue;
    add_block(moves.sends, peer, slice(peer).first, slice(peer).count);
    add_block(moves.receives, peer, place, count);
    place += count;
  }
  return moves;
}

RowMoves ReplicatedLayout::spread(int rank) const {
  RowMoves moves;
  for (int copy = 0; copy < copies_; ++copy) {
    const int peer = this->rank(group_of(rank), copy);
    if (peer == rank) continue;
    add_block(moves.sends, peer, slice(rank).first, slice(rank).count);
    add_block(moves.receives, peer, slice(peer).first, slice(peer).count);
  }
  return moves;
}

std::int64_t ReplicatedLayout::rows_exchanged() const {
  std::int64_t rows = 0;
  for (int rank = 0; rank < groups_ * copies_; ++rank)
    for (const RowMoves& moves : {gather(rank), collect(rank), spread(rank)})
      for (const PeerRows& block : moves.sends) rows += block.count;
  return rows;
}

void exchange_rows(const RowMoves& moves, std::int64_t row_bytes, const std::byte* from,
                   std::byte* to, Communicator& comm, CUstream_st* stream) {
  std::vector<OutgoingBlock> sends;
  std::vector<IncomingBlock> receives;
  for (const PeerRows& block : moves.sends)
    sends.push_back({block.peer, from + block.first * row_bytes, block.count * row_bytes});
  for (const PeerRows& block : moves.receives)
    receives.push_back({block.peer, to + block.first * row_bytes, block.count * row_bytes});
  if (!sends.empty() || !receives.empty()) comm.exchange(sends, receives, stream);
}

ReplicatedSpmm::ReplicatedSpmm(ReplicatedOptions options)
    : options_(std::move(options)),
      params_(Registry<SpmmKernel>::instance().resolve(options_.kernel, options_.params)),
      kernel_(Registry<SpmmKernel>::instance().make(options_.kernel, params_)),
      format_(Registry<Format>::instance().make(kernel_->format(), options_.format)) {
  const Storage has = kernel_->arithmetic().storage;
  require<Unsupported>(has == Storage{}, "the 1.5D product has B and C in fp32, not {}/{}",
                       name_of(has.b), name_of(has.c));
}

std::string ReplicatedSpmm::format() const { return CsrPacked::kFormat; }

std::unique_ptr<PackedMatrix> ReplicatedSpmm::pack(const CsrMatrix& matrix) const {
  return format_->pack(matrix);
}

std::vector<std::int64_t> ReplicatedSpmm::terms_per_row(const PackedMatrix& packed) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const ReplicatedLayout layout(a, options_);
  std::vector<std::int64_t> terms(static_cast<std::size_t>(a.rows), options_.copies - 1);
  for (int rank = 0; rank < options_.parts; ++rank) {
    const auto of_part = kernel_->terms_per_row(*pack(layout.part(a, rank)));
    for (std::size_t i = 0; i < of_part.size(); ++i)
      terms[static_cast<std::size_t>(layout.rows(rank).first) + i] += of_part[i];
  }
  return terms;
}

DenseMatrix ReplicatedSpmm::emulate(const PackedMatrix& packed, const DenseMatrix& b,
                                    const Generation& generation) const {
  const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
  const ReplicatedLayout layout(a, options_);
  DenseMatrix c(a.rows, b.cols);
  for (int rank = 0; rank < options_.parts; ++rank) {
    const DenseMatrix of_share = rows_of(b, layout.share(rank));
    const DenseMatrix sums = kernel_->emulate(*pack(layout.part(a, rank)), of_share, generation);
    const bool is_first = layout.copy_of(rank) == 0;
    for (std::int64_t i = 0; i < sums.rows; ++i)
      std::ranges::transform(
          sums.row(i), c.row(layout.rows(rank).first + i),
          c.row(layout.rows(rank).first + i).begin(),
          [&](float next, float sum) { return is_first ? next : added(sum, next); });
  }
  return c;
}

DenseMatrix ReplicatedSpmm::multiply_on_host(const CsrMatrix& a, const DenseMatrix& own,
                                             const Generation& generation,
                                             Communicator& comm) const {
  const ReplicatedLayout layout(a, options_);
  const int rank = comm.rank();
  const std::int64_t n = own.cols, row_bytes = n * static_cast<std::int64_t>(sizeof(float));
  const auto bytes = [](DenseMatrix& matrix) {
    return reinterpret_cast<std::byte*>(matrix.values.data());
  };

  DenseMatrix own_copy = own;
  const CsrMatrix part = layout.part(a, rank);
  DenseMatrix share(part.cols, n);
  const OwnPiece piece = layout.own_piece(rank);
  std::copy_n(own.values.begin() + piece.first * n, piece.count * n,
              share.values.begin() + piece.place * n);
  exchange_rows(layout.gather(rank), row_bytes, bytes(own_copy), bytes(share), comm, nullptr);

  DenseMatrix c = kernel_->emulate(*pack(part), share, generation);
  const RowRange slice = layout.slice(rank);
  DenseMatrix others(slice.count * (options_.copies - 1), n);
  exchange_rows(layout.collect(rank), row_bytes, bytes(c), bytes(others), comm, nullptr);
  for (std::int64_t i = 0; i < slice.count; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const float mine = c.at(slice.first + i, j);
      float sum = 0;
      for (int copy = 0, other = 0; copy < options_.copies; ++copy) {
        const float next =
            copy == layout.copy_of(rank) ? mine : others.at(slice.count * other++ + i, j);
        sum = copy == 0 ? next : added(sum, next);
      }
      c.at(slice.first + i, j) = sum;
    }
  exchange_rows(layout.spread(rank), row_bytes, bytes(c), bytes(c), comm, nullptr);
  return c;
}

}  // namespace tessera
