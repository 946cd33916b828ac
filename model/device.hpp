// A described device: the numbers a model needs of a GPU, each with its source.
//
// One TOML file per device in model/devices. [datasheet] holds what the vendor states, [measured]
// what was measured on such a device; the same quantity may stand in both, and whoever asks says
// which it prefers. A number without a source is an error.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct Quantity {
  double value = 0;
  std::string unit;
  std::string source;
};

/// Which numbers to go by where both are known.
enum class Ceilings { kMeasured, kDatasheet };

struct Device {
  std::string name;   // "h200"
  std::string title;  // "NVIDIA H200 SXM"
  std::vector<std::string> aliases;
  std::string generation;          // of its tensor cores: "volta", ..., "hopper", "blackwell"
  std::string compute_capability;  // "9.0"
  std::map<std::string, Quantity, std::less<>> datasheet;
  std::map<std::string, Quantity, std::less<>> measured;

  bool has(std::string_view quantity) const;
  /// Throws Unsupported when the file has neither number.
  const Quantity& get(std::string_view quantity, Ceilings preferred = Ceilings::kMeasured) const;
  double value(std::string_view quantity, Ceilings preferred = Ceilings::kMeasured) const {
    return get(quantity, preferred).value;
  }
};

/// A quantity the files may hold.
struct QuantitySpec {
  std::string name;
  std::string unit;
  std::string meaning;
};
const std::vector<QuantitySpec>& quantity_specs();

/// Reads one file. Throws an Error "file:line:column: ..." for bad TOML, unknown names and units,
/// values that are not positive and finite, and a number without a source.
Device read_device(const std::string& path);

/// The file that read_device reads as this device, name apart: that is the file's own. Throws an
/// Error for text with control characters.
std::string device_text(const Device& device);

/// Every *.toml of a folder, by file name. Throws what read_device throws, and an Error when two
/// devices answer to one name.
std::vector<Device> read_devices(const std::string& folder);

/// Names of the devices the program ships, without their aliases.
std::vector<std::string> device_names();

/// A shipped device by name or alias. Throws an Error with the nearest known name.
const Device& find_device(std::string_view name);

}  // namespace tessera
