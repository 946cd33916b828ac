// Counter source "cupti": the Range Profiler of CUPTI (CUDA 13) inside this process.
//
// A range around every launch, replayed by us: the product runs as often as its metrics need
// passes, and launch_counts.hpp puts its launches together. Starting a pass was seen to empty the
// L2 (H200, CUDA 13.0), so the launches that warm it come after the start and are left out of the
// result. One range around the whole product would need no rules for rates, but was seen to be 24
// us long around a kernel of 10. Each pass counts some of the metrics: a rate whose two sides come
// from different passes may exceed 100 % a little, as it may in Nsight Compute.

#if __has_include(<cupti_range_profiler.h>)

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "experiments/counters/counter_source.hpp"
#include "experiments/counters/cupti_host.hpp"
#include "experiments/counters/launch_counts.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostLaunches = 64;  // of one product
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

  /// The counts of each launch of the product.
  std::vector<LaunchCounts> count(const CuptiHost& host, const std::vector<std::string>& metrics,
                                  const CountedProduct& product) const {
    const std::vector<std::uint8_t> configuration = host.configuration(metrics);
    std::vector<std::uint8_t> data = counter_data(metrics);
    configure(configuration, data);
    bool done = false;
    for (int pass = 0; !done; ++pass) {
      require(pass < kMostPasses, "CUPTI wants more than {} passes", kMostPasses);
      done = run_pass(product);
    }
    decode();
    // The last of the products is the one to count.
    const std::size_t all = ranges(data), products = 1 + static_cast<std::size_t>(product.warming);
    require(all > 0 && all % products == 0, "{} products made {} launches", products, all);
    std::vector<LaunchCounts> launches(all / products);
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const std::size_t range = all - launches.size() + i;
      const std::vector<double> values = host.evaluate(data, range, metrics);
      for (std::size_t m = 0; m < metrics.size(); ++m) launches[i][metrics[m]] = values[m];
    }
    return launches;
  }

 private:
  template <class Params>
  Params params(std::size_t size) const {
    Params params = cupti_params<Params>(size);
    params.pRangeProfilerObject = object_;
    return params;
  }

  /// An empty image.
  std::vector<std::uint8_t> counter_data(const std::vector<std::string>& metrics) const {
    std::vector<const char*> names;
    for (const std::string& metric : metrics) names.push_back(metric.c_str());
    auto size = params<CUpti_RangeProfiler_GetCounterDataSize_Params>(
        CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = kMostLaunches;
    size.maxNumRangeTreeNodes = kMostLaunches;
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
    config.range = CUPTI_AutoRange;
    config.replayMode = CUPTI_UserReplay;
    config.maxRangesPerPass = kMostLaunches;
    config.numNestingLevels = 1;
    config.minNestingLevel = 1;
    config.targetNestingLevel = 1;
    Cupti::instance().checked("cuptiRangeProfilerSetConfig", config, "choosing metrics");
  }

  /// True after the last pass.
  bool run_pass(const CountedProduct& product) const {
    const Cupti& cupti = Cupti::instance();
    if (product.flush) product.flush();
    auto start =
        params<CUpti_RangeProfiler_Start_Params>(CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
    cupti.checked("cuptiRangeProfilerStart", start, "starting a pass");
    for (int i = 0; i <= product.warming; ++i) product.launch();
    auto stop =
        params<CUpti_RangeProfiler_Stop_Params>(CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
    cupti.checked("cuptiRangeProfilerStop", stop, "ending a pass");
    return stop.isAllPassSubmitted != 0;
  }

  void decode() const {
    auto decoded = params<CUpti_RangeProfiler_DecodeData_Params>(
        CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
    Cupti::instance().checked("cuptiRangeProfilerDecodeData", decoded, "reading counters");
    require<Unsupported>(decoded.numOfRangeDropped == 0,
                         "a product of more than {} launches is not counted", kMostLaunches);
  }

  static std::size_t ranges(const std::vector<std::uint8_t>& data) {
    auto info = cupti_params<CUpti_RangeProfiler_GetCounterDataInfo_Params>(
        CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
    info.pCounterDataImage = data.data();
    info.counterDataImageSize = data.size();
    Cupti::instance().checked("cuptiRangeProfilerGetCounterDataInfo", info, "reading counters");
    return info.numTotalRanges;
  }

  CUpti_RangeProfiler_Object* object_ = nullptr;
};

/// True when counting works; finds out by starting it.
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
    std::vector<LaunchCounts> launches = Session().count(host, metrics, product);
    // Rates of several launches need more to be put together, and that more passes.
    if (launches.size() > 1) launches = Session().count(host, with_companions(metrics), product);
    return combine_launches(metrics, launches);
  }
};

const Register<CounterSource> entry{{
    .name = "cupti",
    .summary = "",  // with the traits, in cupti_counters.cpp
    .make = [](const Params&) { return std::make_unique<CuptiCounters>(); },
}};

}  // namespace
}  // namespace tessera

#endif  // __has_include(<cupti_range_profiler.h>)
