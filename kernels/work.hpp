// What one launch of a kernel does, in numbers: the only thing of a kernel that a model may see.
//
// A prediction cannot peek at a measurement because this header holds no code of the kernel, and
// the model folder may include no other header of this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Work of one thread block. Bytes are those its own instructions ask for, before any cache.
struct ThreadBlockWork {
  std::int64_t mma = 0;      // MMA instructions, counted per warp
  std::int64_t fma = 0;      // scalar FP32 multiply-adds, counted per lane
  std::int64_t a_bytes = 0;  // reads of the packed A
  std::int64_t b_bytes = 0;  // reads of B
  std::int64_t c_bytes = 0;  // writes of C
  std::int64_t atomics = 0;  // atomic additions to C, counted per value
  std::int64_t barriers = 0;

  friend bool operator==(const ThreadBlockWork&, const ThreadBlockWork&) = default;
};

struct WorkDescription {
  std::string kernel = {};
  std::string mma_type = {};  // which peak the MMAs run against: "tf32", "fp16", or "" without MMAs
  int flops_per_mma = 0;      // multiplications and additions of one MMA instruction
  int threads_per_block = 0;
  std::vector<ThreadBlockWork> thread_blocks = {};

  // The least a launch can move through device memory: every operand once.
  std::int64_t footprint_bytes = 0;  // packed A
  std::int64_t b_rows_bytes = 0;     // rows of B that A has a nonzero for
  std::int64_t c_bytes = 0;          // C, written once
  std::int64_t useful_flops = 0;     // 2 nnz N

  ThreadBlockWork total() const {
    ThreadBlockWork sum;
    for (const ThreadBlockWork& block : thread_blocks) {
      sum.mma += block.mma;
      sum.fma += block.fma;
      sum.a_bytes += block.a_bytes;
      sum.b_bytes += block.b_bytes;
      sum.c_bytes += block.c_bytes;
      sum.atomics += block.atomics;
      sum.barriers += block.barriers;
    }
    return sum;
  }
};

}  // namespace tessera
