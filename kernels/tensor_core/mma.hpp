// The maps of MMA fragments: the shape, and the row and column of each value that a thread holds
// (PTX ISA, "Matrix Fragments for mma.m16n8k4", "...m16n8k8", "...m16n8k16", "Register Fragments
// and Shared Memory Matrix Layouts" of wgmma). Host code and device code read the same maps.
//
// A map numbers the values of a fragment. A 32-bit value is a register; 16-bit values 2 r and
// 2 r + 1 are the low and the high half of register r.
#pragma once

namespace tessera {

/// The accumulators of every mma.sync here: C and D [16 x 8].
struct MmaM16N8 {
  static constexpr int kM = 16, kN = 8, kThreads = 32, kValuesC = 4;

  static constexpr int b_col(int lane, int /*value*/) { return lane / 4; }
  static constexpr int c_row(int lane, int value) { return lane / 4 + 8 * (value / 2); }
  static constexpr int c_col(int lane, int value) { return 2 * (lane % 4) + value % 2; }
};

/// 32-bit operands: A [16 x 4], B [4 x 8].
struct MmaM16N8K4 : MmaM16N8 {
  static constexpr int kK = 4, kValuesA = 2, kValuesB = 1;

  static constexpr int a_row(int lane, int value) { return lane / 4 + 8 * value; }
  static constexpr int a_col(int lane, int /*value*/) { return lane % 4; }
  static constexpr int b_row(int lane, int /*value*/) { return lane % 4; }
};

/// 32-bit operands: A [16 x 8], B [8 x 8].
struct MmaM16N8K8 : MmaM16N8 {
  static constexpr int kK = 8, kValuesA = 4, kValuesB = 2;

  static constexpr int a_row(int lane, int value) { return lane / 4 + 8 * (value % 2); }
  static constexpr int a_col(int lane, int value) { return lane % 4 + 4 * (value / 2); }
  static constexpr int b_row(int lane, int value) { return lane % 4 + 4 * value; }
};

/// 16-bit operands, eight columns of A for every four values: A [16 x kK], B [kK x 8].
template <int kDepth>
struct MmaM16N8Packed : MmaM16N8 {
  static_assert(kDepth == 8 || kDepth == 16, "the depths of 16-bit types are 8 and 16");
  static constexpr int kK = kDepth, kValuesA = kDepth / 2, kValuesB = kDepth / 4;

  static constexpr int a_row(int lane, int value) { return lane / 4 + 8 * (value / 2 % 2); }
  static constexpr int a_col(int lane, int value) {
    return 2 * (lane % 4) + value % 2 + 8 * (value / 4);
  }
  static constexpr int b_row(int lane, int value) {
    return 2 * (lane % 4) + value % 2 + 8 * (value / 2);
  }
};

/// wgmma with A [64 x kK] and C in registers: each of four warps holds sixteen rows of them, placed
/// as in its own MMA. B [kK x 8] lies in shared memory, without swizzle: core matrices of
/// kCoreDepth x 8 (16 bytes of depth) one after the other, the depth contiguous within a column.
template <class Warp, int kDepthOf16Bytes>
struct Wgmma : Warp {
  static constexpr int kM = 64, kThreads = 128, kCoreDepth = kDepthOf16Bytes;

  static constexpr int a_row(int thread, int value) {
    return 16 * (thread / 32) + Warp::a_row(thread % 32, value);
  }
  static constexpr int a_col(int thread, int value) { return Warp::a_col(thread % 32, value); }
  static constexpr int c_row(int thread, int value) {
    return 16 * (thread / 32) + Warp::c_row(thread % 32, value);
  }
  static constexpr int c_col(int thread, int value) { return Warp::c_col(thread % 32, value); }
  /// The offset of B's element (k, col) in shared memory, in elements.
  static constexpr int b_offset(int k, int col) {
    return (k / kCoreDepth * Warp::kN + col) * kCoreDepth + k % kCoreDepth;
  }
};

using WgmmaM64N8K8 = Wgmma<MmaM16N8K8, 4>;
using WgmmaM64N8K16 = Wgmma<MmaM16N8Packed<16>, 8>;

}  // namespace tessera
