// Kernels that run a single wgmma instruction: one warpgroup and one instruction per tile, A and C
// in registers, B in shared memory. Compiled for another target than sm_90a the kernels are empty,
// and the instructions throw Unsupported.

#include "formats/base/device_memory.hpp"
#include "kernels/tensor_core/fragments.cuh"
#include "kernels/tensor_core/gpu_instruction.hpp"
#include "kernels/tensor_core/mma.cuh"

namespace tessera {
namespace {

/// Sets *found when the code for this GPU has wgmma.
__global__ void look_for_wgmma(int* found) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  *found = 1;
#else
  *found = 0;
#endif
}

bool has_wgmma() {
  DeviceArray<int> found(1);
  look_for_wgmma<<<1, 1>>>(found.data());
  cuda_check(cudaGetLastError(), "looking for wgmma");
  return found.download().front() != 0;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <MmaType kType>
__device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (kType == MmaType::kTf32) wgmma_m64n8k8_tf32(d, a, b);
  if constexpr (kType == MmaType::kFp16) wgmma_m64n8k16_fp16(d, a, b);
  if constexpr (kType == MmaType::kBf16) wgmma_m64n8k16_bf16(d, a, b);
}
#endif

template <class Map, MmaType kType>
__global__ void multiply_tiles(const float* a, const float* b, const float* c, float* d) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Element = std::conditional_t<kType == MmaType::kTf32, std::uint32_t, std::uint16_t>;
  const std::int64_t tile = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  alignas(128) __shared__ Element right[Map::kK * Map::kN];
  if (thread < Map::kK * Map::kN)
    right[Map::b_offset(thread / Map::kN, thread % Map::kN)] =
        static_cast<Element>(operand_bits<kType>(b[tile * Map::kK * Map::kN + thread]));
  fence_for_wgmma();
  __syncthreads();
  const FragmentA<Map, kType> left(a + tile * Map::kM * Map::kK, thread);
  FragmentC<Map, kType> sum(c + tile * Map::kM * Map::kN, thread);
  multiply<kType>(sum.registers, left.registers, wgmma_descriptor(right));
  sum.store(d + tile * Map::kM * Map::kN, thread);
#endif
}

template <class Map, MmaType kType>
void launch(int count, const float* a, const float* b, const float* c, float* d) {
  static_assert(Map::kK * Map::kN <= Map::kThreads, "one thread for each element of B");
  require<Unsupported>(has_wgmma(), "wgmma needs compute capability 9.0 and a build for 90a");
  multiply_tiles<Map, kType><<<static_cast<unsigned>(count), Map::kThreads>>>(a, b, c, d);
}

using enum MmaType;

const Register<GpuInstruction> entries[] = {
    Register(gpu_instruction("wgmma.m64n8k8.tf32", launch<WgmmaM64N8K8, kTf32>)),
    Register(gpu_instruction("wgmma.m64n8k16.fp16", launch<WgmmaM64N8K16, kFp16>)),
    Register(gpu_instruction("wgmma.m64n8k16.bf16", launch<WgmmaM64N8K16, kBf16>)),
};

}  // namespace
}  // namespace tessera
