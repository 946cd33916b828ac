// A described device: the numbers of a GPU that models need, each with its source.
//
// Each device has a TOML file in model/devices. [datasheet] holds the vendor's numbers, [measured]
// those measured on such a device. A quantity may be in both sections; the caller chooses which one
// it prefers. A number without a source is an error.
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

/// The section that takes precedence where both have a quantity.
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
  /// The quantity from the preferred section, else from the other. Throws Unsupported when neither
  /// has it.
  const Quantity& get(std::string_view quantity, Ceilings preferred = Ceilings::kMeasured) const;
  double value(std::string_view quantity, Ceilings preferred = Ceilings::kMeasured) const {
    return get(quantity, preferred).value;
  }
};

/// A quantity that device files may hold.
struct QuantitySpec {
  std::string name;
  std::string unit;
  std::string meaning;
};
const std::vector<QuantitySpec>& quantity_specs();

/// Reads one file. Throws an Error "file:line:column: ..." for bad TOML, unknown names and units,
/// values that are not positive and finite, and a number without a source.
Device read_device(const std::string& path);

/// The text of a file that read_device reads as this device, except for its name, which is that of
/// the file. Throws an Error for text with control characters.
std::string device_text(const Device& device);

/// The devices of every *.toml in a folder, by file name. Throws as read_device, and an Error when
/// two devices share a name or alias.
std::vector<Device> read_devices(const std::string& folder);

/// The names of the shipped devices, without their aliases.
std::vector<std::string> device_names();

/// A shipped device by name or alias. Throws an Error with the nearest known name.
const Device& find_device(std::string_view name);

}  // namespace tessera
