#include "kernels/spmm/row_windows/bit_tcf_kernel.hpp"

#include <algorithm>
#include <bit>

#include "kernels/spmm/row_windows/window_tile.hpp"

namespace tessera {
namespace {

constexpr int kRows = BitTcf::kTileRows;
constexpr int kCols = BitTcf::kTileCols;
static_assert(kRows == window_tile::kWindowRows && kCols == window_tile::kTileCols,
              "the kernels' tile is BitTCF's TC block");

template <class T>
std::int64_t bytes_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

}  // namespace

void WindowEmulation::run_row(int r, std::int64_t first, std::int64_t last, std::span<float> c) {
  RowChain chain(precision_, step_, b_, c);
  for (std::int64_t block = first; block < last; ++block) {
    take_terms(block, r);
    chain.add(terms_);
  }
  chain.finish();
}

void WindowEmulation::take_terms(std::int64_t block, int r) {
  terms_.clear();
  const std::uint64_t bitmap = a_.tc_local_bit[block];
  if (b_.part(0).all_finite() && (bitmap >> (r * kCols) & 0xff) == 0) return;
  for (int k = 0; k < kCols; ++k) {
    const std::int32_t col = a_.sparse_a_to_b[block * kCols + k];
    if ((bitmap >> (r * kCols + k) & 1) != 0) {
      const float value = a_.values[a_.tc_offset[block] + BitTcf::value_rank(bitmap, r, k)];
      terms_.push_back({split(value, precision_), col, k});
    } else if (col != kNoColumn && !b_.part(0).row_is_finite(col)) {
      // A zero of A times a NaN or an infinity in B is a NaN, in a tensor core too: columns of the
      // TC block in which this row has no nonzero still reach it.
      terms_.push_back({{}, col, k});
    }
  }
}

Arithmetic BitTcfKernel::arithmetic() const {
  return {.sum = Arithmetic::Sum::kTensorCore,
          .type = MmaType::kTf32,
          .mma_depth = kCols,
          .input_error = precision_.input_error,
          .mmas_per_chunk = static_cast<int>(precision_.mmas.size()),
          .promote = precision_.promote};
}

std::vector<std::int64_t> BitTcfKernel::terms_per_row(const PackedMatrix& packed) const {
  const auto& a = packed_as<BitTcf>(packed);
  std::vector<std::int64_t> terms(a.rows(), 0);
  for (std::int64_t w = 0; w < a.num_row_windows(); ++w) {
    for (std::int64_t block = a.row_window_offset[w]; block < a.row_window_offset[w + 1]; ++block) {
      for (int r = 0; r < kRows; ++r)
        if ((a.tc_local_bit[block] >> (r * kCols) & 0xff) != 0) ++terms[w * kRows + r];
    }
  }
  return terms;
}

DenseMatrix BitTcfKernel::emulate(const PackedMatrix& packed, const DenseMatrix& b,
                                  const Generation& generation) const {
  const auto& a = packed_as<BitTcf>(packed);
  return emulate_tasks(a, window_tasks::cut(a.row_window_offset, 0), b, generation);
}

DenseMatrix BitTcfKernel::emulate_tasks(const BitTcf& a, const window_tasks::Tasks& tasks,
                                        const DenseMatrix& b, const Generation& generation) const {
  const FusedStep& step = generation.step(MmaType::kTf32);
  const PreparedB prepared(b, precision_);
  return row_windows::emulate_tasks(a, tasks, b.cols,
                                    [&] { return WindowEmulation(a, precision_, step, prepared); });
}

WorkDescription BitTcfKernel::describe(const std::string& kernel, const BitTcf& a,
                                       std::int64_t n) const {
  WorkDescription work = row_windows::describe_tiles(kernel, a, n, "m16n8k8",
                                                     2 * window_tile::kMmaCols * kRows * kCols);
  work.footprint_bytes = stats(a).bytes;
  return work;
}

BitTcfAddresses::BitTcfAddresses(const BitTcf& a, std::int64_t n, AddressSpace& space,
                                 bool has_bitmaps)
    : row_window_offset(space.add("row_window_offset", bytes_of(a.row_window_offset))),
      tc_offset(space.add("tc_offset", bytes_of(a.tc_offset))),
      sparse_a_to_b(space.add("sparse_a_to_b", bytes_of(a.sparse_a_to_b))),
      tc_local_bit(space.add("tc_local_bit", has_bitmaps ? bytes_of(a.tc_local_bit) : 0)),
      values(space.add("values", bytes_of(a.values))),
      b(space.add("b", 4 * n * a.cols())),
      c(space.add("c", 4 * n * a.rows())) {}

void BitTcfTrace::load_extent(std::int64_t window, int board, WarpTrace& trace) const {
  for (int i = 0; i < 2; ++i) {
    trace.load(board);
    trace.touch(at_.row_window_offset + 4 * (window + i), 4);
  }
}

bool BitTcfTrace::load_values(std::int64_t tile, int half, int board, WarpTrace& trace) const {
  const std::uint64_t bitmap = a_.tc_local_bit[tile];
  const std::uint64_t mine = bitmap & (0x0f0f0f0f0f0f0f0full << (4 * half));
  if (mine == 0) return false;
  trace.load(board);
  for (int row = 0; row < kRows; ++row) {
    const auto bits = static_cast<std::uint64_t>(mine >> (row * kCols) & 0xff);
    if (bits == 0) continue;
    const int rank = BitTcf::value_rank(bitmap, row, std::countr_zero(bits));
    trace.touch(at_.values + 4 * (a_.tc_offset[tile] + static_cast<std::uint64_t>(rank)),
                4 * std::popcount(bits));
  }
  return true;
}

bool BitTcfTrace::touch_b(std::int64_t tile, int half, std::int64_t col, std::int64_t cols,
                          WarpTrace& trace) const {
  for_each_row_of_b(tile, half, col,
                    [&](int, std::uint64_t address) { trace.touch(address, 4 * cols); });
  return has_cols(tile, half);
}

void BitTcfTrace::add_fragment_wavefronts(WarpTrace& trace) const {
  constexpr int kRowsAtOnce = 4;
  trace.wavefronts(n_ % 4 == 0 ? std::max(1, trace.touched_sectors()) : kRowsAtOnce);
}

void BitTcfTrace::store(std::int64_t window, std::int64_t col, std::int64_t cols, int instructions,
                        WarpTrace& trace) const {
  constexpr int kElements = 4;  // a lane's four columns one by one
  for (int j = 0; j < 2; ++j) {
    if (n_ % 4 != 0) instructions = kElements;
    trace.store(instructions);
    touch_c(window, j, col, cols, trace);
    // A wavefront for every sector. Measured: four stores of 4 bytes take twice as many as one
    // of 16.
    const int sectors = trace.touched_sectors();
    if (sectors > 0) trace.wavefronts(instructions == 1 ? sectors : 2 * sectors);
  }
}

void BitTcfTrace::add(std::int64_t window, std::int64_t col, std::int64_t cols,
                      WarpTrace& trace) const {
  const std::int64_t rows = rows_of_window(a_, window);
  for (int j = 0; j < 2; ++j) {
    const std::int64_t count = (rows - j + 1) / 2;  // rows 2t + j
    if (count == 0) continue;
    trace.atomic(static_cast<int>(count * cols));
    touch_c(window, j, col, cols, trace);
  }
}

void BitTcfTrace::touch_c(std::int64_t window, int j, std::int64_t col, std::int64_t cols,
                          WarpTrace& trace) const {
  for (int t = 0; t < 4; ++t) {
    const std::int64_t row = window * kRows + 2 * t + j;
    if (row < a_.rows()) trace.touch(at_.c + 4 * (row * n_ + col), 4 * cols);
  }
}

}  // namespace tessera
