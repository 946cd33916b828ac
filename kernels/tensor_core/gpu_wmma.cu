// Kernels that run a single wmma instruction (CUDA C++ Programming Guide, "Warp Matrix Functions"):
// one warp and one instruction per tile. The compiler chooses the layout of a fragment, so the tile
// passes through shared memory.

#include <mma.h>

#include <type_traits>

#include "kernels/tensor_core/gpu_instruction.hpp"
#include "kernels/tensor_core/number_format.hpp"

namespace tessera {
namespace {

constexpr int kExtent = 16;  // m, n and k
constexpr int kElements = kExtent * kExtent;

__device__ void convert_element(float from, float& to) { to = from; }
__device__ void convert_element(float from, __half& to) { to = __ushort_as_half(fp16_bits(from)); }
__device__ void convert_element(__half from, float& to) { to = fp16_value(__half_as_ushort(from)); }

template <class From, class To>
__device__ void copy_tile(const From* from, To* to) {
  for (int e = static_cast<int>(threadIdx.x); e < kElements; e += 32)
    convert_element(from[e], to[e]);
}

template <class Sum>
__global__ void multiply_tiles(const float* a, const float* b, const float* c, float* d) {
  namespace wmma = nvcuda::wmma;
  const std::int64_t first = std::int64_t{blockIdx.x} * kElements;
  alignas(32) __shared__ __half left[kElements], right[kElements];
  alignas(32) __shared__ Sum sum[kElements];
  copy_tile(a + first, left);
  copy_tile(b + first, right);
  copy_tile(c + first, sum);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, kExtent, kExtent, kExtent, __half, wmma::row_major> fragment_a;
  wmma::fragment<wmma::matrix_b, kExtent, kExtent, kExtent, __half, wmma::row_major> fragment_b;
  wmma::fragment<wmma::accumulator, kExtent, kExtent, kExtent, Sum> fragment_c;
  wmma::load_matrix_sync(fragment_a, left, kExtent);
  wmma::load_matrix_sync(fragment_b, right, kExtent);
  wmma::load_matrix_sync(fragment_c, sum, kExtent, wmma::mem_row_major);
  wmma::mma_sync(fragment_c, fragment_a, fragment_b, fragment_c);
  wmma::store_matrix_sync(sum, fragment_c, kExtent, wmma::mem_row_major);
  __syncwarp();
  copy_tile(sum, d + first);
}

template <class Sum>
void launch(int count, const float* a, const float* b, const float* c, float* d) {
  multiply_tiles<Sum><<<static_cast<unsigned>(count), 32>>>(a, b, c, d);
}

const Register<GpuInstruction> entries[] = {
    Register(gpu_instruction("wmma.m16n16k16.fp16", launch<float>)),
    Register(gpu_instruction("wmma.m16n16k16.fp16_fp16", launch<__half>)),
};

}  // namespace
}  // namespace tessera
