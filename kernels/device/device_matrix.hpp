// Dense matrices on the device, in any of the usual layouts, and the kernel that brings one layout
// into another.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scaling.hpp"

namespace tessera {

enum class Order { kRowMajor, kColumnMajor };

/// A matrix that is written. `ld`, the leading dimension, is the distance from one row (in column
/// order: column) to the next in elements; 0: they follow each other.
struct DeviceMatrix {
  float* data = nullptr;
  Order order = Order::kRowMajor;
  std::int64_t ld = 0;

  DeviceMatrix(float* data, Order order = Order::kRowMajor, std::int64_t ld = 0)
      : data(data), order(order), ld(ld) {}
};

/// A matrix that is only read.
struct ConstDeviceMatrix {
  const float* data = nullptr;
  Order order = Order::kRowMajor;
  std::int64_t ld = 0;

  ConstDeviceMatrix(const float* data, Order order = Order::kRowMajor, std::int64_t ld = 0)
      : data(data), order(order), ld(ld) {}
  ConstDeviceMatrix(const DeviceMatrix& matrix)
      : ConstDeviceMatrix(matrix.data, matrix.order, matrix.ld) {}
};

/// Where the elements of a matrix lie: (row, col) at row * row_stride + col * col_stride, one of
/// which is 1.
struct Strides {
  std::int64_t row, col;

  /// Of a matrix of that shape. Throws an Error where `ld` is less than a row (column) is long;
  /// `name` opens its message.
  static Strides of(const char* name, Order order, std::int64_t ld, std::int64_t rows,
                    std::int64_t cols);
  /// Whether rows are contiguous and follow each other.
  bool plain(std::int64_t rows, std::int64_t cols) const {
    return (col == 1 || cols == 1) && (row == cols || rows == 1);
  }
};

/// to(i, j) = scaled(scaling, from(i, j), to(i, j)) for all of `rows` x `cols` elements; where
/// `from_row` is given, row i comes from row from_row[i] of `from`. `from` and `to` are apart.
/// Reads and writes an element once, 8 bytes, and reads what `to` had, 4 more, where beta asks for
/// it. Enqueues one kernel on the stream.
void convert_layout(const float* from, Strides from_strides, const std::int32_t* from_row,
                    float* to, Strides to_strides, std::int64_t rows, std::int64_t cols,
                    Scaling scaling, cudaStream_t stream);

/// Brings that kernel to the current device, so that a first launch does not wait for anything.
void load_convert_layout();

}  // namespace tessera
