#include "experiments/run/calibration.hpp"

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "model/calibration/physical_limits.hpp"

namespace tessera {
namespace {

double rounded(double value) {
  // Whole numbers are counts.
  return std::round(value) == value ? value : std::stod(fmt::format("{:.4g}", value));
}

const QuantitySpec& spec_of(const std::string& quantity) {
  std::vector<std::string> known;
  for (const QuantitySpec& spec : quantity_specs()) {
    if (spec.name == quantity) return spec;
    known.push_back(spec.name);
  }
  throw Error(unknown_name_message("quantity", quantity, known));
}

}  // namespace

Device device_to_calibrate(const std::string& name, const std::string& gpu_name,
                           const std::string& generation, const std::string& compute_capability) {
  if (!name.empty()) return find_device(name);
  for (const std::string& known : device_names())
    if (find_device(known).title.starts_with(gpu_name + " ")) return find_device(known);
  require<Unsupported>(!generation.empty(),
                       "{} is of compute capability {}, whose tensor cores are not known here",
                       gpu_name, compute_capability);
  Device device;
  device.title = gpu_name;
  device.generation = generation;
  device.compute_capability = compute_capability;
  return device;
}

std::vector<std::string> take_numbers(Device& device, const std::vector<Finding>& numbers,
                                      const std::string& source) {
  std::vector<std::string> problems;
  for (const auto& [quantity, value, how] : numbers) {
    const QuantitySpec& spec = spec_of(quantity);
    const std::string problem = physical_problem(device, quantity, value);
    if (!problem.empty()) {
      problems.push_back(problem);
      continue;
    }
    const auto stated = device.datasheet.find(quantity);
    if (stated != device.datasheet.end() && stated->second.value == value) continue;
    device.measured[quantity] = {rounded(value), spec.unit, fmt::format("{}; {}", source, how)};
  }
  return problems;
}

std::string clock_range(double before_mhz, double after_mhz) {
  const double low = std::round(std::min(before_mhz, after_mhz));
  const double high = std::round(std::max(before_mhz, after_mhz));
  return low == high ? fmt::format("{} MHz", low) : fmt::format("{} to {} MHz", low, high);
}

std::string curve_csv(const Curve& curve) {
  std::string text = fmt::format("{}\n", fmt::join(curve.columns, ","));
  for (const std::vector<double>& row : curve.rows) {
    require(row.size() == curve.columns.size(), "{}: a row of {} cells, there are {} columns",
            curve.name, row.size(), curve.columns.size());
    std::string cells;
    for (const double cell : row) cells += fmt::format("{}{:.10g}", cells.empty() ? "" : ",", cell);
    text += cells + "\n";
  }
  return text;
}

}  // namespace tessera
