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
void launch(const float* c, const std::int32_t* new_of_old, std::int32_t rows, std::int64_t pieces,
            float* out, cudaStream_t stream) {
  unsigned lanes = 1;
  while (lanes < kThreads && lanes < pieces) lanes *= 2;
  const unsigned rows_per_block = kThreads / lanes;
  const auto blocks =
      static_cast<unsigned>((std::int64_t{rows} + rows_per_block - 1) / rows_per_block);
  gather<<<blocks, dim3(lanes, rows_per_block), 0, stream>>>(
      reinterpret_cast<const Piece*>(c), new_of_old, rows, pieces, reinterpret_cast<Piece*>(out));
}

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

}  // namespace

void restore_rows(const float* c, const std::int32_t* new_of_old, std::int32_t rows, std::int64_t n,
                  float* out, cudaStream_t stream) {
  if (rows == 0 || n == 0) return;
  if (n % 4 == 0 && aligned(c) && aligned(out))
    launch<float4>(c, new_of_old, rows, n / 4, out, stream);
  else
    launch<float>(c, new_of_old, rows, n, out, stream);
  cuda_check(cudaGetLastError(), "launching restore_rows");
}

void load_restore_rows() { load_now(gather<float4>, gather<float>); }

}  // namespace tessera
