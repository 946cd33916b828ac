// Micro-benchmarks: what `tessera calibrate` runs to describe a GPU.
//
// One .cu file for each family, registered by name at its end; a build without CUDA has none. A
// family finds quantities of the device file (model/device.hpp says what each means and its unit)
// and curves, which show where a number comes from. What a GPU cannot do it leaves out. Device code
// checks its own results: a run that did not do its work is an error, not a number.
#pragma once

#include <string>
#include <vector>

#include "formats/base/registry.hpp"

namespace tessera {

/// A number found, in the unit of its quantity.
struct Finding {
  std::string quantity;
  double value = 0;
  std::string how;  // "median of 11, middle half within 0.2%, rows of 512 bytes from 24 MB"
};

/// Numbers over a range of conditions.
struct Curve {
  std::string name;                       // of its file, without the ending
  std::vector<std::string> columns;       // with units where they are not plain counts
  std::vector<std::vector<double>> rows;  // [any][columns]
};

struct Findings {
  std::vector<Finding> numbers;
  std::vector<Curve> curves;
};

/// How much a run may take.
struct Effort {
  int repeats = 11;    // of every measurement; the median counts
  bool quick = false;  // smaller sizes and no long curves: to see that it works
};

class Microbenchmark {
 public:
  static constexpr const char* kKind = "micro-benchmark";
  virtual ~Microbenchmark() = default;

  /// Throws Unsupported for a GPU that cannot do any of it.
  virtual Findings run(const Effort& effort) const = 0;
};

/// The entry of a family that is one function.
inline Entry<Microbenchmark> microbenchmark(std::string name, std::string summary,
                                            Findings (*run)(const Effort&)) {
  struct Family final : Microbenchmark {
    explicit Family(Findings (*run)(const Effort&)) : run_(run) {}
    Findings run(const Effort& effort) const override { return run_(effort); }
    Findings (*run_)(const Effort&);
  };
  return {.name = std::move(name), .summary = std::move(summary), .make = [run](const Params&) {
            return std::make_unique<Family>(run);
          }};
}

/// Median of repeated measurements, and how far apart their middle half lies.
struct Typical {
  double median = 0;
  double spread = 0;  // third quartile - first quartile, relative to the median
  std::size_t count = 0;

  /// "median of 11, middle half within 0.2%", then the remark.
  std::string told(const std::string& remark = "") const;
};

/// Of at least one sample.
Typical typical(std::vector<double> samples);

/// The number as a finding.
Finding finding(const std::string& quantity, const Typical& measured,
                const std::string& remark = "");

/// The same with every sample turned into the quantity's unit.
template <class Convert>
Finding finding(const std::string& quantity, std::vector<double> samples, Convert convert,
                const std::string& remark = "") {
  for (double& sample : samples) sample = convert(sample);
  return finding(quantity, typical(std::move(samples)), remark);
}

/// Slope of the line through (x, y) with the least squared error; two different x at least.
double fitted_slope(const std::vector<double>& x, const std::vector<double>& y);
/// Where that line meets x = 0.
double fitted_start(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace tessera
