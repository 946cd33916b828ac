#include "kernels/tensor_core/operand_families.hpp"

#include <bit>
#include <cmath>
#include <string>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

/// A range of binary exponents, both ends included.
struct Exponents {
  int low, high;
};

/// The exponent ranges of a type that fill it without every sum of products overflowing.
struct Scales {
  Exponents powers, tiny, wide;
  int outlier;  // exponent of the few large integers of kNarrow
};

constexpr Scales scales_of(MmaType type) {
  switch (type) {
    case MmaType::kTf32:
    case MmaType::kBf16:
      return {{-16, 15}, {-100, -37}, {-64, 63}, 18};
    case MmaType::kFp16:
      return {{-16, 15}, {-24, -9}, {-24, 15}, 9};
    case MmaType::kFp16Fp16:
      break;
  }
  return {{-8, 7}, {-24, -9}, {-24, 7}, 3};
}

int pick(Exponents range, std::uint64_t bits) {
  const auto size = static_cast<std::uint64_t>(range.high - range.low + 1);
  return range.low + static_cast<int>((bits >> 8 & 0xffff) % size);
}

float from_bits(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

/// A bit pattern of the format. Formats wider than FP16 differ from FP32 only in the low bits.
float pattern(NumberFormat format, std::uint64_t bits) {
  return format.min_exponent == kFp16Format.min_exponent
             ? fp16_value(static_cast<std::uint16_t>(bits))
             : from_bits(bits);
}

/// A subnormal or one of the smallest normal numbers.
float smallest(NumberFormat format, std::uint64_t bits) {
  return pattern(format,
                 bits & (format.min_exponent == kFp16Format.min_exponent ? 0x87ff : 0x80ffffff));
}

float normal(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(random_normal(seed, index));
}

/// One number before rounding to the type.
float draw(OperandFamily family, MmaType type, std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_bits(seed, index);
  const float uniform = random_signed(seed, index);
  const Scales scales = scales_of(type);
  switch (family) {
    case OperandFamily::kUniform:
    case OperandFamily::kCancelling:
      return uniform;
    case OperandFamily::kAnyBits:
      return pattern(operand_format(type), bits);
    case OperandFamily::kPowers:
      return std::copysign(bits % 3 == 0 ? 0.0f : std::ldexp(1.0f, pick(scales.powers, bits)),
                           uniform);
    case OperandFamily::kTiny:
      if (bits % 8 == 0) return std::copysign(0.0f, uniform);
      if (bits % 8 < 3) return smallest(operand_format(type), bits >> 32);
      return std::ldexp(uniform, pick(scales.tiny, bits));
    case OperandFamily::kWide:
      return std::ldexp(uniform, pick(scales.wide, bits));
    case OperandFamily::kNarrow:
      return std::ldexp(static_cast<float>(static_cast<int>(bits % 9) - 4),
                        (bits >> 8) % 16 == 0 ? scales.outlier : 0);
    case OperandFamily::kSpmm:
      break;
  }
  return normal(seed, index);
}

/// The operand for an MMA: raw bits for TF32, else the nearest value of the type.
float to_operand(float value, MmaType type) {
  if (type == MmaType::kTf32) return value;
  return convert(value, type == MmaType::kBf16 ? Conversion::kBf16 : Conversion::kFp16);
}

float to_accumulator(float value, MmaType type) {
  return type == MmaType::kFp16Fp16 ? convert(value, Conversion::kFp16) : value;
}

/// An element of C with the distribution of an operand or of a sum of products of two.
float draw_accumulator(OperandFamily family, MmaType type, std::uint64_t seed,
                       std::uint64_t index) {
  const std::uint64_t choice = random_bits(seed + 1, index);
  if (family == OperandFamily::kAnyBits) return pattern(accumulator_format(type), choice);
  const float value = draw(family, type, seed, index);
  if (family == OperandFamily::kSpmm) {
    // The number of products summed so far: none before the first MMA of a window.
    const std::uint64_t products = choice % 32;
    return to_accumulator(value * std::sqrt(static_cast<float>(products)), type);
  }
  const bool product = choice >> 63 != 0;
  return to_accumulator(product ? value * draw(family, type, seed + 2, index) : value, type);
}

/// One tile of each operand; streams seed to seed + 6.
class Tile {
 public:
  Tile(OperandFamily family, const MmaInstruction& mma, std::uint64_t seed, std::int64_t index)
      : family_(family), mma_(mma), seed_(seed), index_(static_cast<std::uint64_t>(index)) {}

  void draw_a(float* a) const {
    // The density is from one nonzero in sixteen, as in a brick of a graph, to one in two.
    const double density = (1 + static_cast<double>(random_bits(seed_ + 5, index_) % 8)) / 16;
    const auto size = static_cast<std::uint64_t>(mma_.m * mma_.k);
    for (std::uint64_t e = 0; e < size; ++e) {
      const std::uint64_t at = index_ * size + e;
      const bool is_zero = family_ == OperandFamily::kSpmm && random_unit(seed_ + 6, at) >= density;
      a[e] = is_zero ? 0.0f : to_operand(draw(family_, mma_.type, seed_, at), mma_.type);
    }
  }

  void draw_b(float* b) const {
    const auto size = static_cast<std::uint64_t>(mma_.k * mma_.n);
    for (std::uint64_t e = 0; e < size; ++e)
      b[e] = to_operand(draw(family_, mma_.type, seed_ + 1, index_ * size + e), mma_.type);
  }

  void draw_c(const float* a, const float* b, float* c) const {
    const auto size = static_cast<std::uint64_t>(mma_.m * mma_.n);
    for (std::uint64_t e = 0; e < size; ++e) {
      const auto at = static_cast<int>(e);
      c[e] = family_ == OperandFamily::kCancelling
                 ? to_accumulator(-dot(a + at / mma_.n * mma_.k, b + at % mma_.n), mma_.type)
                 : draw_accumulator(family_, mma_.type, seed_ + 2, index_ * size + e);
    }
  }

 private:
  float dot(const float* row, const float* col) const {
    double sum = 0;
    for (int k = 0; k < mma_.k; ++k) sum += static_cast<double>(row[k]) * col[k * mma_.n];
    return static_cast<float>(sum);
  }

  OperandFamily family_;
  const MmaInstruction& mma_;
  std::uint64_t seed_;
  std::uint64_t index_;
};

}  // namespace

