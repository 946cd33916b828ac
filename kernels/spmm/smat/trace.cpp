// The launch of each rung in numbers and, for the simulator, instruction by instruction in the
// order of the source; instructions besides memory and MMAs are counted in the machine code of
// sm_90a for aligned operands (CUDA 13.0), as far as they repeat for every piece.

#include "kernels/spmm/smat/trace.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "formats/base/check.hpp"

namespace tessera::smat {
namespace {

constexpr int kMmasPerGroup = 2;  // of 32 columns, for eight rows of A

/// What a warp has: rows and columns of C, and the pieces in between.
struct Share {
  std::span<const Piece> pieces;
  std::int64_t first_piece;
  std::int64_t strip;
  std::int64_t first_row, rows;
  std::int64_t col, cols;
};

/// Cuts C up among the warps of a rung.
class Shares {
 public:
  Shares(std::int32_t rows, const Pieces& pieces, const SmatOptions& choices, std::int64_t n)
      : rows_(rows),
        pieces_(pieces),
        by_row_(choices.rung == Rung::kNaive),
        n_(n),
        cols_(choices.cols_of_warp(n)),
        chunks_((n + cols_ - 1) / cols_) {}

  std::int64_t count() const { return (by_row_ ? rows_ : pieces_.num_strips()) * chunks_; }

  /// Empty beyond the last.
  std::optional<Share> of_warp(std::int64_t warp) const {
    if (warp >= count()) return {};
    const std::int64_t place = warp / chunks_, col = warp % chunks_ * cols_;
    const std::int64_t strip = by_row_ ? pieces_.strip_of(place) : place;
    return Share{.pieces = pieces_.of_strip(strip),
                 .first_piece = pieces_.strip_offset()[strip],
                 .strip = strip,
                 .first_row = by_row_ ? place : pieces_.first_row(strip),
                 .rows = by_row_ ? 1 : pieces_.num_rows(strip),
                 .col = col,
                 .cols = std::min(cols_, n_ - col)};
  }

 private:
  std::int64_t rows_;
  const Pieces& pieces_;
  bool by_row_;
  std::int64_t n_, cols_, chunks_;
};

/// Where the arrays of the product lie; of fragments and cells there is one.
struct Addresses {
  Addresses(const Bcsr& a, const Pieces& pieces, const SmatOptions& choices, std::int64_t n,
            AddressSpace& space) {
    const auto count = static_cast<std::int64_t>(pieces.all().size());
    strip_offset = space.add("strip_offset", 8 * (pieces.num_strips() + 1));
    rows_of_b = space.add("rows_of_b", 8 * count);
    a_piece = kDepth * pieces.height() * (choices.by_blocks() ? 2 : 4);
    a_pieces = space.add(choices.by_blocks() ? "fragments" : "cells", a_piece * count);
    b = space.add("b", 4 * n * a.cols());
    c = space.add("c", 4 * n * a.rows());
  }

  std::uint64_t strip_offset, rows_of_b, a_pieces, b, c;
  std::int64_t a_piece;  // bytes of one
};

/// Instructions of a warp besides those to memory and MMAs.
struct Instructions {
  int start;      // before its pieces
  int piece;      // for each
  int per_copy;   // of it, for a copy of rows of B
  int per_group;  // of it, for the operands of 32 columns
  int per_col;    // of it, for a column that is multiplied (CUDA cores)
  int store;      // for 8 rows and 32 columns; on CUDA cores for all
};
constexpr Instructions instructions_of(Rung rung) {
  switch (rung) {
    case Rung::kNaive:
      return {180, 18, 0, 0, 19, 4};
    case Rung::kB:
      return {90, 17, 0, 0, 34, 80};
    case Rung::kT:
      return {90, 40, 0, 55, 0, 25};
    case Rung::kBt:
      return {90, 45, 0, 24, 0, 25};
    case Rung::kCbt:
      break;
  }
  return {150, 50, 5, 8, 0, 25};
}

class SmatTrace final : public LaunchTrace {
 public:
  SmatTrace(const Bcsr& a, std::shared_ptr<const Pieces> pieces, const SmatOptions& choices,
            std::int64_t n, const Addresses& at)
      : choices_(choices),
        pieces_(std::move(pieces)),
        shares_(a.rows(), *pieces_, choices, n),
        n_(n),
        groups_(choices.cols_of_warp(n) / kGroupCols),
        at_(at),
        instructions_(instructions_of(choices.rung)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    const auto share = shares_.of_warp(thread_block * kWarps + warp);
    if (!share) {
      trace.issue(kIdleInstructions);
      return false;
    }
    const auto pieces = std::ssize(share->pieces);
    if (cursor.step == 0) begin(*share, trace);
    if (cursor.step < pieces) add_piece(*share, cursor.step, trace);
    if (++cursor.step < pieces) return true;
    store(*share, trace);
    return false;
  }

