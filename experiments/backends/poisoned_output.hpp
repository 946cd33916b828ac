// The result of a launch in memory on the device that shows what the launch wrote: poisoned with a
// NaN that no kernel produces, between guard bands.
#pragma once

#include <cstddef>
#include <memory>

#include "experiments/backends/check_result.hpp"
#include "experiments/backends/pinned_memory.hpp"
#include "kernels/device/rewrite.hpp"
#include "kernels/device/stored_values.hpp"

namespace tessera {

/// A copy of such memory on the host.
class FetchedOutput {
 public:
  FetchedOutput(ElementType type, std::size_t guard, const DeviceArray<std::byte>& memory)
      : type_(type), guard_(guard), memory_(memory.size()) {
    cuda_check(cudaMemcpy(memory_.data(), memory.data(), memory.size(), cudaMemcpyDeviceToHost),
               "copying C from the device");
  }

  /// The elements as [rows x cols], which have to be all of them. Needs no device.
  LaunchOutput read(std::int64_t rows, std::int64_t cols) const {
    if (type_ != ElementType::kFp32)
      return read_output(widened(type_, {memory_.data(), memory_.size()}), guard_, rows, cols);
    const auto* const values = reinterpret_cast<const float*>(memory_.data());
    return read_output({values, memory_.size() / sizeof(float)}, guard_, rows, cols);
  }

 private:
  ElementType type_;
  std::size_t guard_;
  PinnedMemory memory_;
};

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

  /// What is in the memory now.
  std::shared_ptr<const FetchedOutput> fetch() const {
    return std::make_shared<const FetchedOutput>(type_, kGuard, memory_);
  }

  /// The elements as [rows x cols], which have to be all of them.
  LaunchOutput read(std::int64_t rows, std::int64_t cols) const {
    return FetchedOutput(type_, kGuard, memory_).read(rows, cols);
  }

 private:
  static constexpr std::size_t kGuard = 1024;  // elements on either side, keeps 16-byte alignment

  ElementType type_;
  DeviceArray<std::byte> memory_;
};

}  // namespace tessera
