// Dense matrices on the device in any of the usual layouts, and the kernel that converts between
// layouts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scaling.hpp"

namespace tessera {

enum class Order { kRowMajor, kColumnMajor };

/// A matrix that is written, of the type that its user expects. `ld`, the leading dimension, is the
/// distance in elements from one row (in column order: column) to the next; 0: they follow each
/// other.
struct DeviceMatrix {
  void* data = nullptr;
  Order order = Order::kRowMajor;
  std::int64_t ld = 0;

  DeviceMatrix(void* data, Order order = Order::kRowMajor, std::int64_t ld = 0)
      : data(data), order(order), ld(ld) {}
};

/// A matrix that is only read.
struct ConstDeviceMatrix {
  const void* data = nullptr;
  Order order = Order::kRowMajor;
  std::int64_t ld = 0;

  ConstDeviceMatrix(const void* data, Order order = Order::kRowMajor, std::int64_t ld = 0)
      : data(data), order(order), ld(ld) {}
  ConstDeviceMatrix(const DeviceMatrix& matrix)
      : ConstDeviceMatrix(matrix.data, matrix.order, matrix.ld) {}
};

/// The layout of a matrix: element (row, col) has the index row * row_stride + col * col_stride,
/// and one of the strides is 1.
struct Strides {
  std::int64_t row, col;

  /// The strides of a matrix of that shape. Throws an Error where `ld` is less than the length of a
  /// row (column); `name` opens its message.
  static Strides of(const char* name, Order order, std::int64_t ld, std::int64_t rows,
                    std::int64_t cols);
  /// True when rows are contiguous and follow each other.
  bool plain(std::int64_t rows, std::int64_t cols) const {
    return (col == 1 || cols == 1) && (row == cols || rows == 1);
  }
};

/// to(i, j) = scaled(scaling, from(i, j), to(i, j)) for all `rows` x `cols` elements; unless
/// `from_row` [rows] is null, row i of `to` comes from row from_row[i] of `from`. `from` and `to`
/// do not overlap. An element takes 8 bytes of traffic, and 4 more for the old value where beta is
/// not 0. Enqueues one kernel on the stream.
void convert_layout(const float* from, Strides from_strides, const std::int32_t* from_row,
                    float* to, Strides to_strides, std::int64_t rows, std::int64_t cols,
                    Scaling scaling, cudaStream_t stream);

/// Loads that kernel onto the current device, so that the first launch does not wait for it.
void load_convert_layout();

}  // namespace tessera
