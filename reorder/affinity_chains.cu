// The device half of `affinity_chains`: the search of affinity_chains.cpp, run by warps and thread
// blocks.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/affinity_chains_search.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/matched_gpu.cuh"

namespace tessera {
namespace {

class GpuAffinityChains final : public GpuReordering {
 public:
  explicit GpuAffinityChains(const matched::AffinityOptions& options) : options_(options) {}

 private:
  StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                      PhaseTimes* times) const override {
    return matched::order_on_gpu<matched::AffinitySearch<matched::OnGpu>>(
        "affinity_chains", pattern, options_, stream, times);
  }

  matched::AffinityOptions options_;
};

const Register<GpuReordering> entry{{
    .name = "affinity_chains",
    .summary = "device half of affinity_chains",
    .params = matched::affinity_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<GpuAffinityChains>(matched::affinity_options(p));
        },
}};

}  // namespace
}  // namespace tessera
