// The device half of `lsh_chains`: the search of lsh_chains.cpp, run by warps and thread blocks.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/lsh_chains_search.hpp"
#include "reorder/matched_gpu.cuh"

namespace tessera {
namespace {

class GpuLshChains final : public GpuReordering {
 public:
  explicit GpuLshChains(const matched::LshOptions& options) : options_(options) {}

 private:
  StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                      PhaseTimes* times) const override {
    return matched::order_on_gpu<matched::LshSearch<matched::OnGpu>>("lsh_chains", pattern,
                                                                     options_, stream, times);
  }

  matched::LshOptions options_;
};

const Register<GpuReordering> entry{{
    .name = "lsh_chains",
    .summary = "device half of lsh_chains",
    .params = matched::lsh_chains_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<GpuLshChains>(matched::lsh_chains_options(p));
        },
}};

}  // namespace
}  // namespace tessera
