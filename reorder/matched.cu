// The device half of `matched`: warps and thread blocks run the steps that threads of a CPU run in
// matched.cpp.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/matched_gpu.cuh"
#include "reorder/matched_options.hpp"
#include "reorder/matched_search.hpp"

namespace tessera {
namespace {

class GpuMatched final : public GpuReordering {
 public:
  explicit GpuMatched(const matched::Options& options) : options_(options) {}

 private:
  StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                      PhaseTimes* times) const override {
    return matched::order_on_gpu<matched::Search<matched::OnGpu>>("matched", pattern, options_,
                                                                  stream, times);
  }

  matched::Options options_;
};

const Register<GpuReordering> entry{{
    .name = "matched",
    .summary = "device half of matched",
    .params = matched::all_params(),
    .make = [](const Params& p) { return std::make_unique<GpuMatched>(matched::options_of(p)); },
}};

}  // namespace
}  // namespace tessera
