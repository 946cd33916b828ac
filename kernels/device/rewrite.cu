// Rewriting of operands in place: one kernel for every choice, so that each costs the same.

#include <algorithm>

#include "formats/base/device_memory.hpp"
#include "kernels/device/rewrite.hpp"

namespace tessera {
namespace {

template <class Word>
__global__ void rewrite_words(Word* words, std::int64_t size, Word flipped, Word set) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += step)
    words[i] = static_cast<Word>((words[i] ^ flipped) | set);
}

template <class Word>
void enqueue(void* memory, std::int64_t size, Rewrite how, cudaStream_t stream) {
  constexpr int kThreads = 256;
  constexpr std::int64_t kMostThreadBlocks = 4096;
  constexpr Word kAllBits = static_cast<Word>(~Word{0});
  constexpr Word kSign = static_cast<Word>(kAllBits ^ (kAllBits >> 1));
  if (size == 0) return;
  const auto thread_blocks = std::min((size + kThreads - 1) / kThreads, kMostThreadBlocks);
  rewrite_words<<<static_cast<unsigned>(thread_blocks), kThreads, 0, stream>>>(
      static_cast<Word*>(memory), size, how == Rewrite::kNegate ? kSign : Word{0},
      how == Rewrite::kPoison ? kAllBits : Word{0});
  cuda_check(cudaGetLastError(), "rewriting an operand");
}

}  // namespace

void rewrite(ElementType type, void* memory, std::int64_t elements, Rewrite how,
             cudaStream_t stream) {
  if (type == ElementType::kFp32)
    enqueue<std::uint32_t>(memory, elements, how, stream);
  else
    enqueue<std::uint16_t>(memory, elements, how, stream);
}

}  // namespace tessera
