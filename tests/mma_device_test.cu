// The MMA instructions of this GPU against their model, bit for bit, on operands that reach every
// corner: whole random bit patterns, cancellation, subnormals, infinities and NaN.

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "experiments/gpu_info.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "kernels/device_memory.hpp"
#include "kernels/mma.cuh"
#include "kernels/tensor_core.hpp"

namespace tessera {
namespace {

using Mma = MmaM16N8K8;

/// One warp, one MMA: D [16 x 8] = A [16 x 8] B [8 x 8] + C, all row-major, one after the other.
__global__ void multiply_tiles(int count, const std::uint32_t* a, const std::uint32_t* b,
                               const float* c, float* d) {
  const int tile = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (tile >= count) return;
  a += tile * Mma::kM * Mma::kK, b += tile * Mma::kK * Mma::kN;
  c += tile * Mma::kM * Mma::kN, d += tile * Mma::kM * Mma::kN;
  std::uint32_t left[Mma::kRegistersA], right[Mma::kRegistersB];
  float sum[Mma::kRegistersC];
  for (int r = 0; r < Mma::kRegistersA; ++r)
    left[r] = a[Mma::a_row(lane, r) * Mma::kK + Mma::a_col(lane, r)];
  for (int r = 0; r < Mma::kRegistersB; ++r)
    right[r] = b[Mma::b_row(lane, r) * Mma::kN + Mma::b_col(lane, r)];
  for (int r = 0; r < Mma::kRegistersC; ++r)
    sum[r] = c[Mma::c_row(lane, r) * Mma::kN + Mma::c_col(lane, r)];
  mma_m16n8k8_tf32(sum, left, right);
  for (int r = 0; r < Mma::kRegistersC; ++r)
    d[Mma::c_row(lane, r) * Mma::kN + Mma::c_col(lane, r)] = sum[r];
}

/// Pattern `index` of a walk through all 2^32 that spreads any number of steps evenly.
__host__ __device__ constexpr std::uint32_t pattern(std::uint32_t index) {
  return index * 0x9e3779b1u;  // 2^32 over the golden ratio, odd
}

__global__ void round_patterns(std::uint32_t count, std::uint32_t* rounded) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) rounded[i] = round_convert(__uint_as_float(pattern(i)));
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float from_bits(std::uint64_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

/// What operands look like.
enum class Family { kUniform, kAnyBits, kPowers, kTiny, kWide, kCancelling };
constexpr Family kFamilies[] = {Family::kUniform, Family::kAnyBits, Family::kPowers,
                                Family::kTiny,    Family::kWide,    Family::kCancelling};

float draw(Family family, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t raw = random_bits(seed, index);
  const float uniform = random_signed(seed, index);
  switch (family) {
    case Family::kUniform:
      return uniform;
    case Family::kAnyBits:  // NaN, infinities and subnormals among them
      return from_bits(raw);
    case Family::kPowers:
      return raw % 3 == 0
                 ? 0.0f
                 : std::copysign(std::ldexp(1.0f, static_cast<int>(raw >> 8 & 31) - 16), uniform);
    case Family::kTiny:  // products around the smallest numbers, subnormal operands among them
      return raw % 4 == 0 ? from_bits(raw >> 32 & 0x80ffffff)
                          : std::ldexp(uniform, static_cast<int>(raw >> 8 & 63) - 100);
    case Family::kWide:
      return std::ldexp(uniform, static_cast<int>(raw >> 8 & 127) - 64);
    case Family::kCancelling:  // few values of either sign: sums often vanish
      return static_cast<float>(static_cast<int>(raw % 9) - 4) *
             std::ldexp(1.0f, static_cast<int>(raw >> 8 & 3) * 6);
  }
  return 0;
}

struct Tiles {
  std::vector<float> a, b, c;
};

Tiles draw_tiles(Family family, int count) {
  const auto seed = 100 * static_cast<std::uint64_t>(family);
  const auto fill = [&](std::uint64_t stream, int size) {
    std::vector<float> values(static_cast<std::size_t>(size) * count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = draw(family, seed + stream, i);
    return values;
  };
  return {fill(1, Mma::kM * Mma::kK), fill(2, Mma::kK * Mma::kN), fill(3, Mma::kM * Mma::kN)};
}

std::vector<float> on_device(const Tiles& tiles, int count) {
  const auto as_bits = [](const std::vector<float>& values) {
    std::vector<std::uint32_t> all(values.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = bits(values[i]);
    return DeviceArray<std::uint32_t>(all);
  };
  const auto a = as_bits(tiles.a), b = as_bits(tiles.b);
  const DeviceArray<float> c(tiles.c);
  DeviceArray<float> d(tiles.c.size());
  cuda_check(cudaMemset(d.data(), 0xff, d.size() * sizeof(float)), "poisoning");
  multiply_tiles<<<(count + 3) / 4, 128>>>(count, a.data(), b.data(), c.data(), d.data());
  cuda_check(cudaDeviceSynchronize(), "running MMAs");
  return d.download();
}

/// Element (i, j) of one tile, step by step.
float expected_element(const FusedStep& step, const float* a, const float* b, float c, int i,
                       int j) {
  for (int first = 0; first < Mma::kK; first += step.products) {
    std::vector<float> left, right;
    for (int k = first; k < std::min(first + step.products, Mma::kK); ++k) {
      left.push_back(convert(a[i * Mma::kK + k], Conversion::kTf32Raw));
      right.push_back(convert(b[k * Mma::kN + j], Conversion::kTf32Raw));
    }
    c = fused_dot_add(step, left, right, c);
  }
  return c;
}

/// How many of 0 .. n - 1 the predicate holds for.
template <class Predicate>
std::int64_t count_where(std::int64_t n, Predicate predicate) {
  std::atomic<std::int64_t> count = 0;
  parallel_for(n, 1 << 13, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t mine = 0;
    for (std::int64_t i = begin; i < end; ++i) mine += predicate(i);
    count += mine;
  });
  return count;
}

TEST_CASE("mma.m16n8k8 in TF32 gives the bits of its model") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  constexpr int kTiles = 1 << 13;
  constexpr int kElements = Mma::kM * Mma::kN;
  const FusedStep& step = find_generation(gpu_generation()).step(MmaType::kTf32);

  for (const Family family : kFamilies) {
    const Tiles tiles = draw_tiles(family, kTiles);
    const std::vector<float> d = on_device(tiles, kTiles);

    const std::int64_t different =
        count_where(static_cast<std::int64_t>(d.size()), [&](std::int64_t at) {
          const std::int64_t tile = at / kElements;
          const int e = static_cast<int>(at % kElements);
          const float expected = expected_element(step, tiles.a.data() + tile * Mma::kM * Mma::kK,
                                                  tiles.b.data() + tile * Mma::kK * Mma::kN,
                                                  tiles.c[at], e / Mma::kN, e % Mma::kN);
          return bits(expected) != bits(d[at]);
        });

    CAPTURE(static_cast<int>(family));
    MESSAGE(d.size() << " elements compared, family " << static_cast<int>(family));
    CHECK(different == 0);
  }
}

TEST_CASE("cvt.rna.tf32 rounds as its model does, over every exponent and sign, NaN included") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  constexpr std::uint32_t kCount = 1u << 26;
  DeviceArray<std::uint32_t> device(kCount);

  round_patterns<<<kCount / 256, 256>>>(kCount, device.data());
  cuda_check(cudaDeviceSynchronize(), "rounding");

  const std::vector<std::uint32_t> rounded = device.download();
  const std::int64_t different = count_where(kCount, [&](std::int64_t i) {
    const float value = from_bits(pattern(static_cast<std::uint32_t>(i)));
    const float expected = convert(value, Conversion::kTf32);
    // Which NaN a NaN becomes is of no consequence, as long as the MMA sees one.
    const float seen = convert(from_bits(rounded[i]), Conversion::kTf32Raw);
    return std::isnan(expected) ? !std::isnan(seen) : bits(expected) != bits(seen);
  });
  CHECK(different == 0);
}

}  // namespace
}  // namespace tessera
