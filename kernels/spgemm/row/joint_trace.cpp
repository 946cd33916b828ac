// The trace of a launch over the tasks of all classes, which has the thread blocks of each class.

#include <utility>

#include "kernels/spgemm/row/launch_traces.hpp"

namespace tessera::row_spgemm::tracing {

namespace {

class JointTrace final : public LaunchTrace {
 public:
  explicit JointTrace(std::vector<PartOfLaunch> parts) : parts_(std::move(parts)) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor& cursor,
            WarpTrace& trace) const override {
    std::size_t part = 0;
    while (thread_block >= parts_[part].thread_blocks) thread_block -= parts_[part++].thread_blocks;
    if (cursor.step == 0 && cursor.part == 0) trace.issue(kFindClass * static_cast<int>(part + 1));
    return parts_[part].trace->next(thread_block, warp, cursor, trace);
  }

 private:
  static constexpr int kFindClass = 4;  // of a class that is not the thread block's

  std::vector<PartOfLaunch> parts_;
};

}  // namespace

TracePtr trace_jointly(std::vector<PartOfLaunch> parts) {
  return std::make_shared<JointTrace>(std::move(parts));
}

}  // namespace tessera::row_spgemm::tracing
