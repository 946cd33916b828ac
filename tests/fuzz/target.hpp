// Fuzz targets: code that reads bytes from outside, by name. A target registers itself like any
// other variant (formats/base/registry.hpp); those over a registry of the project, such as the
// matrix readers, come from that registry (targets()), so that a new reader is fuzzed by
// registering.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "formats/base/check.hpp"

namespace tessera::fuzz {

/// Uses the bytes of one input. An Error is a refusal; any other exception, a report of a
/// sanitizer, a wait beyond the timeout and memory beyond the limit are findings.
using Target = std::function<void(std::string_view input)>;

/// All targets by name: "config", "read.npz", ...
const std::map<std::string, Target>& targets();

/// The targets over the matrix readers, the formats and the caches.
std::map<std::string, Target> matrix_targets();
/// Those over configs, records, points and permutations.
std::map<std::string, Target> experiment_targets();

/// Memory that `new` gives one input, in bytes; beyond it, it throws bad_alloc as a full machine
/// does. It makes readers of a few bytes that ask for gigabytes fast, and tries their refusals.
inline constexpr std::size_t kMemory = std::size_t{64} << 20;

/// Writes the input as a file of that name in this process's scratch folder and returns its path.
std::string scratch_file(const std::string& name, std::string_view bytes);

/// Prints why an input, or a part of it, is refused, with --say.
void refused(const Error& why);

/// Ends the process with a message when a property does not hold: that is a finding.
void check(bool holds, const std::string& broken);

/// Takes numbers off the front of an input; zeros once it is used up.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t size = bytes_.size() < sizeof(T) ? bytes_.size() : sizeof(T);
    if (size != 0) std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return value;
  }
  bool empty() const { return bytes_.empty(); }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace tessera::fuzz
