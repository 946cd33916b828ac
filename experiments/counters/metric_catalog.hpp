// The hardware metrics of a chip. No GPU is needed: a config is checked on the machine where it is
// written.
//
// Chips have the names of NVIDIA's tools: GA100 (A100), AD102 (RTX 4090, L40), GH100 (H100, H200).
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// A metric without its ending: "lts__t_sectors".
struct Metric {
  std::string name;
  std::string unit;     // "sector", "byte", ...
  std::string meaning;  // one line, in the words of the tool
};

/// The metrics of one chip.
class ChipMetrics {
 public:
  virtual ~ChipMetrics() = default;

  virtual std::vector<std::string> names() const = 0;          // without ending, sorted
  virtual Metric describe(const std::string& name) const = 0;  // of one of them
  virtual std::vector<std::string> endings(const std::string& name) const = 0;  // ".sum", ...

  /// True when a metric such as "lts__t_sectors.sum" can be counted.
  virtual bool has(const std::string& metric) const = 0;

  /// The number of runs of a product that counting all of them takes.
  virtual std::size_t passes(const std::vector<std::string>& metrics) const = 0;
};

class MetricCatalog {
 public:
  static constexpr const char* kKind = "metric catalog";
  virtual ~MetricCatalog() = default;

  virtual std::vector<std::string> chips() const = 0;

  /// Throws an Error with the nearest name for an unknown chip.
  virtual std::unique_ptr<ChipMetrics> open(const std::string& chip) const = 0;
};

/// Throws Unsupported, with the reason, where there is none.
std::unique_ptr<MetricCatalog> find_metric_catalog();

/// The error in the name of a metric, with the nearest right ones: "chip GH100 has no metric
/// lts__t_sector.smu; nearest: lts__t_sectors.sum". Empty when the chip has it.
std::string metric_fault(const std::string& chip, const ChipMetrics& metrics,
                         const std::string& metric);

}  // namespace tessera
