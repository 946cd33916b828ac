// A priori bounds on the error of a dot product, from the arithmetic alone.
//
// All relative bounds are against (|A||B|)_ij = sum_k |a_ik b_kj|, which makes them hold however
// much the terms cancel. Each is rigorous: the higher-order terms are closed by 1 / (1 - x).
#pragma once

#include <cstdint>

namespace tessera {

/// gamma_n = n u / (1 - n u), u = 2^-24: n products summed in FP32 in any order, each product
/// rounded or fused into an addition (Higham, Accuracy and Stability, section 3.1: a term takes
/// part in at most n roundings, its own product's and n - 1 additions').
double fp32_sum_bound(std::int64_t n);

/// A chain of q fused steps of L products, F fraction bits: each step loses at most L 2^-F of the
/// largest magnitude among its terms to alignment (the term with the largest exponent loses
/// nothing) and 2^-23 of its result to truncation. With every partial sum below (1 + x) S, x = q (L
/// 2^-F + 2^-23) / (1 - q (L 2^-F + 2^-23)).
double tensor_core_bound(std::int64_t steps, int products, int fraction_bits);

/// Both operands of every product rounded with relative error u: 2 u + u^2.
double input_rounding_bound(double operand_error);

/// Rounded inputs, then a sum with a relative bound: the sum's bound applies to the rounded terms,
/// whose magnitudes grew by at most (1 + inputs).
double combine(double inputs, double sum);

/// What n results rounded or truncated in FP32's subnormal range may lose: n 2^-149.
double underflow_bound(std::int64_t n);

/// TF32's spacing does not shrink below 2^-126: an operand there is off by up to 2^-136 absolutely,
/// and so are `terms` products with a partner up to `operand_sum` (sum of the largest magnitudes of
/// both operands).
double tf32_underflow_bound(std::int64_t terms, double operand_sum);

}  // namespace tessera
