// Kernels that run a single mma.sync instruction: one warp and one instruction per tile.

#include "kernels/tensor_core/fragments.cuh"
#include "kernels/tensor_core/gpu_instruction.hpp"
#include "kernels/tensor_core/mma.cuh"

namespace tessera {
namespace {

constexpr int kWarps = 4;  // of a thread block

template <class Map, MmaType kType, auto kMultiply>
__global__ void multiply_tiles(int count, const float* a, const float* b, const float* c,
                               float* d) {
  const std::int64_t tile = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / Map::kThreads;
  if (tile >= count) return;
  const int lane = static_cast<int>(threadIdx.x % Map::kThreads);
  const FragmentA<Map, kType> left(a + tile * Map::kM * Map::kK, lane);
  const FragmentB<Map, kType> right(b + tile * Map::kK * Map::kN, lane);
  FragmentC<Map, kType> sum(c + tile * Map::kM * Map::kN, lane);
  kMultiply(sum.registers, left.registers, right.registers);
  sum.store(d + tile * Map::kM * Map::kN, lane);
}

template <class Map, MmaType kType, auto kMultiply>
void launch(int count, const float* a, const float* b, const float* c, float* d) {
  const auto thread_blocks = static_cast<unsigned>((std::int64_t{count} + kWarps - 1) / kWarps);
  multiply_tiles<Map, kType, kMultiply>
      <<<thread_blocks, kWarps * Map::kThreads>>>(count, a, b, c, d);
}

using enum MmaType;
using Half = MmaM16N8Packed<8>;
using Whole = MmaM16N8Packed<16>;

const Register<GpuInstruction> entries[] = {
    Register(gpu_instruction("m16n8k4.tf32", launch<MmaM16N8K4, kTf32, mma_m16n8k4_tf32>)),
    Register(gpu_instruction("m16n8k8.tf32", launch<MmaM16N8K8, kTf32, mma_m16n8k8_tf32>)),
    Register(gpu_instruction("m16n8k8.fp16", launch<Half, kFp16, mma_m16n8k8_fp16>)),
    Register(gpu_instruction("m16n8k16.fp16", launch<Whole, kFp16, mma_m16n8k16_fp16>)),
    Register(gpu_instruction("m16n8k8.bf16", launch<Half, kBf16, mma_m16n8k8_bf16>)),
    Register(gpu_instruction("m16n8k16.bf16", launch<Whole, kBf16, mma_m16n8k16_bf16>)),
    Register(gpu_instruction("m16n8k8.fp16_fp16", launch<Half, kFp16Fp16, mma_m16n8k8_fp16_fp16>)),
    Register(
        gpu_instruction("m16n8k16.fp16_fp16", launch<Whole, kFp16Fp16, mma_m16n8k16_fp16_fp16>)),
};

}  // namespace
}  // namespace tessera
