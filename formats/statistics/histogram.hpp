// A histogram of counts in bins of doubling width: small enough for a record, and readable there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The frequencies of counts: bin 0 is for 0, bin b for 2^(b-1) to 2^b - 1.
struct Histogram {
  std::vector<std::int64_t> bins;  // up to the last that is not empty

  void add(std::int64_t count);
};

/// The nonempty bins and their frequencies as text: "0:5 1:10 4-7:3".
std::string to_text(const Histogram& histogram);

/// The inverse of to_text. Throws an Error for text that to_text does not write.
Histogram histogram_from_text(const std::string& text);

/// The range of counts of a bin: "0", "1", "2-3", "4-7".
std::string bin_text(std::size_t bin);

}  // namespace tessera
