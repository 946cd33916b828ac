// The launches of a kernel with the schedule of row_windows/schedule.hpp: the packed matrix and its
// tasks on the device, the launch that clears split windows, and the launch that multiplies.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "kernels/device/overlapped_launch.cuh"
#include "kernels/gpu_spmm.hpp"
#include "kernels/overlap_param.hpp"
#include "kernels/spmm/row_windows/split_windows.hpp"
#include "kernels/spmm/row_windows/task_kernel.cuh"

namespace tessera::row_windows {

/// A kernel, and its arguments that are options of its own.
template <class... Options>
using TaskKernel = void (*)(KernelArguments, Options...);

/// The launch that multiplies.
template <class... Options>
struct TaskLaunch {
  std::string kernel_name;         // for error messages
  TaskKernel<Options...> aligned;  // for rows of B and C that begin at multiples of 16 bytes
  TaskKernel<Options...> unaligned;
  TaskKernel<Options...> scaled_aligned = nullptr;  // the same with sums that are scaled
  TaskKernel<Options...> scaled_unaligned = nullptr;
  std::tuple<Options...> options;  // arguments of both kernels
  Schedule schedule;
  std::int64_t shared_bytes;            // dynamic shared memory of a thread block
  std::size_t b_bytes = sizeof(float);  // of an element of B
  window_tasks::CombineMethod combine;
  Store store = Store::kWriteBack;
  int promote = 0;                   // TC blocks between additions to FP32 registers; 0: never
  bool fetches_early = false;        // whether the kernels read KernelArguments::early
  std::int64_t b_rows = 0;           // rows of B, where they do
  Overlap overlap = Overlap::kNone;  // another where the kernels call begin_product()
  bool places_rows = false;  // whether the kernels read KernelArguments::places and narrowing
};

/// The kernel that multiplies split windows of C by beta before atomics add to them, a thread block
/// for each, for windows of 8 or 16 rows.
TaskKernel<> clear_kernel(int window_rows);

template <class... Options>
class TaskMultiplication final : public GpuMultiplication {
 public:
  /// Uploads the tasks, for a B of n columns. Throws Unsupported for more thread blocks than a grid
  /// holds.
  TaskMultiplication(window_tile::PackedOnDevice a, const window_tasks::Tasks& tasks,
                     std::int64_t n, const TaskLaunch<Options...>& launch)
      : launch_(launch),
        clearing_("launching the clearing of " + launch.kernel_name),
        multiplying_("launching " + launch.kernel_name),
        clear_(clear_kernel(launch.schedule.window_rows)),
        a_(std::move(a)),
        tasks_(tasks.tasks),
        shares_(tasks.shares),
        splits_(tasks.splits),
        slots_(
            static_cast<std::size_t>(launch.schedule.chunks(n) * tasks.slots *
                                     window_tasks::slot_vectors(launch.schedule.lane_vectors()))),
        arrivals_(std::vector<std::uint32_t>(static_cast<std::size_t>(launch.schedule.chunks(n)) *
                                             tasks.splits.size())),
        thread_blocks_(launch.schedule.thread_blocks(tasks.num_shares(), n)) {
    require<Unsupported>(thread_blocks_ <= 0x7fffffff,
                         "{} thread blocks are more than a grid holds", thread_blocks_);
    arguments_ = {.view = a_.view(n),
                  .tasks = tasks_.data(),
                  .shares = shares_.data(),
                  .num_shares = static_cast<std::uint32_t>(tasks.num_shares()),
                  .split_windows = {.splits = splits_.data(),
                                    .num_splits = static_cast<std::uint32_t>(tasks.splits.size()),
                                    .num_slots = tasks.slots,
                                    .slots = slots_.data(),
                                    .arrivals = arrivals_.data()},
                  .atomic = launch.combine == window_tasks::CombineMethod::kAtomic,
                  .chunks_at_once = launch.schedule.chunks_at_once,
                  .store = launch.store,
                  .promote = launch.promote,
                  .b = nullptr,
                  .c = nullptr,
                  .scaling = {}};
    overlaps_ = launch.overlap != Overlap::kNone && can_overlap_launches();
    arguments_.ends_first = launch.overlap == Overlap::kLate;
    if (launch.fetches_early)
      arguments_.early = a_.early_fetch(
          launch.b_rows * n * static_cast<std::int64_t>(launch.b_bytes), thread_blocks_);
    load_now(clear_, launch.aligned, launch.unaligned);
    if (launch.shared_bytes > 0)
      allow_shared_memory(launch.shared_bytes, launch.unaligned, launch.aligned);
  }

  std::vector<int> registers() const override {
    if (clears()) return {registers_of(clear_), registers_of(launch_.aligned)};
    return {registers_of(launch_.aligned)};
  }

  float* values() override { return a_.values(); }

  bool place_rows(const std::int32_t* places) override {
    if (!launch_.places_rows || arguments_.atomic) return false;
    arguments_.places = places;
    return true;
  }

  bool narrow(const Narrowing& narrowing) override {
    if (!launch_.places_rows || arguments_.atomic) return false;
    if (narrowing.col_scales != nullptr) {
      if (launch_.scaled_aligned == nullptr) return false;
      launch_.aligned = launch_.scaled_aligned, launch_.unaligned = launch_.scaled_unaligned;
      load_now(launch_.aligned, launch_.unaligned);
      if (launch_.shared_bytes > 0)
        allow_shared_memory(launch_.shared_bytes, launch_.unaligned, launch_.aligned);
    }
    arguments_.narrowing = narrowing;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (thread_blocks_ == 0) return;
    KernelArguments arguments = arguments_;
    arguments.b = operands.b, arguments.c = operands.c, arguments.scaling = operands.scaling;
    if (clears()) {
      clear_<<<arguments.split_windows.num_splits, kClearThreads, 0, stream>>>(arguments);
      cuda_check(cudaGetLastError(), clearing_.c_str());
    }
    const bool aligned = aligned_to_16_bytes(arguments.view.n, operands, launch_.b_bytes);
    arguments.early.set_b(operands.b, aligned && arguments.narrowing.word == nullptr);
    const TaskKernel<Options...> multiply = aligned ? launch_.aligned : launch_.unaligned;
    std::apply(
        [&](Options... options) {
          cuda_check(
              tessera::launch(
                  multiply, dim3(static_cast<unsigned>(thread_blocks_)), launch_.schedule.threads(),
                  static_cast<std::size_t>(launch_.shared_bytes), stream,
                  arguments.narrowing.word == nullptr ? overlaps_ : arguments.narrowing.overlaps,
                  arguments, options...),
              multiplying_.c_str());
        },
        launch_.options);
  }

 private:
  bool clears() const { return arguments_.atomic && arguments_.split_windows.num_splits > 0; }

  TaskLaunch<Options...> launch_;
  std::string clearing_, multiplying_;  // for error messages
  TaskKernel<> clear_;
  window_tile::PackedOnDevice a_;
  DeviceArray<Task> tasks_;
  DeviceArray<std::uint32_t> shares_;
  DeviceArray<window_tasks::Split> splits_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  std::int64_t thread_blocks_;
  bool overlaps_;
  KernelArguments arguments_ = {};
};

}  // namespace tessera::row_windows