std::string_view name_of(OperandFamily family) {
  switch (family) {
    case OperandFamily::kUniform:
      return "uniform";
    case OperandFamily::kAnyBits:
      return "any_bits";
    case OperandFamily::kPowers:
      return "powers";
    case OperandFamily::kTiny:
      return "tiny";
    case OperandFamily::kWide:
      return "wide";
    case OperandFamily::kNarrow:
      return "narrow";
    case OperandFamily::kCancelling:
      return "cancelling";
    case OperandFamily::kSpmm:
      break;
  }
  return "spmm";
}

OperandFamily find_operand_family(std::string_view name) {
  std::vector<std::string> names;
  for (const OperandFamily family : kOperandFamilies) {
    if (name_of(family) == name) return family;
    names.emplace_back(name_of(family));
  }
  throw Error(unknown_name_message("operand family", name, names));
}

MmaOperands draw_operands(OperandFamily family, const MmaInstruction& mma, std::int64_t count,
                          std::uint64_t seed, std::int64_t first) {
  const auto tiles = static_cast<std::size_t>(count);
  const std::int64_t of_a = mma.m * mma.k, of_b = mma.k * mma.n, of_c = mma.m * mma.n;
  MmaOperands operands{std::vector<float>(tiles * static_cast<std::size_t>(of_a)),
                       std::vector<float>(tiles * static_cast<std::size_t>(of_b)),
                       std::vector<float>(tiles * static_cast<std::size_t>(of_c))};
  // A family has its own streams, so that one seed does not give two families related numbers.
  const std::uint64_t stream = mix_bits(seed * 16 + static_cast<std::uint64_t>(family));
  parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const Tile tile(family, mma, stream, first + t);
      float *a = operands.a.data() + t * of_a, *b = operands.b.data() + t * of_b;
      tile.draw_a(a);
      tile.draw_b(b);
      tile.draw_c(a, b, operands.c.data() + t * of_c);
    }
  });
  return operands;
}

}  // namespace tessera
