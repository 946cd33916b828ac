// The kernel of rows_spmm for matrices of short rows: a unit takes a row as it is in CSR.
//
// Every lane loads all nonzeros of its row, which are few, and so needs no shuffles. No sums meet
// in shared memory, so that the L1 has all of it: neighbouring rows find each other's rows of B
// there.
#pragma once

#include "kernels/device/hidden.cuh"
#include "kernels/spmm/rows/columns.cuh"

namespace tessera::rows_spmm {

/// `kLanes` lanes a row, `kWide` as in LaneColumns.
template <class Numbers, int kLanes, bool kAligned, int kWide>
__global__ void __launch_bounds__(kThreads, resident_direct(Numbers::kCols, kWide))
    multiply_rows(Arguments product) {
  using Columns = LaneColumns<Numbers, kLanes, kAligned, kWide>;
  constexpr int kInFlight = direct_in_flight(Numbers::kCols, kWide);
  if (blockIdx.y == 0) fetch_early(product.early, blockIdx.x);
  const bool runs = is_to_run<Numbers>(product);
  // The launch does not end before that of the long rows, beside which it may have begun. A wait at
  // the end would cost registers.
  if (blockIdx.x + 1 == gridDim.x && blockIdx.y + 1 == gridDim.y) wait_for_launch_before();
  const std::uint32_t row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  if (!runs || row >= product.rows) return;
  const Columns columns;
  std::uint32_t at = __ldg(product.row_begins + row);
  const std::uint32_t end = __ldg(product.row_begins + row + 1);
  if (end - at > product.most_direct) return;
  // In registers: the compiler would load the kernel's arguments anew for every step.
  const std::int32_t* cols = hidden(product.col_indices + at);
  const float* values = hidden(product.values + at);
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
  for (; at + kInFlight <= end; at = hidden(at + kInFlight)) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) load(i);
    cols += kInFlight, values += kInFlight;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) Columns::add(of_a[i], pieces[i], sums);
  }
  static_assert(kInFlight <= 2);
  if constexpr (kInFlight == 2) {
    if (at < end) {
      load(0);
      Columns::add(of_a[0], pieces[0], sums);
    }
  }
  const std::uint32_t place =
      product.places == nullptr ? row : static_cast<std::uint32_t>(product.places[row]);
  columns.store(product, std::uint64_t{place} * product.n + columns.first, sums);
}

}  // namespace tessera::rows_spmm
