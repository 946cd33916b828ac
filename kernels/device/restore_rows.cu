// A gather: neighbouring lanes read and write one row in 16-byte accesses where n allows, so that
// reads and writes are whole sectors; a thread block takes as many rows as it has lanes for. It
// moves 8 n bytes per row and computes nothing.
#include "kernels/device/restore_rows.hpp"

#include "formats/base/device_memory.hpp"
#include "kernels/gpu_spmm.hpp"

namespace tessera {
namespace {

constexpr int kThreads = 256;

/// Copies rows with thread blocks of (lanes per row, rows); a row has `pieces` values of type
/// Piece.
template <class Piece>
__global__ void gather(const Piece* __restrict__ c, const std::int32_t* __restrict__ new_of_old,
                       std::int32_t rows, std::int64_t pieces, Piece* __restrict__ out) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const Piece* from = c + new_of_old[row] * pieces;
  Piece* to = out + row * pieces;
  for (std::int64_t piece = threadIdx.x; piece < pieces; piece += blockDim.x)
    to[piece] = from[piece];
}

template <class Piece>
void launch(const void* from, const std::int32_t* places, std::int32_t rows, std::int64_t row_bytes,
            void* out, cudaStream_t stream) {
  const std::int64_t pieces = row_bytes / static_cast<std::int64_t>(sizeof(Piece));
  unsigned lanes = 1;
  while (lanes < kThreads && lanes < pieces) lanes *= 2;
  const unsigned rows_per_block = kThreads / lanes;
  const auto blocks =
      static_cast<unsigned>((std::int64_t{rows} + rows_per_block - 1) / rows_per_block);
  gather<<<blocks, dim3(lanes, rows_per_block), 0, stream>>>(
      static_cast<const Piece*>(from), places, rows, pieces, static_cast<Piece*>(out));
}

}  // namespace

void gather_rows(const void* from, const std::int32_t* places, std::int32_t rows,
                 std::int64_t row_bytes, void* out, cudaStream_t stream) {
  if (rows == 0 || row_bytes == 0) return;
  const auto is_multiple_of = [&](std::uintptr_t bytes) {
    return (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(out) |
            static_cast<std::uintptr_t>(row_bytes)) %
               bytes ==
           0;
  };
  if (is_multiple_of(sizeof(float4)))
    launch<float4>(from, places, rows, row_bytes, out, stream);
  else if (is_multiple_of(sizeof(float)))
    launch<float>(from, places, rows, row_bytes, out, stream);
  else
    launch<std::uint16_t>(from, places, rows, row_bytes, out, stream);
  cuda_check(cudaGetLastError(), "launching restore_rows");
}

void restore_rows(const float* c, const std::int32_t* new_of_old, std::int32_t rows, std::int64_t n,
                  float* out, cudaStream_t stream) {
  gather_rows(c, new_of_old, rows, n * static_cast<std::int64_t>(sizeof(float)), out, stream);
}

void load_restore_rows() { load_now(gather<float4>, gather<float>, gather<std::uint16_t>); }

}  // namespace tessera
