// Filling arrays with the words of model/calibration/words.hpp.

#include "model/calibration/words.hpp"

namespace tessera {
namespace {

__global__ void fill(std::uint32_t* words, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    words[i] = word_at(static_cast<std::uint32_t>(i));
}

}  // namespace

DeviceArray<std::uint32_t> random_words(std::size_t count) {
  DeviceArray<std::uint32_t> words(count);
  fill<<<1024, 256>>>(words.data(), count);
  cuda_check(cudaGetLastError(), "filling an array with random words");
  return words;
}

}  // namespace tessera
