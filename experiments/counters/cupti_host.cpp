// CUPTI's library and its host half, whose functions take structures that say their own size.
//
// Metrics of a chip are looked up by its name alone, so no GPU is needed. A build without CUPTI's
// headers has none of this file.

#if __has_include(<cupti_profiler_host.h>)

#include "experiments/counters/cupti_host.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr const char* kLibrary = "libcupti.so.13";  // of the headers this is written for
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr CUpti_MetricType kTypes[] = {CUPTI_METRIC_TYPE_COUNTER, CUPTI_METRIC_TYPE_RATIO,
                                       CUPTI_METRIC_TYPE_THROUGHPUT};

CUpti_Profiler_Host_Object* open_host(const std::string& chip) {
  auto params = cupti_params<CUpti_Profiler_Host_Initialize_Params>(
      CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
  params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  params.pChipName = chip.c_str();
  Cupti::instance().checked("cuptiProfilerHostInitialize", params, "opening the metrics of a chip");
  return params.pHostObject;
}

void close_host(CUpti_Profiler_Host_Object* host) {
  auto params = cupti_params<CUpti_Profiler_Host_Deinitialize_Params>(
      CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
  params.pHostObject = host;
  Cupti::instance().call("cuptiProfilerHostDeinitialize", params);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

/// Without endings, sorted.
std::vector<std::string> list_names(CUpti_Profiler_Host_Object* host) {
  std::vector<std::string> names;
  for (const CUpti_MetricType type : kTypes) {
    auto params = cupti_params<CUpti_Profiler_Host_GetBaseMetrics_Params>(
        CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE);
    params.pHostObject = host;
    params.metricType = type;
    Cupti::instance().checked("cuptiProfilerHostGetBaseMetrics", params, "listing metrics");
    names.insert(names.end(), params.ppMetricNames, params.ppMetricNames + params.numMetrics);
  }
  std::ranges::sort(names);
  return names;
}

/// Looks up a metric with or without its ending; false for an unknown name.
bool properties(CUpti_Profiler_Host_Object* host, const std::string& metric,
                CUpti_Profiler_Host_GetMetricProperties_Params& found) {
  found = cupti_params<CUpti_Profiler_Host_GetMetricProperties_Params>(
      CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE);
  found.pHostObject = host;
  found.pMetricName = metric.c_str();
  return Cupti::instance().call("cuptiProfilerHostGetMetricProperties", found) == CUPTI_SUCCESS;
}

class CuptiCatalog final : public MetricCatalog {
 public:
  std::vector<std::string> chips() const override { return CuptiHost::chips(); }
  std::unique_ptr<ChipMetrics> open(const std::string& chip) const override {
    return std::make_unique<CuptiHost>(chip);
  }
};

const Register<MetricCatalog> entry{{
    .name = "cupti",
    .summary = "the metrics that CUPTI knows, of every chip",
    .make =
        [](const Params&) {
          Cupti::instance();
          return std::make_unique<CuptiCatalog>();
        },
}};

}  // namespace

const Cupti& Cupti::instance() {
  static const Cupti cupti;
  return cupti;
}

Cupti::Cupti() : library_(nullptr) {
  // CUPTI opens libraries with RTLD_DEEPBIND, at which a sanitizer's runtime ends the process.
  require<Unsupported>(!kSanitized, "{} cannot be used in a build with sanitizers", kLibrary);
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/extras/CUPTI/lib64/",
                             "/usr/local/cuda/lib/"}) {
    library_ = dlopen((std::string(folder) + kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) return;
  }
  throw Unsupported(fmt::format("{} is not on this machine", kLibrary));
}

void* Cupti::find(const char* function) const {
  void* found = dlsym(library_, function);
  require<Unsupported>(found != nullptr, "this machine's {} has no {}", kLibrary, function);
  return found;
}

void Cupti::check(CUptiResult status, const char* doing) const {
  if (status == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  using Describe = CUptiResult (*)(CUptiResult, const char**);
  reinterpret_cast<Describe>(find("cuptiGetResultString"))(status, &text);
  const auto message =
      fmt::format("CUPTI error while {}: {}", doing, text == nullptr ? "unknown" : text);
  require<Unsupported>(status != CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
                       "{}: this machine's driver lets only root read counters", message);
  throw Error(message);
}

CuptiHost::CuptiHost(std::string chip) : chip_(std::move(chip)), host_(nullptr) {
  const auto known = chips();
  require(std::ranges::find(known, chip_) != known.end(), "{}",
          unknown_name_message("chip", chip_, known));
  host_ = open_host(chip_);
  try {
    names_ = list_names(host_);
  } catch (...) {
    close_host(host_);
    throw;
  }
}

CuptiHost::~CuptiHost() { close_host(host_); }

std::vector<std::string> CuptiHost::chips() {
  auto params = cupti_params<CUpti_Profiler_Host_GetSupportedChips_Params>(
      CUpti_Profiler_Host_GetSupportedChips_Params_STRUCT_SIZE);
  Cupti::instance().checked("cuptiProfilerHostGetSupportedChips", params, "asking for its chips");
  return {params.ppChipNames, params.ppChipNames + params.numChips};
}

Metric CuptiHost::describe(const std::string& name) const {
  CUpti_Profiler_Host_GetMetricProperties_Params found;
  require(properties(host_, name, found), "chip {} has no metric {}", chip_, name);
  return {name, found.pDimUnit, found.pDescription};
}

std::vector<std::string> CuptiHost::endings(const std::string& name) const {
  CUpti_Profiler_Host_GetMetricProperties_Params found;
  require(properties(host_, name, found), "chip {} has no metric {}", chip_, name);
  auto params = cupti_params<CUpti_Profiler_Host_GetSubMetrics_Params>(
      CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE);
  params.pHostObject = host_;
  params.metricType = found.metricType;
  params.pMetricName = name.c_str();
  Cupti::instance().checked("cuptiProfilerHostGetSubMetrics", params, "listing a metric's endings");
  return {params.ppSubMetrics, params.ppSubMetrics + params.numOfSubmetrics};
}

bool CuptiHost::has(const std::string& metric) const {
  // A name without an ending has properties as well, and cannot be counted.
  CUpti_Profiler_Host_GetMetricProperties_Params found;
  return properties(host_, metric, found) && !std::ranges::binary_search(names_, metric);
}

std::vector<std::uint8_t> CuptiHost::configuration(const std::vector<std::string>& metrics) const {
  for (const std::string& metric : metrics)
    if (const std::string fault = metric_fault(chip_, *this, metric); !fault.empty())
      throw Error(fault);
  // Metrics add up in a host object: every configuration has one of its own.
  const std::unique_ptr<CUpti_Profiler_Host_Object, decltype(&close_host)> fresh(open_host(chip_),
                                                                                 close_host);
  std::vector<const char*> names = pointers(metrics);
  auto add = cupti_params<CUpti_Profiler_Host_ConfigAddMetrics_Params>(
      CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
  add.pHostObject = fresh.get();
  add.ppMetricNames = names.data();
  add.numMetrics = names.size();
  Cupti::instance().checked("cuptiProfilerHostConfigAddMetrics", add, "scheduling metrics");

  auto size = cupti_params<CUpti_Profiler_Host_GetConfigImageSize_Params>(
      CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
  size.pHostObject = fresh.get();
  Cupti::instance().checked("cuptiProfilerHostGetConfigImageSize", size, "scheduling metrics");
  std::vector<std::uint8_t> image(size.configImageSize);
  auto get = cupti_params<CUpti_Profiler_Host_GetConfigImage_Params>(
      CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
  get.pHostObject = fresh.get();
  get.configImageSize = image.size();
  get.pConfigImage = image.data();
  Cupti::instance().checked("cuptiProfilerHostGetConfigImage", get, "scheduling metrics");
  return image;
}

std::size_t CuptiHost::passes(const std::vector<std::string>& metrics) const {
  std::vector<std::uint8_t> image = configuration(metrics);
  auto params = cupti_params<CUpti_Profiler_Host_GetNumOfPasses_Params>(
      CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
  params.configImageSize = image.size();
  params.pConfigImage = image.data();
  Cupti::instance().checked("cuptiProfilerHostGetNumOfPasses", params, "counting passes");
  return params.numOfPasses;
}

std::vector<double> CuptiHost::evaluate(std::span<const std::uint8_t> counter_data,
                                        std::size_t range,
                                        const std::vector<std::string>& metrics) const {
  std::vector<const char*> names = pointers(metrics);
  std::vector<double> values(metrics.size());
  auto params = cupti_params<CUpti_Profiler_Host_EvaluateToGpuValues_Params>(
      CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
  params.pHostObject = host_;
  params.pCounterDataImage = counter_data.data();
  params.counterDataImageSize = counter_data.size();
  params.rangeIndex = range;
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  Cupti::instance().checked("cuptiProfilerHostEvaluateToGpuValues", params, "reading counters");
  for (std::size_t i = 0; i < values.size(); ++i)
    require(std::isfinite(values[i]), "CUPTI gave no value for {} on chip {}", metrics[i], chip_);
  return values;
}

}  // namespace tessera

#endif  // __has_include(<cupti_profiler_host.h>)
