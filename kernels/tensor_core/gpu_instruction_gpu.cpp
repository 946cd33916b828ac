#include "kernels/tensor_core/gpu_instruction.hpp"

#include <limits>

#include "formats/base/device_memory.hpp"

namespace tessera {
namespace {

class LaunchedInstruction final : public GpuInstruction {
 public:
  LaunchedInstruction(const MmaInstruction& mma, LaunchTiles* launch)
      : mma_(mma), launch_(launch) {}

  std::vector<float> run(std::int64_t count, std::span<const float> a, std::span<const float> b,
                         std::span<const float> c) const override {
    require(count > 0 && count <= std::numeric_limits<int>::max(), "{}: {} tiles in one launch",
            mma_.name, count);
    check_size("A", a, count * mma_.m * mma_.k);
    check_size("B", b, count * mma_.k * mma_.n);
    check_size("C", c, count * mma_.m * mma_.n);
    const DeviceArray<float> left(a), right(b), addend(c);
    DeviceArray<float> d(c.size());
    // A NaN that no tensor core makes marks the elements that the kernel fails to write.
    cuda_check(cudaMemset(d.data(), 0xff, d.size() * sizeof(float)), "poisoning D");
    launch_(static_cast<int>(count), left.data(), right.data(), addend.data(), d.data());
    cuda_check(cudaGetLastError(), "launching MMAs");
    cuda_check(cudaDeviceSynchronize(), "running MMAs");
    return d.download();
  }

 private:
  void check_size(const char* operand, std::span<const float> values, std::int64_t size) const {
    require(std::ssize(values) == size, "{}: {} has {} elements, its tiles {}", mma_.name, operand,
            values.size(), size);
  }

  const MmaInstruction& mma_;
  LaunchTiles* launch_;
};

}  // namespace

Entry<GpuInstruction> gpu_instruction(const std::string& name, LaunchTiles* launch) {
  return {.name = name, .summary = name + " on this GPU", .make = [name, launch](const Params&) {
            return std::make_unique<LaunchedInstruction>(find_instruction(name), launch);
          }};
}

}  // namespace tessera
