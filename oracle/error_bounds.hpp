// A priori bounds on the error of a dot product, from the arithmetic alone.
//
// All relative bounds are against S = (|A||B|)_ij = sum_k |a_ik b_kj|, which makes them hold
// however much the terms cancel. Each is rigorous: the higher-order terms are closed by 1 / (1 -
// x), and a bound without meaning (x >= 1) is infinite. They hold as long as nothing overflows;
// what underflow adds is absolute and comes on top. Sources: Higham, Accuracy and Stability of
// Numerical Algorithms, chapter 3; Blanchard, Higham, Lopez, Mary and Pranesh, SISC 42(3), 2020
// (block FMA).
#pragma once

#include <cstdint>

namespace tessera {

/// gamma_n = n u / (1 - n u), u = 2^-24: n products summed in FP32, rounded to nearest, in any
/// order or tree (atomics, split rows), each product rounded or fused into an addition. n is the
/// number of products that are not zero: a term takes part in at most n roundings, its own
/// product's (or the fused addition's) and n - 1 additions'; adding a zero rounds nothing, so
/// neither a C that starts at zero nor padding counts.
double fp32_sum_bound(std::int64_t n);

/// A chain of q fused steps of L products, F fraction bits, output truncated to FP32. A step aligns
/// its L + 1 terms to the largest exponent, whose term M loses nothing, and the L others less than
/// 2^-F |M| each; truncating the result d loses less than 2^-23 |d|. With E the error of the chain,
/// |M| and |d| are at most S + E, so E <= q (L 2^-F + 2^-23) (S + E): with x = q (L 2^-F + 2^-23),
/// E <= x / (1 - x) S. Steps whose products are all zero leave the sum as it is and do not count.
/// An MMA deeper than L is several steps.
double tensor_core_bound(std::int64_t steps, int products, int fraction_bits);

/// Both operands of every product rounded with relative error u: (1 + u)^2 - 1 = 2 u + u^2. For
/// TF32 and FP16 to nearest u = 2^-11, for truncated TF32 2^-10.
double input_rounding_bound(double operand_error);

/// Rounded inputs, then a sum with a relative bound: the sum's bound applies to the rounded terms,
/// whose magnitudes grew by at most (1 + inputs), so (1 + inputs) sum + inputs.
double combine(double inputs, double sum);

/// What n results rounded or truncated in FP32's subnormal range may lose: 2^-149 each, twice that
/// for its growth in the rest of the sum (a factor of 1 + bound, while the relative bound is below
/// 1). Sums in that range are exact when rounded to nearest: n is then the number of products.
double underflow_bound(std::int64_t n);

/// The spacing of a type does not shrink below its normal range: an operand there is off by less
/// than `quantum`, its smallest subnormal, absolutely (TF32 2^-136, FP16 2^-24, BF16 2^-133), and
/// so is each of `terms` products, times its partner; `operand_sum` is the sum of the largest
/// magnitudes of both operands. Doubled, which pays for the growth in the rest of the sum and for a
/// step that aligns to the exponent field of a subnormal operand (L 2^-F 2^-126 of its partner).
double operand_underflow_bound(std::int64_t terms, double operand_sum, double quantum);

}  // namespace tessera
