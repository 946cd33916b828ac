// A priori bounds on the error of a dot product, from the arithmetic alone.
//
// All relative bounds are against S = (|A||B|)_ij = sum_k |a_ik b_kj|, so they hold for any
// cancellation of the terms. Each is rigorous: a factor 1 / (1 - x) covers the higher-order terms,
// and a bound without meaning (x >= 1) is infinite. They hold as long as nothing overflows; errors
// of underflow are absolute and are added. Sources: Higham, Accuracy and Stability of
// Numerical Algorithms, chapter 3; Blanchard, Higham, Lopez, Mary and Pranesh, SISC 42(3), 2020
// (block FMA).
#pragma once

#include <cstdint>

namespace tessera {

/// The bound for n products summed in FP32: gamma_n = n u / (1 - n u), u = 2^-24. Sums are rounded
/// to nearest, in any order or tree (atomics, split rows), and each product is rounded or fused
/// into an addition. n is the number of products that are not zero: a term takes part in at most n
/// roundings, that of its product (or of the fused addition) and those of n - 1 additions. Adding a
/// zero rounds nothing, so neither a C that starts at zero nor padding counts.
double fp32_sum_bound(std::int64_t n);

/// The same in FP64, u = 2^-53.
double fp64_sum_bound(std::int64_t n);

/// The bound for a chain of q = `steps` fused steps of L = `products` products with F =
/// `fraction_bits`, the output truncated to FP32. A step aligns its L + 1 terms to the largest
/// exponent, whose term M loses nothing, and the L others less than 2^-F |M| each; truncating the
/// result d loses less than 2^-23 |d|. With E the error of the chain,
/// |M| and |d| are at most S + E, so E <= q (L 2^-F + 2^-23) (S + E): with x = q (L 2^-F + 2^-23),
/// E <= x / (1 - x) S. Steps whose products are all zero leave the sum as it is and do not count.
/// An MMA deeper than L is several steps.
double tensor_core_bound(std::int64_t steps, int products, int fraction_bits);

/// The bound for rounding both operands of every product with relative error u = `operand_error`:
/// (1 + u)^2 - 1 = 2 u + u^2. For TF32 and FP16 to nearest u = 2^-11, for truncated TF32 2^-10.
double input_rounding_bound(double operand_error);

/// The bound for rounded inputs followed by a sum with its own bound: the latter applies to the
/// rounded terms, whose magnitudes grew by at most (1 + inputs), so it is (1 + inputs) sum +
/// inputs.
double combine(double inputs, double sum);

/// The absolute bound for n results that are rounded or truncated in FP32's subnormal range: each
/// loses at most 2^-149, doubled for its growth in the rest of the sum (a factor of 1 + bound,
/// while the relative bound is below 1). Sums in that range are exact when rounded to nearest, so n
/// is then the number of products.
double underflow_bound(std::int64_t n);

/// The absolute bound for n additions in memory, red.global.add.f32 of NVIDIA's GPUs: it flushes
/// subnormal operands and results to zero (PTX ISA, "red"), which loses less than 2^-126 three
/// times, doubled as above.
double flushed_addition_bound(std::int64_t n);

/// The absolute bound for operands below their type's normal range, where its spacing is constant.
/// Such an operand is off by less than `quantum`, the smallest subnormal of the type (TF32 2^-136,
/// FP16 2^-24, BF16 2^-133), and each of `terms` products by that times the other operand;
/// `operand_sum` is the sum of the largest magnitudes of both operands. The bound is doubled, which
/// covers the growth in the rest of the sum and a step that aligns to the exponent field of a
/// subnormal operand (L 2^-F 2^-126 of the other operand).
double operand_underflow_bound(std::int64_t terms, double operand_sum, double quantum);

}  // namespace tessera
