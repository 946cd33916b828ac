// The pattern of a line of JSON: its keys and what stands between its values. Most records of a set
// differ in their texts and numbers alone. A line is compared with the pattern of another one,
// which takes a fraction of the time of parsing it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/records/json_value.hpp"

namespace tessera {

class JsonPattern {
 public:
  /// The pattern of a line, of which `values` are all values. Its texts are plain: ASCII without
  /// control characters and escapes.
  JsonPattern(std::string_view line, const std::vector<JsonValue>& values);
  JsonPattern(const JsonPattern&) = delete;
  JsonPattern& operator=(const JsonPattern&) = delete;

  /// Takes a line apart that has the same keys, with values of the same kinds, all texts plain.
  /// False for every other text; values() are of no use then.
  bool read(std::string_view line);

  /// Of the line that was read last, or that this was made of. Their texts point into the line that
  /// was read, or else, as all keys do, into this.
  const std::vector<JsonValue>& values() const { return values_; }

  /// Distinguishes it from all other patterns; never 0.
  std::uint64_t number() const { return number_; }

 private:
  /// A value without parts, and the text before it, back to the last such value.
  struct Leaf {
    std::uint32_t begin = 0, size = 0;  // of that text
    std::uint32_t value = 0;            // its place in values_
  };
  /// An object or array: where it begins and ends in the texts before leaves.
  struct Container {
    std::uint32_t value = 0;  // its place in values_
    std::uint32_t first_leaf = 0, first_offset = 0;
    std::uint32_t last_leaf = 0, last_offset = 0;
  };

  void find_leaves();
  void find_containers();

  std::uint64_t number_;
  std::string text_;  // of the line that it was made of
  std::vector<JsonValue> values_;
  std::vector<Leaf> leaves_;  // and one without a value, for the text behind the last one
  std::vector<Container> containers_;
  std::vector<const char*> begins_;  // of the texts before leaves, in the line that is read
};

}  // namespace tessera
