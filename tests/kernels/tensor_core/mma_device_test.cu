// The MMA instructions of this GPU and its conversions against their models, bit for bit.

#include <doctest/doctest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

#include "experiments/machine/gpu_info.hpp"
#include "experiments/run/instruction_validation.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/parallel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "kernels/tensor_core/mma.cuh"

namespace tessera {
namespace {

/// Says why when there is no GPU.
bool has_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return why.empty();
}

TEST_CASE("every MMA instruction of this GPU gives the bits of its model for all operands") {
  if (!has_gpu()) return;
  const Generation& generation = find_generation(gpu_generation());

  const auto comparisons =
      instruction_comparisons(generation, Registry<GpuInstruction>::instance());

  REQUIRE(comparisons.size() > 5);
  for (const Comparison& comparison : comparisons) {
    for (const OperandFamily family : kOperandFamilies) {
      const BitDifferences found = compare(comparison, family, 1 << 17, 1);
      CAPTURE(comparison.name);
      CAPTURE(comparison.against);
      CAPTURE(name_of(family));
      CAPTURE(found.values);
      CAPTURE(found.signed_zeros);
      CAPTURE(found.nan_bits);
      CHECK(found.compared >= 1 << 17);
      if (comparison.must_agree) CHECK(found.total() == 0);
    }
  }
}

/// Row i of the result is made of two products and zeros: 2^(p + q), and sign * 2^(r - i + s). The
/// second is noticed only while it is not below the last place that the zeros leave.
struct ZeroProbe {
  int p, q, r, s;
  float sign;
};

/// Rows whose bits differ between GPU and model; `noticed` counts those the second product changes.
int different_rows(const MmaInstruction& mma, const Generation& generation, const ZeroProbe& probe,
                   int& noticed) {
  std::vector<float> a(static_cast<std::size_t>(mma.m * mma.k), 0.0f);
  std::vector<float> b(static_cast<std::size_t>(mma.k * mma.n), 0.0f);
  std::vector<float> c(static_cast<std::size_t>(mma.m * mma.n), 0.0f), expected(c.size());
  for (int i = 0; i < mma.m; ++i) {
    a[static_cast<std::size_t>(i * mma.k)] = std::ldexp(1.0f, probe.p);
    a[static_cast<std::size_t>(i * mma.k + 1)] = std::ldexp(probe.sign, probe.r - i);
  }
  for (int j = 0; j < mma.n; ++j) {
    b[static_cast<std::size_t>(j)] = std::ldexp(1.0f, probe.q);
    b[static_cast<std::size_t>(mma.n + j)] = std::ldexp(1.0f, probe.s);
  }
  emulate_mma(mma, step_of(mma, generation), a, b, c, expected);
  const std::vector<float> found =
      Registry<GpuInstruction>::instance().make(mma.name)->run(1, a, b, c);
  int different = 0;
  for (int i = 0; i < mma.m; ++i) {
    const auto at = static_cast<std::size_t>(i * mma.n);
    different +=
        std::bit_cast<std::uint32_t>(found[at]) != std::bit_cast<std::uint32_t>(expected[at]);
    noticed += expected[at] != expected[static_cast<std::size_t>((mma.m - 1) * mma.n)];
  }
  return different;
}

TEST_CASE("the exponent that a zero counts as is the GPU's, to the last place") {
  if (!has_gpu()) return;
  const Generation& generation = find_generation(gpu_generation());
  // FP16 results: a tie of 2^-25 that 2^-34 to 2^-49 more break. FP32 results: 2^-149, from which
  // 2^-150 to 2^-165 are taken.
  const ZeroProbe fp16{-12, -13, -10, -24, 1}, fp32{-75, -74, -75, -75, -1};
  for (const MmaInstruction& mma : mma_instructions()) {
    if (!generation.steps.contains(mma.type) || mma.type == MmaType::kFp16) continue;
    if (!Registry<GpuInstruction>::instance().contains(mma.name)) continue;
    int noticed = 0;
    CAPTURE(mma.name);
    CHECK(different_rows(mma, generation, mma.type == MmaType::kFp16Fp16 ? fp16 : fp32, noticed) ==
          0);
    CHECK(noticed > 0);
    CHECK(noticed < mma.m);
  }
}

/// Pattern `index` of a walk through all 2^32 that spreads any number of steps evenly.
__host__ __device__ constexpr std::uint32_t pattern(std::uint32_t index) {
  return index * 0x9e3779b1u;  // 2^32 over the golden ratio, odd
}

/// The operand that the GPU's conversion makes, as FP32.
template <Conversion kConversion>
__device__ std::uint32_t convert_on_device(float value) {
  if constexpr (kConversion == Conversion::kTf32) return round_to_tf32(value);
  if constexpr (kConversion == Conversion::kTf32Even) return round_to_tf32_even(value);
  std::uint16_t bits;
  if constexpr (kConversion == Conversion::kBf16) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return std::uint32_t{bits} << 16;
  }
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return __float_as_uint(fp16_value(bits));
}

template <Conversion kConversion>
__global__ void convert_patterns(std::uint32_t count, std::uint32_t* converted) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) converted[i] = convert_on_device<kConversion>(__uint_as_float(pattern(i)));
}

/// How many of 2^26 patterns the GPU converts otherwise than convert().
template <Conversion kConversion>
std::int64_t different_conversions() {
  constexpr std::uint32_t kCount = 1u << 26;
  DeviceArray<std::uint32_t> device(kCount);
  convert_patterns<kConversion><<<kCount / 256, 256>>>(kCount, device.data());
  cuda_check(cudaDeviceSynchronize(), "converting");

  const std::vector<std::uint32_t> converted = device.download();
  std::atomic<std::int64_t> different = 0;
  parallel_for(kCount, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t mine = 0;
    for (auto i = static_cast<std::uint32_t>(begin); i < static_cast<std::uint32_t>(end); ++i) {
      const float expected = convert(std::bit_cast<float>(pattern(i)), kConversion);
      float found = std::bit_cast<float>(converted[i]);
      // The bits that the MMA ignores do not matter after the conversion, nor which NaN
      // a NaN becomes.
      if (kConversion == Conversion::kTf32) found = convert(found, Conversion::kTf32Raw);
      mine += std::isnan(expected)
                  ? !std::isnan(found)
                  : std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(found);
    }
    different += mine;
  });
  return different;
}

TEST_CASE("conversions round as their models do, over every exponent and sign, NaN included") {
  if (!has_gpu()) return;
  CHECK(different_conversions<Conversion::kTf32>() == 0);
  CHECK(different_conversions<Conversion::kTf32Even>() == 0);
  CHECK(different_conversions<Conversion::kFp16>() == 0);
  CHECK(different_conversions<Conversion::kBf16>() == 0);
}

}  // namespace
}  // namespace tessera
