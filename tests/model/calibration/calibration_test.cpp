// From what micro-benchmarks find to a device file: statistics, physical limits, the file itself.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "experiments/run/calibration.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "model/calibration/physical_limits.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

void check_same(const std::map<std::string, Quantity, std::less<>>& found,
                const std::map<std::string, Quantity, std::less<>>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& [name, quantity] : expected) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name).value == quantity.value);
    CHECK(found.at(name).unit == quantity.unit);
    CHECK(found.at(name).source == quantity.source);
  }
}

/// The device after it was written to a file and read again.
Device reread(const Device& device) {
  const TemporaryFolder folder;
  const std::string path = folder / (device.name + ".toml");
  write_text(path, device_text(device));
  return read_device(path);
}

Device random_device(std::uint64_t seed) {
  Device device;
  device.name = "card";
  device.title = R"(A "quoted" card \ with a backslash)";
  device.aliases = {"one", "the \"other\""};
  device.generation = "ada";
  device.compute_capability = "8.9";
  std::uint64_t draw = 0;
  for (const QuantitySpec& spec : quantity_specs())
    for (auto* section : {&device.datasheet, &device.measured})
      if (random_unit(seed, draw++) < 0.7)
        (*section)[spec.name] = {std::exp(40 * random_unit(seed, draw++) - 20), spec.unit,
                                 fmt::format("draw {} of \"random\\numbers\"", draw)};
  return device;
}

TEST_CASE("a written device file is read as the same device") {
  std::vector<Device> devices;
  for (const std::string& name : device_names()) devices.push_back(find_device(name));
  for (std::uint64_t seed = 0; seed < 20; ++seed) devices.push_back(random_device(seed));
  for (const Device& device : devices) {
    CAPTURE(device.name);

    const Device found = reread(device);

    CHECK(found.name == device.name);
    CHECK(found.title == device.title);
    CHECK(found.aliases == device.aliases);
    CHECK(found.generation == device.generation);
    CHECK(found.compute_capability == device.compute_capability);
    check_same(found.datasheet, device.datasheet);
    check_same(found.measured, device.measured);
  }
}

TEST_CASE("a device file refuses control characters") {
  Device device = find_device("h200");
  device.measured.begin()->second.source = "two\nlines";

  CHECK_THROWS_WITH_AS(device_text(device), doctest::Contains("control character"), Error);
}

TEST_CASE("the median counts, and the middle half gives its spread") {
  const Typical odd = typical({7, 1, 5, 3, 100});
  const Typical even = typical({4, 2});

  CHECK(odd.median == 5);
  CHECK(odd.spread == doctest::Approx((7 - 3) / 5.0));
  CHECK(odd.text("of five") == "median of 5, middle half within 80%, of five");
  CHECK(even.median == 3);
  CHECK(typical({8}).text() == "median of 1, middle half within 0%");
}

TEST_CASE("a least-squares line is exact on its points and fits points off it") {
  const std::vector<double> x{8, 16, 32};

  CHECK(fitted_slope(x, {5, 7, 11}) == doctest::Approx(0.25));
  CHECK(fitted_start(x, {5, 7, 11}) == doctest::Approx(3));
  // About (0, 0), (1, 1), (2, 0): the mean, since their slopes cancel.
  CHECK(fitted_slope({0, 1, 2}, {0, 1, 0}) == doctest::Approx(0));
  CHECK(fitted_start({0, 1, 2}, {0, 1, 0}) == doctest::Approx(1.0 / 3));
}

TEST_CASE("a family of micro-benchmarks runs its function") {
  const Entry<Microbenchmark> entry =
      microbenchmark("planted", "returns its effort", [](const Effort& effort) {
        return Findings{{{"clock", double(effort.repeats), "planted"}}, {}};
      });

  const Findings found = entry.make(Params())->run({17, true});

  CHECK(entry.name == "planted");
  REQUIRE(found.numbers.size() == 1);
  CHECK(found.numbers[0].value == 17);
}

TEST_CASE("every measured number of a shipped device is physically possible") {
  for (const std::string& name : device_names()) {
    CAPTURE(name);
    const Device& device = find_device(name);

    for (const auto& [quantity, measured] : device.measured)
      CHECK(physical_problem(device, quantity, measured.value) == "");
  }
}

