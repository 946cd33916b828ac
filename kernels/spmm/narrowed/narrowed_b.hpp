// B in FP16 under a power of two for every column, so that its rows take half the bytes to fetch.
//
// FP16 has the 11 significant bits of TF32, but 30 binades instead of 254. The power of a column
// comes from a sample of B's rows, so that B is read once: it brings the largest magnitude of the
// sample to 2^8, which leaves a factor of 128 above it and 22 binades below. An element is then off
// by 2^-11 of itself or, where it is small, by 2^-25 of its column's largest. A B to which that
// would be much is not narrowed, and a product takes it as it is (narrowed_spmm.hpp): one with rows
// of small elements, with a column that the sample misjudged, with an infinity or a NaN, or with a
// column far from 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/host_device.hpp"

namespace tessera::narrowed {

/// The rows of B of the sample, at equal distances.
constexpr int kSampleRows = 16;
TESSERA_HOST_DEVICE constexpr std::int64_t sample_row(int i, std::int64_t k) {
  return i * k / kSampleRows;
}

/// The exponents of the largest magnitude of a column of the sample after scaling, and of a row of
/// A, whose largest is known.
constexpr int kSampleExponent = 8, kRowExponent = 14;
/// The exponents that they may have before, from minus this one on: sums come back without an
/// overflow or underflow that C's elements do not have themselves.
constexpr int kMostExponent = 40;
/// The largest scaled magnitude, FP16's, and the least exponent of that of a column.
constexpr float kLargest = 65504;
constexpr int kLeastOfCol = 0;
/// Columns whose elements of a row of B are looked at together: their largest scaled magnitude is
/// zero or has at least the exponent kLeastOfRow, so that what is lost is below 2^-16 of it.
constexpr int kSegmentCols = 128, kLeastOfRow = -8;
/// The largest error of a narrowed element beside 2^-11 of itself, relative to the largest
/// magnitude of its column: half of FP16's least subnormal number over 2^kLeastOfCol.
constexpr double kLost = 0x1p-25;

/// The factor that brings `largest` to 2^exponent, that of 1 for zero, and 0 for a magnitude that
/// cannot be scaled.
float factor_of(float largest, int exponent);

struct NarrowedB {
  DenseMatrix b = {};                  // [K x n] of numbers that FP16 has
  std::vector<float> col_scales = {};  // [n] the powers of two that bring sums back
  bool is_narrow = false;              // false: B cannot be narrowed, and the rest is empty
};
NarrowedB narrow(const DenseMatrix& b);

}  // namespace tessera::narrowed
