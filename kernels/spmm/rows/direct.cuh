// The kernel of rows_spmm for matrices of short rows: a unit takes a row as it is in CSR.
//
// Every lane loads all nonzeros of its row, which are few, and so needs no shuffles. No sums meet
// in shared memory, so that the L1 has all of it: neighbouring rows find each other's rows of B
// there.
#pragma once

#include "kernels/device/hidden.cuh"
#include "kernels/spmm/rows/columns.cuh"

namespace tessera::rows_spmm {

/// Threads of a thread block at most, and thread blocks that the registers have to suffice for.
template <int kWide, bool kInTurn>
constexpr int kMostThreads = kInTurn ? turning_threads(kWide) : most_direct_threads(kWide);
template <int kWide, bool kInTurn>
constexpr int kResident = kInTurn ? resident_turning(kWide) : resident_direct(kWide);

/// `kLanes` lanes a row, `kWide` as in LaneColumns. With `kInTurn` a unit takes `product.turns`
/// rows one after another, those of the thread block side by side: while one is multiplied, it is
/// looked up where the next one begins.
template <class Numbers, int kLanes, bool kAligned, int kWide, bool kInTurn = false>
__global__ void __launch_bounds__(kMostThreads<kWide, kInTurn>, kResident<kWide, kInTurn>)
    multiply_rows(Arguments product) {
  using Columns = LaneColumns<Numbers, kLanes, kAligned, kWide>;
  constexpr int kInFlight = direct_in_flight(Numbers::kCols, kWide);
  constexpr std::uint32_t kBlockRows = kInTurn ? turning_threads(kWide) / kLanes : 0;
  std::uint32_t turn = 0;
  // Computed anew for the store: it would take a register through the loop.
  const auto own_row = [&] {
    if constexpr (kInTurn)
      return (blockIdx.x * product.turns + turn) * kBlockRows + hidden(threadIdx.x) / kLanes;
    else
      return (blockIdx.x * blockDim.x + hidden(threadIdx.x)) / kLanes;
  };
  // These loads are first: what follows takes less time than they do.
  const std::uint32_t* const begins = product.row_begins + min(own_row(), product.rows - 1);
  std::uint32_t begin = load_ahead(begins), end = load_ahead(begins + 1);
  if (blockIdx.y == 0) fetch_early(product.early, blockIdx.x);
  const bool runs = is_to_run<Numbers>(product);
  // Beside the launch of long rows, which has waited, this one does not end before that has. A wait
  // at the end would cost registers.
  if (blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y) wait_for_launch_before();
  if (!runs || own_row() >= product.rows) return;
  const Columns columns;
  if (!product.beside_long_rows) wait_for_launch_before();
  if (!product.ends_first) allow_next_launch();
  const auto multiply_own = [&] {
    std::uint32_t left = end - begin;
    if (left > product.most_direct) return;
    // In registers: the compiler would load the kernel's arguments anew for every step.
    const std::int32_t* cols = hidden(product.col_indices + begin);
    const float* values = hidden(product.values + begin);
    const char* b = hidden(columns.of(product.b));
    float sums[Columns::kCols] = {};
    typename Columns::Piece pieces[kInFlight] = {};
    float of_a[kInFlight];
    const auto load = [&](int i) {
      of_a[i] = __ldg(values + i);
      const auto col = static_cast<std::uint32_t>(__ldg(cols + i));
      const char* from = b + std::uint64_t{col} * product.row_bytes;
#pragma unroll
      for (int v = 0; v < Columns::kAccesses; ++v)
        Columns::template load_if<L1::kKeep>(columns.has(v, product.n), from, v, pieces[i]);
    };
    // Hidden, or the compiler unrolls the loop of some types, and their registers do not suffice.
#pragma unroll 1
    for (; left >= kInFlight; left = hidden(left - kInFlight)) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) load(i);
      cols += kInFlight, values += kInFlight;
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) Columns::add(of_a[i], pieces[i], sums);
    }
    static_assert(kInFlight <= 2);
    if constexpr (kInFlight == 2) {
      if (left > 0) {
        load(0);
        Columns::add(of_a[0], pieces[0], sums);
      }
    }
    const std::uint32_t row = own_row();
    const std::uint32_t place =
        product.places == nullptr ? row : static_cast<std::uint32_t>(product.places[row]);
    columns.store(product, std::uint64_t{place} * product.n + columns.first, sums);
  };
  if constexpr (!kInTurn) {
    multiply_own();
  } else {
#pragma unroll 1
    for (;;) {
      const std::uint32_t row = own_row() + kBlockRows;
      const bool has_next = turn + 1 < product.turns && row < product.rows;
      std::uint32_t next = 0;
      if (has_next) {
        next = load_ahead(product.row_begins + row);
        prefetch_to_l1(product.col_indices + next);
      }
      multiply_own();
      if (!has_next) return;
      ++turn;
      begin = next, end = load_ahead(product.row_begins + own_row() + 1);
    }
  }
}

}  // namespace tessera::rows_spmm
