#include "formats/statistics/histogram.hpp"

#include <bit>
#include <cstdio>
#include <sstream>

#include "formats/base/check.hpp"

namespace tessera {

void Histogram::add(std::int64_t count) {
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(count)));
  if (bin >= bins.size()) bins.resize(bin + 1, 0);
  ++bins[bin];
}

std::string bin_text(std::size_t bin) {
  if (bin < 2) return fmt::format("{}", bin);
  const std::int64_t first = std::int64_t{1} << (bin - 1);
  return fmt::format("{}-{}", first, 2 * first - 1);
}

std::string to_text(const Histogram& histogram) {
  std::string text;
  for (std::size_t bin = 0; bin < histogram.bins.size(); ++bin)
    if (histogram.bins[bin] != 0)
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", bin_text(bin), histogram.bins[bin]);
  return text;
}

Histogram histogram_from_text(const std::string& text) {
  Histogram histogram;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int64_t first = 0, count = 0;
    const std::size_t colon = word.find(':');
    const bool numbers = colon != std::string::npos &&
                         std::sscanf(word.c_str(), "%ld", &first) == 1 &&
                         std::sscanf(word.c_str() + colon + 1, "%ld", &count) == 1;
    const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(first)));
    require(numbers && first >= 0 && word == fmt::format("{}:{}", bin_text(bin), count) &&
                bin >= histogram.bins.size(),
            "'{}' is no histogram: '{}' is not a next bin, as in 4-7:3", text, word);
    histogram.bins.resize(bin + 1, 0);
    histogram.bins[bin] = count;
  }
  return histogram;
}

}  // namespace tessera
