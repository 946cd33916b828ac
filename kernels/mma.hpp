// The MMA instructions: shapes, and which element of a fragment a lane's register holds (PTX ISA,
// "Matrix Fragments for mma.m16n8k8"). Host code and device code read the same maps.
#pragma once

namespace tessera {

/// mma.sync.m16n8k8 with TF32 inputs: D [16 x 8] = A [16 x 8] B [8 x 8] + C [16 x 8].
struct MmaM16N8K8 {
  static constexpr int kM = 16, kN = 8, kK = 8;
  static constexpr int kRegistersA = 4, kRegistersB = 2, kRegistersC = 4;

  static constexpr int a_row(int lane, int reg) { return lane / 4 + 8 * (reg % 2); }
  static constexpr int a_col(int lane, int reg) { return lane % 4 + 4 * (reg / 2); }
  static constexpr int b_row(int lane, int reg) { return lane % 4 + 4 * reg; }
  static constexpr int b_col(int lane, int /*reg*/) { return lane / 4; }
  static constexpr int c_row(int lane, int reg) { return lane / 4 + 8 * (reg / 2); }
  static constexpr int c_col(int lane, int reg) { return 2 * (lane % 4) + reg % 2; }
};

}  // namespace tessera
