// The bodies of the vectorised fused step and of chains of it, included once per instruction set
// into a namespace that defines kWidth, the lanes of one register
// (kernels/tensor_core/fused_rows.cpp). GCC chooses the instructions of a vector operation where
// the function is written, so a shared inline function does not work.

using Floats = float __attribute__((vector_size(4 * kWidth)));
using Ints = std::int32_t __attribute__((vector_size(4 * kWidth)));
using Unsigned = std::uint32_t __attribute__((vector_size(4 * kWidth)));
using Shorts = std::int16_t __attribute__((vector_size(2 * kWidth)));

/// One step of kWidth accumulators. Those that this code cannot handle keep their value and are
/// marked as failed. Product k is terms.factor(k), with its exponent, times kWidth numbers.
template <class Terms>
[[gnu::always_inline]] inline Ints advance(int fraction_bits, const Terms& terms, std::size_t count,
                                           Ints c_bits, Ints& any_failed) {
  const Ints c_field = (c_bits >> 23) & 255;
  Ints largest = (c_field > 1 ? c_field : 1) - 127;
  for (std::size_t k = 0; k < count; ++k) {
    Shorts narrow;
    std::memcpy(&narrow, terms.exponents(k), sizeof narrow);
    const Ints exponent = __builtin_convertvector(narrow, Ints) + terms.factor_exponent(k);
    largest = exponent > largest ? exponent : largest;
  }
  Ints failed = (largest < kLowest) | (largest > kHighest) | (c_field == 255);
  largest = failed ? 0 : largest;

  // 2^(F - largest) scales a term to multiples of the last kept bit.
  const Floats scale = (Floats)((127 + fraction_bits - largest) << 23);
  const Floats accumulator = (Floats)(failed ? 0 : c_bits);
  // Eight products and the accumulator cannot overflow; their sum with eight more could. In failed
  // lanes the terms are arbitrary, and their sums wrap.
  Unsigned sum = (Unsigned)__builtin_convertvector(accumulator * scale, Ints), more{};
  for (std::size_t k = 0; k < count; ++k) {
    Floats values;
    std::memcpy(&values, terms.values(k), sizeof values);
    const Floats scaled = values * terms.factor(k) * scale;
    const Unsigned term = (Unsigned)__builtin_convertvector(scaled, Ints);
    if (k < 8)
      sum += term;
    else
      more += term;
  }
  const Unsigned wrapped = sum + more;
  const Ints total = (Ints)wrapped;
  failed |= ((Ints)((sum ^ wrapped) & (more ^ wrapped)) < 0) | (total == INT32_MIN);

  // Truncates to FP32: rounds to nearest, and steps back where that increased the magnitude.
  const Ints magnitude = total < 0 ? (Ints)(0 - wrapped) : total;
  const Floats nearest = __builtin_convertvector(magnitude, Floats);
  const Ints too_far =
      (Ints)((Unsigned)__builtin_convertvector(nearest, Ints) > (Unsigned)magnitude);
  const Floats truncated = (Floats)((Ints)nearest + too_far);  // a true lane is -1
  const Floats unscale = (Floats)((127 - fraction_bits + largest) << 23);
  const Ints result = (Ints)(truncated * unscale) | (total & INT32_MIN);
  any_failed |= failed;
  return failed ? c_bits : result;
}

inline bool has_any(Ints lanes) {
  std::int32_t all = 0;
  for (int j = 0; j < kWidth; ++j) all |= lanes[j];
  return all != 0;
}

bool step_lanes(int fraction_bits, const ScaledRow* rows, std::size_t count, float* c,
                std::int64_t cols, std::int32_t* slow) {
  struct Terms {
    const ScaledRow* rows;
    std::int64_t j0;
    float factor(std::size_t k) const { return rows[k].a; }
    int factor_exponent(std::size_t k) const { return rows[k].exponent; }
    const float* values(std::size_t k) const { return rows[k].b + j0; }
    const std::int16_t* exponents(std::size_t k) const { return rows[k].b_exponents + j0; }
  };
  Ints any{};
  for (std::int64_t j0 = 0; j0 < cols; j0 += kWidth) {
    Ints c_bits, failed{};
    std::memcpy(&c_bits, c + j0, sizeof c_bits);
    const Ints next = advance(fraction_bits, Terms{rows, j0}, count, c_bits, failed);
    std::memcpy(c + j0, &next, sizeof next);
    std::memcpy(slow + j0, &failed, sizeof failed);
    any |= failed;
  }
  return !has_any(any);
}

bool chain_lanes(int fraction_bits, const MmaTile& tile, float* c, std::int32_t* slow) {
  struct Terms {
    const MmaTile& tile;
    std::size_t k0, j, i0;
    std::size_t in_b(std::size_t k) const { return (k0 + k) * tile.n + j; }
    std::size_t in_a(std::size_t k) const { return (k0 + k) * MmaOperand::kLanes + i0; }
    float factor(std::size_t k) const { return tile.b[in_b(k)]; }
    int factor_exponent(std::size_t k) const { return tile.b_exponents[in_b(k)]; }
    const float* values(std::size_t k) const { return tile.a + in_a(k); }
    const std::int16_t* exponents(std::size_t k) const { return tile.a_exponents + in_a(k); }
  };
  Ints any{};
  for (std::size_t j = 0; j < tile.n; ++j) {
    for (std::size_t i0 = 0; i0 < MmaOperand::kLanes; i0 += kWidth) {
      const std::size_t place = j * MmaOperand::kLanes + i0;
      Ints c_bits, failed{};
      std::memcpy(&c_bits, c + place, sizeof c_bits);
      Ints bits = c_bits;
      for (std::size_t k0 = 0; k0 < tile.k; k0 += tile.products)
        bits = advance(fraction_bits, Terms{tile, k0, j, i0},
                       std::min(tile.products, tile.k - k0), bits, failed);
      const Ints next = failed ? c_bits : bits;
      std::memcpy(c + place, &next, sizeof next);
      std::memcpy(slow + place, &failed, sizeof failed);
      any |= failed;
    }
  }
  return !has_any(any);
}
