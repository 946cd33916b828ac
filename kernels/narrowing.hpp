// What a kernel's launch has to know where an operand was narrowed on the device before
// (kernels/spmm/narrowed): the powers of two that bring its sums back, and whether it is to run.
#pragma once

#include <cstdint>

namespace tessera {

/// Arrays on the device, which the caller keeps. A default one changes nothing.
struct Narrowing {
  const float* row_scales = nullptr;    // [rows of A] sums are multiplied by them; null: by 1
  const float* col_scales = nullptr;    // [n] the same after them
  const std::uint32_t* word = nullptr;  // a launch runs where the word is `wanted`; null: always
  std::uint32_t wanted = 0;
  // With `overlaps`, a launch begins while the one before it ends (kernels/device/
  // overlapped_launch.cuh): `waits_first` where that one writes the word, else it has ended by
  // then.
  bool waits_first = false, overlaps = false;
};

}  // namespace tessera
