// Counter source "external": marks one product with cudaProfilerStart and cudaProfilerStop, for a
// profiler that the program was started under (`ncu --profile-from-start off`), and counts nothing
// itself. What source "ncu" starts its child with.

#include <cuda_profiler_api.h>

#include "experiments/counters/counter_source.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class ExternalCounters final : public CounterSource {
 public:
  std::string unavailable() const override { return gpu_unavailable(); }

  CounterValues collect(const std::vector<std::string>&,
                        const CountedProduct& product) const override {
    for (int i = 0; i < product.warming; ++i) product.launch();
    if (product.flush) product.flush();
    cuda_check(cudaProfilerStart(), "starting the profiler");
    product.launch();
    cuda_check(cudaProfilerStop(), "stopping the profiler");
    return {};
  }
};

const Register<CounterSource> entry{{
    .name = "external",
    .summary = "",  // with the traits, in external_counters.cpp
    .make = [](const Params&) { return std::make_unique<ExternalCounters>(); },
}};

}  // namespace
}  // namespace tessera
