// A strict floor: the least time that a product of condensed row windows can take on a device with
// any kernel.
//
// It is the largest of four times: moving every operand once; gathering a row of B once for each
// condensed column of a window, and multiplying those columns on tensor cores, both at the best
// window height; and a launch. It is a bound, not a prediction: latency, balance and occupancy do
// not count. The caller gives the bytes of A's index, so the floor is only as strict as these.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/device.hpp"

namespace tessera::floor_model {

/// The counts of all row windows of one height.
struct Windows {
  int height = 0;
  std::int64_t active_cols = 0;  // condensed columns, summed over windows
};

/// The product C [rows x n] = A B with C in FP32.
struct Product {
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  std::int64_t b_rows = 0;   // rows of B that are read: nonempty columns of A
  std::int64_t n = 0;        // columns of B
  double index_bytes = 0;    // bytes of A besides its values
  double element_bytes = 4;  // of values of A and B: 4 with TF32, 2 with FP16
};

/// The best rates of a device. A rate of 0 is unknown and does not bound.
struct Rates {
  double dram_gbps = 0;
  double l2_gbps = 0;      // moving operands once, when all of them stay in L2
  double gather_gbps = 0;  // gathering rows of B from L2
  double mma_tflops = 0;
  double launch_us = 0;
  double l2_bytes = 0;  // operands of at most this total size stay in L2
};

/// The rates of a device file, measured ones where present: dram_bandwidth, l2_bandwidth (for
/// l2_gbps and gather_gbps), l2_capacity, launch_overhead, and the tensor-core rate of TF32 or, for
/// two-byte elements, of FP16, through mma.sync where known. Throws Unsupported where the device
/// lacks the type.
Rates rates(const Device& device, double element_bytes = 4);

struct Floor {
  double compulsory_us = 0;  // moving operands once
  bool in_l2 = false;        // compulsory_us uses l2_gbps, not dram_gbps
  double gather_us = 0;      // at `height`
  double mma_us = 0;         // at `height`
  double launch_us = 0;
  int height = 0;  // the best window height; 0 without windows
  double time_us = 0;
  std::string bound_by;  // "memory", "gather", "tensor cores" or "launch"
};

/// The bytes of A, of the rows of B that are read, and of C.
double compulsory_bytes(const Product& product);

/// The floor of a product; among equally good heights it takes the first one given. Throws an Error
/// for a product with no columns of B.
Floor strict_floor(const Product& product, std::span<const Windows> windows, const Rates& rates);

}  // namespace tessera::floor_model
