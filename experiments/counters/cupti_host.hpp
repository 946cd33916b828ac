// The host half of CUPTI, the library behind NVIDIA's profilers. It needs no GPU; it is opened on
// first use and never linked.
//
// Only its headers are needed to build (CUPTI of CUDA 13: cupti_profiler_host.h); a build without
// them has none of this. What includes this file has to stand under the same __has_include.
#pragma once

#include <cupti_profiler_host.h>
#include <cupti_result.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/counters/metric_catalog.hpp"

namespace tessera {

/// The library. Its functions used here all take a pointer to a structure of parameters.
class Cupti {
 public:
  /// Throws Unsupported where it is not on this machine.
  static const Cupti& instance();

  template <class Params>
  CUptiResult call(const char* function, Params& params) const {
    return reinterpret_cast<CUptiResult (*)(Params*)>(find(function))(&params);
  }

  /// The same; throws an Error with the library's own text, Unsupported for missing permission.
  template <class Params>
  void checked(const char* function, Params& params, const char* doing) const {
    check(call(function, params), doing);
  }

 private:
  Cupti();
  void* find(const char* function) const;
  void check(CUptiResult status, const char* doing) const;

  void* library_;
};

/// A structure of parameters, zero but for its size: CUpti_..._Params_STRUCT_SIZE.
template <class Params>
Params cupti_params(std::size_t size) {
  Params params{};
  params.structSize = size;
  return params;
}

/// Metrics of a chip: their names, how to schedule them, how to read what was counted.
class CuptiHost final : public ChipMetrics {
 public:
  explicit CuptiHost(std::string chip);
  ~CuptiHost() override;
  CuptiHost(const CuptiHost&) = delete;
  CuptiHost& operator=(const CuptiHost&) = delete;

  static std::vector<std::string> chips();

  std::vector<std::string> names() const override { return names_; }
  Metric describe(const std::string& name) const override;
  std::vector<std::string> endings(const std::string& name) const override;
  bool has(const std::string& metric) const override;
  std::size_t passes(const std::vector<std::string>& metrics) const override;

  /// The image that configures the GPU to count these metrics. Throws an Error for an unknown one.
  std::vector<std::uint8_t> configuration(const std::vector<std::string>& metrics) const;

  /// Values in the order of the metrics, of one range in the image.
  std::vector<double> evaluate(std::span<const std::uint8_t> counter_data, std::size_t range,
                               const std::vector<std::string>& metrics) const;

 private:
  std::string chip_;
  CUpti_Profiler_Host_Object* host_;
  std::vector<std::string> names_;  // sorted; listing them takes milliseconds
};

}  // namespace tessera
