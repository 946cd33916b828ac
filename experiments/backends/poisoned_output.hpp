// The result of a launch in memory on the device that shows what the launch wrote: poisoned with a
// NaN that no kernel produces, between guard bands.
#pragma once

#include <cstddef>

#include "experiments/backends/check_result.hpp"
#include "kernels/device/rewrite.hpp"
#include "kernels/device/stored_values.hpp"

namespace tessera {

class PoisonedOutput {
 public:
  PoisonedOutput(ElementType type, std::size_t elements)
      : type_(type), memory_((elements + 2 * kGuard) * bytes_of(type)) {
    poison();
  }

  void* data() { return memory_.data() + kGuard * bytes_of(type_); }

  void poison() {
    static_assert(kPoison == 0xffffffff, "one byte, repeated");
    cuda_check(cudaMemset(memory_.data(), 0xff, memory_.size()), "poisoning C");
  }

  /// Rewrites the elements and the guards.
  void rewrite(Rewrite how, cudaStream_t stream) {
    const auto elements = static_cast<std::int64_t>(memory_.size() / bytes_of(type_));
    tessera::rewrite(type_, memory_.data(), elements, how, stream);
  }

  /// The elements as [rows x cols], which have to be all of them.
  LaunchOutput read(std::int64_t rows, std::int64_t cols) const {
    return read_output(download_as(type_, memory_), kGuard, rows, cols);
  }

 private:
  static constexpr std::size_t kGuard = 1024;  // elements on either side, keeps 16-byte alignment

  ElementType type_;
  DeviceArray<std::byte> memory_;
};

}  // namespace tessera