 private:
  static constexpr int kIdleInstructions = 30;
  static constexpr int kDivision = 150;  // cycles that a 64-bit division waits for itself
  // Scoreboards below kMaxStages are the stages'.
  static constexpr int kRowsBoard = kMaxStages, kDataBoard = kMaxStages + 1;

  bool staged() const { return choices_.rung == Rung::kCbt; }
  int parts() const { return pieces_->height() / kMmaRows; }

  void begin(const Share& share, WarpTrace& trace) const {
    trace.issue(instructions_.start);
    trace.pause(kDivision);
    trace.load(kRowsBoard);
    trace.touch(at_.strip_offset + 8 * share.strip, 16);
    trace.wait(kRowsBoard);
    if (!staged() || share.pieces.empty()) return;
    load_rows_of_b(share, 0, trace);
    for (int s = 0; s + 1 < choices_.stages; ++s) copy(share, s, trace);
  }

  void load_rows_of_b(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    trace.load(kRowsBoard);
    trace.touch(at_.rows_of_b + 8 * (share.first_piece + piece), 8);
  }

  void add_piece(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    if (staged())
      multiply_stage(share, piece, trace);
    else if (choices_.on_tensor_cores())
      multiply_direct(share, piece, trace);
    else
      multiply_columns(share, piece, trace);
  }

  /// A piece to its stage, and what is needed for the next.
  void copy(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    const std::int64_t count = std::ssize(share.pieces);
    if (piece < count) {
      const int board = static_cast<int>(piece % choices_.stages);
      trace.wait(kRowsBoard);
      const int at_once = 4 / groups_;  // rows of one instruction
      trace.issue(instructions_.piece + instructions_.per_copy * kDepth / at_once);
      for (int k = 0; k < kDepth; k += at_once) {
        const int copies = n_ % 4 == 0 ? 1 : 4;  // a lane's four columns, at once or one by one
        for (int i = 0; i < copies; ++i)
          copy_rows(share, share.pieces[piece], k, at_once, board, trace);
      }
      copy_fragments(share, piece, board, trace);
    }
    load_rows_of_b(share, std::min(piece + 1, count - 1), trace);
  }

  void copy_rows(const Share& share, const Piece& piece, int k, int rows, int board,
                 WarpTrace& trace) const {
    const std::uint32_t needed = piece.cols & (((1u << rows) - 1) << k);
    if (needed == 0) {
      trace.issue(1);  // zeros to shared memory
    } else if (n_ % 4 == 0) {
      const std::int64_t pitch = 4 * stage_pitch(groups_ * kGroupCols);
      trace.async_copy(board);
      for_each_row_of_b(share, piece, needed, [&](int row, std::uint64_t from) {
        trace.copy_to_shared(from, 4 * share.cols,
                             place_in_stage(board, row_in_stage(row) * pitch));
      });
    } else {
      trace.load(board);
      for_each_row_of_b(share, piece, needed,
                        [&](int, std::uint64_t from) { trace.touch(from, 4 * share.cols); });
    }
  }

  /// 8 bytes a lane, through the L1, for eight rows of A; 16 for sixteen.
  void copy_fragments(const Share& share, std::int64_t piece, int board, WarpTrace& trace) const {
    const std::uint64_t from = at_.a_pieces + at_.a_piece * (share.first_piece + piece);
    if (parts() == 1) {
      trace.load(board);
      trace.touch(from, at_.a_piece);
    } else {
      const std::int64_t behind_b = 4 * kDepth * stage_pitch(groups_ * kGroupCols);
      trace.async_copy(board);
      trace.copy_to_shared(from, at_.a_piece, place_in_stage(board, behind_b));
    }
  }

  std::uint64_t place_in_stage(int stage, std::int64_t byte) const {
    return stage * stage_bytes(groups_ * kGroupCols, pieces_->height()) + byte;
  }