TEST_CASE("a value up to a tenth beyond a physical limit is accepted, more is not") {
  const Device& h200 = find_device("h200");
  const std::vector<PhysicalLimit> limits = physical_limits(h200);
  CHECK(limits.size() > 15);
  for (const PhysicalLimit& limit : limits) {
    CAPTURE(limit.quantity);
    // Another limit of the quantity may be stricter; this one is the first or they are latencies.
    const auto problem = [&](double value) {
      return physical_problem(h200, limit.quantity, value);
    };
    REQUIRE((limit.least > 0 || std::isfinite(limit.most)));
    if (std::isfinite(limit.most)) {
      CHECK(problem(1.09 * limit.most) == "");
      CHECK(problem(1.11 * limit.most).find("is above") != std::string::npos);
    }
    if (limit.least > 0) CHECK(problem(limit.least / 1.11).find("is below") != std::string::npos);
  }
  CHECK(physical_problem(h200, "async_copy_interval", 4 / 1.09) == "");
  CHECK(physical_problem(h200, "dram_bandwidth", 5300).find("4800, the datasheet's bandwidth") !=
        std::string::npos);
  for (const double value : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    CHECK(physical_problem(h200, "fma_latency", value).find("positive and finite") !=
          std::string::npos);
}

TEST_CASE("a nearer level of memory cannot take longer") {
  Device device;
  device.measured["l2_latency"] = {280, "cycles", "planted"};

  CHECK(physical_problem(device, "dram_latency", 290) == "");
  CHECK(physical_problem(device, "l2_far_latency", 200) ==
        "l2_far_latency = 200 is below 280, the l2_latency");
  CHECK(physical_problem(device, "l1_latency", 300) ==
        "");  // comes first: there is nothing to compare it with
}

TEST_CASE("measured numbers enter the device, impossible ones are reported and omitted") {
  Device device = find_device("h200");
  const double sms = device.value("sm_count");

  const std::vector<std::string> problems = take_numbers(device,
                                                         {{"clock", 1979.9876, "cycles"},
                                                          {"sm_count", sms, "reported"},
                                                          {"l2_capacity", 62914560, "reported"},
                                                          {"fma_latency", 4.00123, "a chain"},
                                                          {"issue_rate", 7, "a mistake"}},
                                                         "by test");

  CHECK(device.value("clock") == 1980);
  CHECK(device.get("clock").source == "by test; cycles");
  CHECK(device.get("clock").unit == "MHz");
  CHECK_FALSE(device.measured.contains("sm_count"));
  CHECK(device.value("l2_capacity") == 62914560);
  CHECK(device.value("fma_latency") == 4.001);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with("issue_rate = 7 is above 4"));
  CHECK_THROWS_WITH_AS(take_numbers(device, {{"fma_latnecy", 4, ""}}, ""),
                       doctest::Contains("did you mean 'fma_latency'"), Error);
}

TEST_CASE("the device to calibrate is the one named, the one of the GPU's name, or a new one") {
  CHECK(device_to_calibrate("", "NVIDIA H200", "hopper", "9.0").name == "h200");
  CHECK(device_to_calibrate("h100", "NVIDIA H100 80GB HBM3", "hopper", "9.0").name == "h100-sxm");

  // A longer name is another product: an H200 NVL is no H200 SXM, an H20 no H200.
  for (const char* name : {"NVIDIA H200 NVL", "NVIDIA H20"}) {
    CAPTURE(name);
    const Device other = device_to_calibrate("", name, "hopper", "9.0");
    CHECK(other.title == name);
    CHECK(other.generation == "hopper");
    CHECK(other.datasheet.empty());
    CHECK(other.measured.empty());
  }

  CHECK_THROWS_WITH_AS(device_to_calibrate("h20", "any", "hopper", "9.0"),
                       doctest::Contains("did you mean 'h200'"), Error);
  CHECK_THROWS_WITH_AS(device_to_calibrate("", "NVIDIA B300", "", "10.3"),
                       doctest::Contains("compute capability 10.3"), Unsupported);
}

TEST_CASE("the clock before and after is stated as a range, or as one number") {
  CHECK(clock_range(1979.8, 1964.6) == "1965 to 1980 MHz");
  CHECK(clock_range(1979.8, 1980.4) == "1980 MHz");
}

TEST_CASE("a curve is a table with a header, and rows that do not fit it are refused") {
  Curve curve{"gathers", {"footprint_bytes", "gbps"}, {{1048576, 5126.25}, {2147483648.0, 0.1}}};

  CHECK(curve_csv(curve) == "footprint_bytes,gbps\n1048576,5126.25\n2147483648,0.1\n");
  curve.rows.push_back({1});
  CHECK_THROWS_WITH_AS(curve_csv(curve), "gathers: a row of 1 cells, there are 2 columns", Error);
}

}  // namespace
}  // namespace tessera
