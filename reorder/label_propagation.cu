// The device half of `label_propagation`: the search of label_propagation.cpp, run by warps and
// thread blocks.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/gpu_reordering.hpp"
#include "reorder/label_propagation_search.hpp"
#include "reorder/matched_gpu.cuh"

namespace tessera {
namespace {

class GpuLabelPropagation final : public GpuReordering {
 public:
  explicit GpuLabelPropagation(const matched::LabelOptions& options) : options_(options) {}

 private:
  StreamBuffer search(const DevicePattern& pattern, cudaStream_t stream,
                      PhaseTimes* times) const override {
    return matched::order_on_gpu<matched::LabelSearch<matched::OnGpu>>("label_propagation", pattern,
                                                                       options_, stream, times);
  }

  matched::LabelOptions options_;
};

const Register<GpuReordering> entry{{
    .name = "label_propagation",
    .summary = "device half of label_propagation",
    .params = matched::label_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<GpuLabelPropagation>(matched::label_options(p));
        },
}};

}  // namespace
}  // namespace tessera
