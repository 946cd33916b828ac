// A strict floor: the least time a product of condensed row windows can take on a device, whatever
// the kernel.
//
// The largest of four: every operand moved once; a row of B gathered once for each condensed column
// of a window, and the multiplications of those columns on tensor cores, both at the window height
// that suits best; and a launch. It is a bound, not a prediction: nothing of latency, balance or
// occupancy is in it. How many bytes tell where the nonzeros of A are is the caller's to say: a
// floor is only as strict as that.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/device.hpp"

namespace tessera::floor_model {

/// Of all row windows of one height.
struct Windows {
  int height = 0;
  std::int64_t active_cols = 0;  // condensed columns, summed over windows
};

/// C [rows x n] = A B, C in FP32.
struct Product {
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  std::int64_t b_rows = 0;   // rows of B that A has a nonzero for
  std::int64_t n = 0;        // columns of B
  double index_bytes = 0;    // of A beyond its values
  double element_bytes = 4;  // of values of A and B: 4 with TF32, 2 with FP16
};

/// What a device does at best. A rate of 0 is not known, and does not bound.
struct Rates {
  double dram_gbps = 0;
  double l2_gbps = 0;      // operands once, when all of them stay in L2
  double gather_gbps = 0;  // rows of B out of L2
  double mma_tflops = 0;
  double launch_us = 0;
  double l2_bytes = 0;  // operands up to this together stay in L2
};

/// Rates of a device file, measured ones where there are any: dram_bandwidth, l2_bandwidth (for
/// both), l2_capacity, launch_overhead, and of tensor cores TF32 or, for two-byte elements, FP16,
/// through mma.sync where that is known. Throws Unsupported where the device lacks the type.
Rates rates(const Device& device, double element_bytes = 4);

struct Floor {
  double compulsory_us = 0;  // operands once
  bool in_l2 = false;        // which rate those go by
  double gather_us = 0;      // at `height`
  double mma_us = 0;         // at `height`
  double launch_us = 0;
  int height = 0;  // of the windows that need least; 0 without any windows
  double time_us = 0;
  std::string bound_by;  // "memory", "gather", "tensor cores" or "launch"
};

/// Bytes of A, of the rows of B that are read, and of C.
double compulsory_bytes(const Product& product);

/// Of the heights that need equally little, the first one given. Throws an Error for a product with
/// no columns of B.
Floor strict_floor(const Product& product, std::span<const Windows> windows, const Rates& rates);

}  // namespace tessera::floor_model