  void multiply_stage(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    trace.wait(static_cast<int>(piece % choices_.stages));
    copy(share, piece + choices_.stages - 1, trace);
    trace.shared(2 * parts());
    for (int g = 0; g < groups_; ++g) {
      constexpr int kLoads = 4, kWavefronts = 4;
      trace.shared(kLoads * kWavefronts);
      trace.issue(instructions_.per_group + kLoads - 1);
      trace.mma(kMmasPerGroup * parts());
    }
  }

  void multiply_direct(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    load_rows_of_b(share, piece, trace);
    load_a(share, piece, trace);
    trace.wait(kRowsBoard);
    trace.issue(instructions_.piece);
    for (int g = 0; g < groups_; ++g) load_rows(share, share.pieces[piece], g, trace);
    trace.wait(kDataBoard);
    for (int g = 0; g < groups_; ++g) {
      trace.issue(instructions_.per_group);
      trace.mma(kMmasPerGroup * parts());
    }
  }

  /// Fragments at once, cells by two.
  void load_a(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    const int loads = choices_.by_blocks() ? 1 : 2 * parts();
    for (int i = 0; i < loads; ++i) {
      trace.load(kDataBoard);
      const std::int64_t part = at_.a_piece / loads;
      trace.touch(at_.a_pieces + at_.a_piece * (share.first_piece + piece) + part * i, part);
    }
  }

  /// Rows 2t + i, where a lane loads 16 bytes of four rows; any two of eight lanes share a sector.
  void load_rows(const Share& share, const Piece& piece, int g, WarpTrace& trace) const {
    constexpr std::uint32_t kRows[4] = {0x0055, 0x00aa, 0x5500, 0xaa00};
    const std::int64_t cols = std::clamp<std::int64_t>(share.cols - g * kGroupCols, 0, kGroupCols);
    const int loads = n_ % 4 == 0 ? 1 : 4;
    for (const std::uint32_t rows : kRows) {
      for (int i = 0; i < loads; ++i) {
        trace.load(kDataBoard);
        if (cols == 0) continue;
        for (std::uint32_t left = piece.cols & rows; left != 0; left &= left - 1)
          trace.touch(address_of_b(piece, std::countr_zero(left), share.col + g * kGroupCols),
                      4 * cols);
        if (const int sectors = trace.touched_sectors(); sectors > 0) trace.wavefronts(sectors);
      }
    }
  }

  /// Column after column of A: a row of B, and A's cells one by one.
  void multiply_columns(const Share& share, std::int64_t piece, WarpTrace& trace) const {
    load_rows_of_b(share, piece, trace);
    trace.wait(kRowsBoard);
    trace.issue(instructions_.piece);
    const bool by_row = choices_.rung == Rung::kNaive;
    const Piece& of = share.pieces[piece];
    const int first = by_row ? pieces_->row_in_strip(share.first_row) : 0;
    const int cells = by_row ? 1 : pieces_->height();
    for (std::uint32_t left = of.cols; left != 0; left &= left - 1) {
      const int k = std::countr_zero(left);
      trace.load(kDataBoard);
      trace.touch(address_of_b(of, k, share.col), 4 * share.cols);
      for (int r = first; r < first + cells; ++r) {
        trace.load(kDataBoard);
        trace.touch(at_.a_pieces + at_.a_piece * (share.first_piece + piece) +
                        4 * (std::int64_t{r} * kDepth + k),
                    4);
      }
      trace.wait(kDataBoard);
      trace.issue(instructions_.per_col);
    }
  }

  std::uint64_t address_of_b(const Piece& piece, int k, std::int64_t col) const {
    return at_.b + 4 * ((std::int64_t{piece.b_row} + k) * n_ + col);
  }

  /// Calls visit(k, address of the warp's first column) for the rows k of `rows`.
  template <class Visit>
  void for_each_row_of_b(const Share& share, const Piece& piece, std::uint32_t rows,
                         Visit visit) const {
    for (; rows != 0; rows &= rows - 1) {
      const int k = std::countr_zero(rows);
      visit(k, address_of_b(piece, k, share.col));
    }
  }

