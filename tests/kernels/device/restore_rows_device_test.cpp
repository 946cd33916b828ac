// The kernel that puts the rows of C back gives the host's bits, at every width and alignment.
#include <doctest/doctest.h>

#include <numeric>

#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/random.hpp"
#include "kernels/device/restore_rows.hpp"

namespace tessera {
namespace {

Permutation drawn_order(std::int32_t size, std::uint64_t seed) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (std::int32_t i = size - 1; i > 0; --i)
    std::swap(order[i], order[random_bits(seed, i) % (i + 1)]);
  return Permutation(std::move(order));
}

TEST_CASE("rows are restored on the GPU as on the host") {
  if (const std::string missing = gpu_unavailable(); !missing.empty()) {
    MESSAGE("skipped: ", missing);
    return;
  }
  constexpr std::int32_t kRows = 1237;
  constexpr float kUnwritten = -7;
  const Permutation rows = drawn_order(kRows, 1), inverse = rows.inverse();
  const DeviceArray<std::int32_t> new_of_old(inverse.old_of_new());
  for (const std::int64_t n : {1, 3, 4, 7, 32, 100, 128, 257, 1028, 4096}) {
    for (const std::size_t offset : {0, 1}) {  // elements off the alignment of 16 bytes
      CAPTURE(n);
      CAPTURE(offset);
      DenseMatrix c(kRows, n);
      for (std::size_t i = 0; i < c.values.size(); ++i) c.values[i] = random_signed(2, i);
      std::vector<float> shifted(offset, 0);
      shifted.insert(shifted.end(), c.values.begin(), c.values.end());
      const DeviceArray<float> from(shifted);
      DeviceArray<float> to(std::vector<float>(c.values.size() + 1, kUnwritten));

      restore_rows(from.data() + offset, new_of_old.data(), kRows, n, to.data(), nullptr);

      std::vector<float> found = to.download();
      CHECK(found.back() == kUnwritten);
      found.pop_back();
      CHECK(found == permute_rows(c, inverse).values);
    }
  }
}

TEST_CASE("rows of 16 bits are gathered by number, at every width and alignment") {
  if (const std::string missing = gpu_unavailable(); !missing.empty()) {
    MESSAGE("skipped: ", missing);
    return;
  }
  constexpr std::int32_t kRows = 911,
                         kGathered = 1500;  // some rows more than once, some not at all
  constexpr std::uint16_t kUnwritten = 0xbeef;
  std::vector<std::int32_t> places(kGathered);
  for (std::int32_t i = 0; i < kGathered; ++i)
    places[i] = static_cast<std::int32_t>(random_bits(3, i) % kRows);
  const DeviceArray<std::int32_t> places_on_gpu(places);
  for (const std::int64_t n : {1, 2, 3, 5, 8, 31, 33, 64, 129, 514}) {
    for (const std::size_t offset : {0, 1, 2, 4}) {  // elements off the alignment of 16 bytes
      CAPTURE(n);
      CAPTURE(offset);
      std::vector<std::uint16_t> source(offset + kRows * n);
      for (std::size_t i = 0; i < source.size(); ++i)
        source[i] = static_cast<std::uint16_t>(random_bits(4, i));
      const DeviceArray<std::uint16_t> from(source);
      DeviceArray<std::uint16_t> to(std::vector<std::uint16_t>(kGathered * n + 1, kUnwritten));

      gather_rows(from.data() + offset, places_on_gpu.data(), kGathered,
                  n * static_cast<std::int64_t>(sizeof(std::uint16_t)), to.data(), nullptr);

      std::vector<std::uint16_t> expected;
      for (const std::int32_t place : places) {
        const auto row = source.begin() + static_cast<std::ptrdiff_t>(offset + place * n);
        expected.insert(expected.end(), row, row + n);
      }
      expected.push_back(kUnwritten);
      CHECK(to.download() == expected);
    }
  }
}

}  // namespace
}  // namespace tessera
