// How often counts occur, in bins that double: small enough for a record, and readable in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// How often counts occur: bin 0 is for 0, bin b for 2^(b-1) to 2^b - 1.
struct Histogram {
  std::vector<std::int64_t> bins;  // up to the last that is not empty

  void add(std::int64_t count);
};

/// "0:5 1:10 4-7:3": the bins that are not empty, each with what falls into it.
std::string to_text(const Histogram& histogram);

/// The inverse. Throws an Error for text that to_text does not write.
Histogram histogram_from_text(const std::string& text);

/// The counts that fall into a bin: "0", "1", "2-3", "4-7".
std::string bin_text(std::size_t bin);

}  // namespace tessera
