// Counter source "cupti": the Range Profiler of CUPTI (CUDA 13) inside this process.
//
// One range around one product, replayed by us: the product runs as often as its metrics need
// passes, each time after the L2 has been brought into the state that the point asks for. Kernels
// of one product are counted together, so that rates are those of the whole product; the duration
// includes the gaps between its kernels.

#if __has_include(<cupti_range_profiler.h>)

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "experiments/counter_source.hpp"
#include "experiments/cupti_host.hpp"
#include "experiments/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr const char* kRange = "product";
constexpr int kMostPasses = 1000;  // some metrics need dozens; more than this is an endless loop

CUcontext current_context() {
  cuda_check(cudaFree(nullptr), "starting the GPU");  // makes the context if there is none yet
  void* get = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cuda_check(
      cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &get, 12000, cudaEnableDefault, &found),
      "asking the driver for its functions");
  CUcontext context = nullptr;
  require(get != nullptr && reinterpret_cast<CUresult (*)(CUcontext*)>(get)(&context) == 0,
          "the driver does not tell the current context");
  return context;
}

/// The profiler of this process, from its start to its end: outside of it launches run untouched.
class Profiler {
 public:
  Profiler() {
    auto params = cupti_params<CUpti_Profiler_Initialize_Params>(
        CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
    Cupti::instance().checked("cuptiProfilerInitialize", params, "starting the profiler");
  }
  ~Profiler() {
    auto params = cupti_params<CUpti_Profiler_DeInitialize_Params>(
        CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE);
    Cupti::instance().call("cuptiProfilerDeInitialize", params);
  }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  std::string chip() const {
    int device = 0;
    cuda_check(cudaGetDevice(&device), "asking for the device");
    auto params =
        cupti_params<CUpti_Device_GetChipName_Params>(CUpti_Device_GetChipName_Params_STRUCT_SIZE);
    params.deviceIndex = static_cast<std::size_t>(device);
    Cupti::instance().checked("cuptiDeviceGetChipName", params, "asking for the chip");
    return params.pChipName;
  }
};

/// Counting on the current context, from enabling it to disabling it.
class Session {
 public:
  Session() {
    auto params = cupti_params<CUpti_RangeProfiler_Enable_Params>(
        CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
    params.ctx = current_context();
    Cupti::instance().checked("cuptiRangeProfilerEnable", params, "enabling counters");
    object_ = params.pRangeProfilerObject;
  }
  ~Session() {
    auto params = cupti_params<CUpti_RangeProfiler_Disable_Params>(
        CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
    params.pRangeProfilerObject = object_;
    Cupti::instance().call("cuptiRangeProfilerDisable", params);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs the product pass by pass; what was counted is in the image.
  std::vector<std::uint8_t> count(const std::vector<std::uint8_t>& configuration,
                                  const std::vector<std::string>& metrics,
                                  const CountedProduct& product) const {
    std::vector<std::uint8_t> data = counter_data(metrics);
    configure(configuration, data);
    bool done = false;
    for (int pass = 0; !done; ++pass) {
      require(pass < kMostPasses, "CUPTI wants more than {} passes", kMostPasses);
      done = run_pass(product);
    }
    decode();
    return data;
  }

 private:
  template <class Params>
  Params params(std::size_t size) const {
    Params params = cupti_params<Params>(size);
    params.pRangeProfilerObject = object_;
    return params;
  }

  /// An empty image with room for one range.
  std::vector<std::uint8_t> counter_data(const std::vector<std::string>& metrics) const {
    std::vector<const char*> names;
    for (const std::string& metric : metrics) names.push_back(metric.c_str());
    auto size = params<CUpti_RangeProfiler_GetCounterDataSize_Params>(
        CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    Cupti::instance().checked("cuptiRangeProfilerGetCounterDataSize", size, "making room");
    std::vector<std::uint8_t> data(size.counterDataSize);
    auto initialise = params<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>(
        CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
    initialise.counterDataSize = data.size();
    initialise.pCounterData = data.data();
    Cupti::instance().checked("cuptiRangeProfilerCounterDataImageInitialize", initialise,
                              "making room");
    return data;
  }

  void configure(const std::vector<std::uint8_t>& configuration,
                 std::vector<std::uint8_t>& data) const {
    auto config = params<CUpti_RangeProfiler_SetConfig_Params>(
        CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
    config.configSize = configuration.size();
    config.pConfig = configuration.data();
    config.counterDataImageSize = data.size();
    config.pCounterDataImage = data.data();
    config.range = CUPTI_UserRange;
    config.replayMode = CUPTI_UserReplay;
    config.maxRangesPerPass = 1;
    config.numNestingLevels = 1;
    config.minNestingLevel = 1;
    config.targetNestingLevel = 1;
    Cupti::instance().checked("cuptiRangeProfilerSetConfig", config, "choosing metrics");
  }

  /// True after the last pass.
  bool run_pass(const CountedProduct& product) const {
    const Cupti& cupti = Cupti::instance();
    auto start =
        params<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    cupti.checked("cuptiRangeProfilerStart", start, "starting a pass");
    product.prepare();
    auto push = params<CUpti_RangeProfiler_PushRange_Params>(
        CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE);
    push.pRangeName = kRange;
    cupti.checked("cuptiRangeProfilerPushRange", push, "starting a pass");
    product.launch();
    auto pop = params<CUpti_RangeProfiler_PopRange_Params>(
        CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE);
    cupti.checked("cuptiRangeProfilerPopRange", pop, "ending a pass");
    auto stop =
        params<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    cupti.checked("cuptiRangeProfilerStop", stop, "ending a pass");
    return stop.isAllPassSubmitted != 0;
  }

  void decode() const {
    auto decoded = params<CUpti_RangeProfiler_DecodeData_Params>(
        CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    Cupti::instance().checked("cuptiRangeProfilerDecodeData", decoded, "reading counters");
    require(decoded.numOfRangeDropped == 0, "CUPTI dropped what it counted of {} ranges",
            decoded.numOfRangeDropped);
  }

  CUpti_RangeProfiler_Object* object_ = nullptr;
};

/// Whether counting works, found out by starting it.
std::string why_not() {
  if (const std::string reason = gpu_unavailable(); !reason.empty()) return reason;
  try {
    const Profiler profiler;
    const CuptiHost host(profiler.chip());
    const Session session;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class CuptiCounters final : public CounterSource {
 public:
  std::string unavailable() const override {
    static const std::string reason = why_not();
    return reason;
  }

  CounterValues collect(const std::vector<std::string>& metrics,
                        const CountedProduct& product) const override {
    const Profiler profiler;
    const CuptiHost host(profiler.chip());
    const std::vector<std::uint8_t> configuration = host.configuration(metrics);
    const std::vector<std::uint8_t> data = Session().count(configuration, metrics, product);
    const std::vector<double> values = host.evaluate(data, metrics);
    CounterValues found;
    for (std::size_t i = 0; i < metrics.size(); ++i) found[metrics[i]] = values[i];
    return found;
  }
};

const Register<CounterSource> entry{{
    .name = "cupti",
    .summary = "inside this process, by CUPTI's range profiler",
    .make = [](const Params&) { return std::make_unique<CuptiCounters>(); },
}};

}  // namespace
}  // namespace tessera

#endif  // __has_include(<cupti_range_profiler.h>)
