// Micro-benchmarks, which `tessera calibrate` runs to describe a GPU.
//
// A family is one .cu file that registers itself by name at its end; a build without CUDA has none.
// It measures quantities of the device file (quantity_specs in model/device.hpp has their meanings
// and units) and curves, which show how a number was obtained. It omits what the GPU cannot do.
// Device code checks its own results: a run that did not do its work is an error, not a number.
#pragma once

#include <string>
#include <vector>

#include "formats/base/registry.hpp"

namespace tessera {

/// A measured number in the unit of its quantity.
struct Finding {
  std::string quantity;
  double value = 0;
  std::string how;  // "median of 11, middle half within 0.2%, rows of 512 bytes from 24 MB"
};

/// A table of numbers over a range of conditions.
struct Curve {
  std::string name;                       // name of its file, without the ending
  std::vector<std::string> columns;       // names, with units except for counts
  std::vector<std::vector<double>> rows;  // [conditions][columns]
};

struct Findings {
  std::vector<Finding> numbers;
  std::vector<Curve> curves;
};

/// The effort of a run.
struct Effort {
  int repeats = 11;    // repetitions of every measurement; the median counts
  bool quick = false;  // smaller sizes and no long curves, for a quick check
};

class Microbenchmark {
 public:
  static constexpr const char* kKind = "micro-benchmark";
  virtual ~Microbenchmark() = default;

  /// Measures on the current GPU. Throws Unsupported when it can do none of the measurements.
  virtual Findings run(const Effort& effort) const = 0;
};

/// The registry entry of a family that is one function.
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

/// The median of repeated measurements and the spread of their middle half.
struct Typical {
  double median = 0;
  double spread = 0;  // third quartile - first quartile, relative to the median
  std::size_t count = 0;

  /// The text "median of 11, middle half within 0.2%", followed by the remark.
  std::string text(const std::string& remark = "") const;
};

/// The median and spread of at least one sample.
Typical typical(std::vector<double> samples);

/// A finding with the median as its value.
Finding finding(const std::string& quantity, const Typical& measured,
                const std::string& remark = "");

/// A finding from samples that `convert` turns into the quantity's unit.
template <class Convert>
Finding finding(const std::string& quantity, std::vector<double> samples, Convert convert,
                const std::string& remark = "") {
  for (double& sample : samples) sample = convert(sample);
  return finding(quantity, typical(std::move(samples)), remark);
}

/// The slope of the least-squares line through the points (x[i], y[i]); x holds at least two
/// different values.
double fitted_slope(const std::vector<double>& x, const std::vector<double>& y);
/// The value of that line at x = 0.
double fitted_start(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace tessera