  void store(const Share& share, WarpTrace& trace) const {
    if (choices_.on_tensor_cores() && !share.pieces.empty()) trace.wait_mma();
    const int stored = choices_.on_tensor_cores() ? groups_ * parts() : 1;
    trace.issue(instructions_.store * stored);
    const auto touch_c = [&](std::int64_t row, std::int64_t col, std::int64_t cols) {
      trace.touch(at_.c + 4 * ((share.first_row + row) * n_ + share.col + col), 4 * cols);
    };
    if (!choices_.on_tensor_cores()) {
      for (std::int64_t row = 0; row < share.rows; ++row) {
        trace.store();
        touch_c(row, 0, share.cols);
      }
      return;
    }
    // Rows 2t + i of eight rows, 32 columns at once.
    for (std::int64_t col = 0; col < share.cols; col += kGroupCols) {
      for (std::int64_t first = 0; first < share.rows; first += kMmaRows) {
        for (int i = 0; i < 2; ++i) {
          if (first + i >= share.rows) continue;
          trace.store(n_ % 4 == 0 ? 1 : 4);
          const std::int64_t end = std::min(first + kMmaRows, share.rows);
          for (std::int64_t row = first + i; row < end; row += 2)
            touch_c(row, col, std::min<std::int64_t>(kGroupCols, share.cols - col));
        }
      }
    }
  }

  SmatOptions choices_;
  std::shared_ptr<const Pieces> pieces_;
  Shares shares_;
  std::int64_t n_;
  int groups_;  // of 32 columns, of a warp
  Addresses at_;
  Instructions instructions_;
};

/// What one warp adds to its thread block.
void add_share(const Pieces& pieces, const Share& share, const SmatOptions& choices, int groups,
               ThreadBlockWork& work) {
  const int height = pieces.height();
  const std::int64_t cells_in_column = choices.rung == Rung::kNaive ? 1 : height;
  work.a_bytes += 16;
  work.c_bytes += 4 * share.rows * share.cols;
  for (const Piece& piece : share.pieces) {
    const std::int64_t cols = std::popcount(piece.cols);
    work.b_bytes += 4 * cols * share.cols;
    work.a_bytes += 8;
    if (choices.on_tensor_cores()) {
      work.mma += std::int64_t{groups} * kMmasPerGroup * height / kMmaRows;
      work.a_bytes += kDepth * height * (choices.by_blocks() ? 2 : 4);
    } else {
      work.fma += cols * cells_in_column * share.cols;
      work.a_bytes += 4 * cols * cells_in_column;
    }
  }
}

std::int64_t count_rows_of_b(const Bcsr& a, const Pieces& pieces) {
  std::vector<std::uint8_t> needed(a.cols(), 0);
  for (const Piece& piece : pieces.all())
    for (std::uint32_t cols = piece.cols; cols != 0; cols &= cols - 1)
      needed[piece.b_row + std::countr_zero(cols)] = 1;
  return std::ranges::count(needed, 1);
}

}  // namespace

WorkDescription describe_work(const Bcsr& a, std::shared_ptr<const Pieces> pieces,
                              const SmatOptions& choices, std::int64_t n) {
  WorkDescription work{.kernel = "smat"};
  if (choices.on_tensor_cores()) {
    work.mma_type = "fp16";  // BF16 goes at the same pace
    work.mma_shape = "m16n8k16";
    work.flops_per_mma = 2 * 16 * kMmaRows * kDepth;
  }
  const Shares shares(a.rows(), *pieces, choices, n);
  const int groups = choices.cols_of_warp(n) / kGroupCols;
  work.thread_blocks.resize((shares.count() + kWarps - 1) / kWarps);
  for (std::int64_t warp = 0; warp < shares.count(); ++warp)
    add_share(*pieces, *shares.of_warp(warp), choices, groups, work.thread_blocks[warp / kWarps]);
  work.footprint_bytes = stats(a).bytes;
  work.b_rows_bytes = 4 * n * count_rows_of_b(a, *pieces);
  work.c_bytes = 4 * n * a.rows();
  work.useful_flops = 2 * a.nnz() * n;
  const Addresses at(a, *pieces, choices, n, work.memory);
  work.launches = {{.name = "multiply",
                    .thread_blocks = static_cast<std::int64_t>(work.thread_blocks.size()),
                    .threads_per_block = kThreads,
                    .registers_per_thread = choices.registers(n, pieces->height()),
                    .shared_bytes = choices.shared_bytes(n, pieces->height()),
                    .trace = std::make_shared<SmatTrace>(a, pieces, choices, n, at)}};
  return work;
}

}  // namespace tessera::smat
