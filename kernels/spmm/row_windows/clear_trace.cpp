#include "kernels/spmm/row_windows/clear_trace.hpp"

#include <algorithm>

#include "kernels/spmm/row_windows/window_launch.hpp"

namespace tessera::row_windows {
namespace {

/// 128 bytes of zeros at a time.
class ClearTrace final : public LaunchTrace {
 public:
  ClearTrace(const Clearing& clearing, std::shared_ptr<const window_tasks::Tasks> tasks)
      : at_(clearing), tasks_(std::move(tasks)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    const std::uint64_t index = tasks_->splits[thread_block].first_task;
    const std::int64_t first_row = tasks_->tasks[index].window * std::int64_t{at_.window_rows};
    const std::int64_t rows = std::min<std::int64_t>(at_.window_rows, at_.rows - first_row);
    const std::int64_t values = rows * at_.n;
    trace.issue(kInstructions);
    trace.load(kTaskBoard);
    trace.touch(at_.tasks + 16 * index, 4);
    trace.wait(kTaskBoard);
    for (std::int64_t at = 32 * warp; at < values; at += kClearThreads) {
      trace.issue(kStoreInstructions - 1);
      trace.store();
      trace.touch(at_.c + 4 * static_cast<std::uint64_t>(first_row * at_.n + at),
                  4 * std::min<std::int64_t>(32, values - at));
    }
    return false;
  }

 private:
  static constexpr int kInstructions = 30, kStoreInstructions = 12;  // CUDA 13.0, sm_90a
  static constexpr int kTaskBoard = 0;

  Clearing at_;
  std::shared_ptr<const window_tasks::Tasks> tasks_;
};

}  // namespace

std::unique_ptr<LaunchTrace> make_clear_trace(const Clearing& clearing,
                                              std::shared_ptr<const window_tasks::Tasks> tasks) {
  return std::make_unique<ClearTrace>(clearing, std::move(tasks));
}

}  // namespace tessera::row_windows
