#include "kernels/spgemm/shared/scan_trace.hpp"

#include <algorithm>

namespace tessera::spgemm {
namespace {

class ScanTrace final : public LaunchTrace {
 public:
  explicit ScanTrace(const Scan& scan) : scan_(scan) {}

  bool next(std::int64_t thread_block, int warp, WarpCursor&, WarpTrace& trace) const override {
    // Instructions of a warp, counted on an H200 by Nsight Compute.
    const int instructions = scan_.is_wide ? 304 : 283;
    const std::int64_t of_warp = std::int64_t{32} * scan_.items();
    const std::int64_t first = (thread_block * scan_.threads() / 32 + warp) * of_warp;
    const std::int64_t count = std::clamp<std::int64_t>(scan_.count - first, 0, of_warp);
    trace.issue(instructions / 3);
    trace.pause(kSpecialRegisterCycles);
    for (std::int64_t i = 0; i < count; i += 32) {
      trace.load(kBoard);
      trace.touch(element(scan_.from, first + i, 4), 4 * std::min<std::int64_t>(32, count - i));
    }
    if (count > 0) trace.wait(kBoard);
    trace.barrier();
    for (int item = 0; item < scan_.items(); item += 2) trace.shared(2);
    trace.issue(instructions / 3);
    trace.barrier();
    for (int item = 0; item < scan_.items(); item += 2) trace.shared(scan_.is_wide ? 4 : 2);
    trace.barrier();
    trace.issue(instructions / 6);
    const int bytes = scan_.is_wide ? 8 : 4;
    for (std::int64_t i = 0; i < count; i += 32) {
      trace.store();
      trace.touch(element(scan_.to, first + i, bytes),
                  bytes * std::min<std::int64_t>(32, count - i));
    }
    return false;
  }

 private:
  static constexpr int kBoard = 0;

  Scan scan_;
};

}  // namespace

std::shared_ptr<const LaunchTrace> trace_scan(const Scan& scan) {
  return std::make_shared<ScanTrace>(scan);
}

}  // namespace tessera::spgemm
