// The strict floor: worked by hand, against the floors recorded for an H200, and never above a
// recorded time.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "formats/base/check.hpp"
#include "model/floor.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace floor_model;

/// Round numbers: 1 TB/s of DRAM, 2 of L2, 4 gathered, 100 TFLOP/s, 1 us, 1 MB stays in L2.
const Rates kToy{1000, 2000, 4000, 100, 1, 1e6};

TEST_CASE("the parts of a floor are those worked out by hand") {
  const Product product{
      .rows = 1000, .nnz = 20'000, .b_rows = 900, .n = 128, .index_bytes = 24'000};
  const std::vector<Windows> windows{{8, 18'000}, {16, 10'000}, {64, 9'000}};

  const double bytes = 4 * 20'000 + 24'000 + 4 * 900 * 128 + 4 * 1000 * 128;
  const Floor cold = strict_floor(product, windows, kToy);
  Rates large_cache = kToy;
  large_cache.l2_bytes = 2e6;
  const Floor warm = strict_floor(product, windows, large_cache);

  CHECK(compulsory_bytes(product) == doctest::Approx(bytes));
  CHECK_FALSE(cold.in_l2);
  CHECK(cold.compulsory_us == doctest::Approx(bytes / 1e6));
  CHECK(warm.in_l2);
  CHECK(warm.compulsory_us == doctest::Approx(bytes / 2e6));
  // Gathering takes 2.3 us at height 8, 1.28 at 16, 1.15 at 64, where multiplying takes 1.47.
  CHECK(cold.height == 16);
  CHECK(cold.gather_us == doctest::Approx(10'000.0 * 128 * 4 / 4e6));
  CHECK(cold.mma_us == doctest::Approx(2.0 * 10'000 * 128 * 16 / 1e8));
  CHECK(cold.launch_us == 1);
  CHECK(cold.time_us == doctest::Approx(1.28));
  CHECK(cold.bound_by == "gather");
}

TEST_CASE("the best height trades gathering for multiplying") {
  const Product product{.rows = 64, .nnz = 64, .b_rows = 64, .n = 512};
  const std::vector<Windows> windows{{8, 60'000}, {16, 40'000}, {128, 39'000}};

  const Floor floor = strict_floor(product, windows, kToy);

  CHECK(floor.height == 16);
  CHECK(floor.bound_by == "gather");
  CHECK(floor.time_us == doctest::Approx(40'000.0 * 512 * 4 / 4e6));
  const std::vector<Windows> only_tall{{128, 39'000}};
  CHECK(strict_floor(product, only_tall, kToy).bound_by == "tensor cores");
  CHECK(strict_floor(product, {}, kToy).time_us == kToy.launch_us);
  CHECK_THROWS_AS(strict_floor({.n = 0}, windows, kToy), Error);
}

TEST_CASE("an unknown rate does not bound") {
  const Product product{.rows = 1000, .nnz = 20'000, .b_rows = 900, .n = 128};
  const std::vector<Windows> windows{{8, 18'000}};
  const Rates rates{.dram_gbps = 1000, .mma_tflops = 100};

  const Floor floor = strict_floor(product, windows, rates);

  CHECK(floor.gather_us == 0);
  CHECK(floor.launch_us == 0);
  CHECK(floor.bound_by == "memory");
}

TEST_CASE("rates come from the device file") {
  const Device& h200 = find_device("h200");

  const Rates tf32 = rates(h200), fp16 = rates(h200, 2);

  CHECK(tf32.dram_gbps == h200.value("dram_bandwidth"));
  CHECK(tf32.gather_gbps == h200.value("l2_bandwidth"));
  CHECK(tf32.mma_tflops == h200.value("tf32_mma"));
  CHECK(fp16.mma_tflops == h200.value("fp16_mma"));
  CHECK(rates(find_device("b200")).gather_gbps == 0);
  CHECK_THROWS_AS(rates(find_device("titan-rtx")), Unsupported);
}

/// A line of the recorded floors.
struct Recorded {
  std::string matrix;
  Product product;
  std::vector<Windows> windows;  // heights 8 to 128
  double compulsory_us = 0;
  double time_us = 0;
  int height = 0;
};

std::vector<Recorded> read_floors(const std::string& path) {
  std::vector<Recorded> all;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::ranges::replace(line, ',', ' ');
    Recorded r;
    double mean_row = 0, mean_nnz[2];
    std::array<std::int64_t, 5> cols{};
    std::istringstream cells(line);
    cells >> r.matrix >> r.product.rows >> r.product.b_rows >> r.product.nnz >> mean_row >>
        r.product.n >> r.product.element_bytes >> mean_nnz[0] >> mean_nnz[1];
    for (std::size_t i = 0; i < cols.size(); ++i) {
      cells >> cols[i];
      r.windows.push_back({8 << i, cols[i]});
    }
    cells >> r.compulsory_us >> r.time_us >> r.height;
    REQUIRE(cells);
    // A byte for each nonzero and four for each row.
    r.product.index_bytes = static_cast<double>(r.product.nnz + 4 * r.product.rows);
    if (r.matrix == "wiki-Vote") r.product.b_rows = 2381;  // the other columns are empty
    all.push_back(r);
  }
  return all;
}

/// The shortest right product that was measured in FP32 or TF32, in microseconds, by matrix and N.
std::map<std::pair<std::string, std::int64_t>, double> read_best_times(const std::string& path) {
  std::map<std::pair<std::string, std::int64_t>, double> best;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::ranges::replace(line, ',', ' ');
    std::string matrix, method, precision, status;
    std::int64_t nnz = 0, n = 0;
    int pattern = 0;
    double prep_ms = 0, ms = 0;
    std::istringstream cells(line);
    cells >> matrix >> nnz >> method >> precision >> pattern >> n >> status >> prep_ms >> ms;
    if (status != "OK" || pattern != 0 || precision == "fp16") continue;
    const auto [found, is_new] = best.try_emplace({matrix, n}, 1e3 * ms);
    if (!is_new) found->second = std::min(found->second, 1e3 * ms);
  }
  return best;
}

/// The figures of the recorded floors: an L2 stream of 8.3 TB/s up to 50 MB, 2 us.
Rates recorded_rates(double element_bytes) {
  return {4400, 8300, 9000, element_bytes > 2 ? 313.0 : 627.0, 2, 50e6};
}

TEST_CASE("floors agree with those recorded for an H200, to a hundredth of a microsecond") {
  const std::string path = shared_path("anchors/floors_h200.csv");
  if (path.empty()) return;
  const auto recorded = read_floors(path);
  REQUIRE(recorded.size() == 144);

  for (const Recorded& r : recorded) {
    CAPTURE(r.matrix);
    CAPTURE(r.product.n);
    const Floor floor = strict_floor(r.product, r.windows, recorded_rates(r.product.element_bytes));
    CHECK(std::abs(floor.compulsory_us - r.compulsory_us) < 0.0051);
    CHECK(std::abs(floor.time_us - r.time_us) < 0.0051);
    CHECK(floor.height == r.height);
  }
}

TEST_CASE(
    "with the device file's rates the floors of an H200 stay within an eighth of those recorded") {
  const std::string path = shared_path("anchors/floors_h200.csv");
  if (path.empty()) return;
  const Device& h200 = find_device("h200");
  int compared = 0;
  for (const Recorded& r : read_floors(path)) {
    Rates of_file = rates(h200, r.product.element_bytes);
    CHECK(of_file.launch_us >= 2);  // the recorded floors take 2 us, the file more
    of_file.launch_us = 2;
    // The file has one L2 rate, that of gathering, and the whole L2 for what stays in it.
    const Floor floor = strict_floor(r.product, r.windows, of_file);
    // Gathers run at 8.94 TB/s by the file, at 9 in those recorded.
    CHECK(floor.time_us <= 1.01 * r.time_us + 0.0051);
    if (compulsory_bytes(r.product) > 50e6 && floor.in_l2) continue;
    CHECK(floor.time_us > 0.875 * r.time_us);
    ++compared;
  }
  CHECK(compared > 130);
}

TEST_CASE("no product measured on an H200 is below its floor by the device file") {
  const std::string floors = shared_path("anchors/floors_h200.csv");
  const std::string times = shared_path("anchors/spmm_h200.csv");
  if (floors.empty() || times.empty()) return;
  const auto best = read_best_times(times);
  const Rates of_file = rates(find_device("h200"));
  double closest = std::numeric_limits<double>::infinity();
  int compared = 0;
  for (const Recorded& r : read_floors(floors)) {
    const auto measured = best.find({r.matrix, r.product.n});
    if (r.product.element_bytes != 4 || measured == best.end()) continue;
    const double times_floor =
        measured->second / strict_floor(r.product, r.windows, of_file).time_us;
    CAPTURE(r.matrix);
    CAPTURE(r.product.n);
    CHECK(times_floor > 1);
    closest = std::min(closest, times_floor);
    ++compared;
  }
  CHECK(compared > 40);
  CHECK(closest < 1.5);  // fb-Cornell5: the floor is not only safe, it is near
}

}  // namespace
}  // namespace tessera
