// The body of the fast fused step, included once per instruction set into a namespace that defines
// kWidth, the lanes of one register (kernels/fused_rows.cpp). GCC settles what a vector operation
// becomes where the function is written, so a shared inline function would not do.

using Floats = float __attribute__((vector_size(4 * kWidth)));
using Ints = std::int32_t __attribute__((vector_size(4 * kWidth)));
using Unsigned = std::uint32_t __attribute__((vector_size(4 * kWidth)));
using Shorts = std::int16_t __attribute__((vector_size(2 * kWidth)));

bool step_lanes(int fraction_bits, const ScaledRow* rows, std::size_t count, float* c,
                std::int64_t cols, std::int32_t* slow) {
  Ints any{};
  for (std::int64_t j0 = 0; j0 < cols; j0 += kWidth) {
    Ints c_bits;
    std::memcpy(&c_bits, c + j0, sizeof c_bits);
    const Ints c_field = (c_bits >> 23) & 255;
    Ints largest = (c_field > 1 ? c_field : 1) - 127;
    for (std::size_t k = 0; k < count; ++k) {
      Shorts narrow;
      std::memcpy(&narrow, rows[k].b_exponents + j0, sizeof narrow);
      const Ints exponent = __builtin_convertvector(narrow, Ints) + rows[k].exponent;
      largest = exponent > largest ? exponent : largest;
    }
    Ints failed = (largest < kLowest) | (largest > kHighest) | (c_field == 255);
    largest = failed ? 0 : largest;

    // 2^(F - largest) turns a term into multiples of the last kept place.
    const Floats scale = (Floats)((127 + fraction_bits - largest) << 23);
    const Floats accumulator = (Floats)(failed ? 0 : c_bits);
    // Eight products and the accumulator cannot overflow; their sum with eight more could. Where
    // the exponents are not for this way the terms are anything, and their sums wrap.
    Unsigned sum = (Unsigned)__builtin_convertvector(accumulator * scale, Ints), more{};
    for (std::size_t k = 0; k < count; ++k) {
      Floats b;
      std::memcpy(&b, rows[k].b + j0, sizeof b);
      const Unsigned term = (Unsigned)__builtin_convertvector(b * rows[k].a * scale, Ints);
      if (k < 8)
        sum += term;
      else
        more += term;
    }
    const Unsigned wrapped = sum + more;
    const Ints total = (Ints)wrapped;
    failed |= ((Ints)((sum ^ wrapped) & (more ^ wrapped)) < 0) | (total == INT32_MIN);

    // To FP32, truncated: to nearest, and one step back where that was too far.
    const Ints magnitude = total < 0 ? (Ints)(0 - wrapped) : total;
    const Floats nearest = __builtin_convertvector(magnitude, Floats);
    const Ints too_far =
        (Ints)((Unsigned)__builtin_convertvector(nearest, Ints) > (Unsigned)magnitude);
    const Floats truncated = (Floats)((Ints)nearest + too_far);  // a true lane is -1
    const Floats unscale = (Floats)((127 - fraction_bits + largest) << 23);
    const Ints result = (Ints)(truncated * unscale) | (total & INT32_MIN);
    const Ints next = failed ? c_bits : result;
    std::memcpy(c + j0, &next, sizeof next);

    std::memcpy(slow + j0, &failed, sizeof failed);
    any |= failed;
  }
  std::int32_t all = 0;
  for (int j = 0; j < kWidth; ++j) all |= any[j];
  return all == 0;
}
