// Described devices: the shipped files hold together, and the reader refuses what it cannot account
// for.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"
#include "model/device.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A device file that reads without complaint; line 6 is its only quantity.
const char* const kSoundFile =
    "title = \"Test card\"\n"
    "aliases = [\"card\"]\n"
    "generation = \"ada\"\n"
    "compute_capability = \"8.9\"\n"
    "[datasheet]\n"
    "fp32 = { value = 80, unit = \"TFLOP/s\", source = \"a datasheet\" }\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The message of read_device for a file with this text, without the folder; "" when it reads it.
std::string complaint_about(const std::string& text) {
  const TemporaryFolder folder;
  write_text(folder / "card.toml", text);
  try {
    read_device(folder / "card.toml");
    return "";
  } catch (const Error& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(folder / ""));
    return message.substr((folder / "").size());
  }
}

bool agrees(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * b; }

/// Tera-operations per second of `fma` fused multiply-adds per clock and SM.
double peak(const Device& device, double fma, double mhz) {
  return device.value("sm_count") * fma * 2 * mhz * 1e-6;
}

TEST_CASE("the devices of the papers are described, under short names too") {
  const std::vector<std::string> names = device_names();

  CHECK(names == std::vector<std::string>{"a100-80gb", "a800-80gb", "b200", "h100-sxm", "h200",
                                          "rtx-2070", "rtx-4090", "titan-rtx", "v100"});
  for (const std::string& name : names) CHECK(find_device(name).name == name);
  CHECK(find_device("a100").name == "a100-80gb");
  CHECK(find_device("a800").name == "a800-80gb");
  CHECK(find_device("h100").name == "h100-sxm");
}

TEST_CASE("peak rates equal SMs x FMA per clock and SM x 2 x clock") {
  struct PerClock {
    double fp32, tf32, fp16;  // FMA per clock and SM; tf32 = 0: none
    double fp32_mhz;          // clock of the FP32 rating; 0: that of the tensor rating
  };
  // Since Hopper, CUDA cores are rated at 1980 MHz and tensor cores at less.
  const std::map<std::string, PerClock> rates{
      {"a100-80gb", {64, 512, 1024, 0}},     {"a800-80gb", {64, 512, 1024, 0}},
      {"h100-sxm", {128, 1024, 2048, 1980}}, {"h200", {128, 1024, 2048, 1980}},
      {"rtx-4090", {128, 128, 256, 0}},      {"titan-rtx", {64, 0, 512, 0}},
      {"rtx-2070", {64, 0, 256, 0}},         {"v100", {64, 0, 512, 0}},
      {"b200", {128, 2048, 4096, 1980}}};
  REQUIRE(rates.size() == device_names().size());
  for (const auto& [name, per_clock] : rates) {
    CAPTURE(name);
    const Device& device = find_device(name);

    const double tensor_mhz = device.value("clock", Ceilings::kDatasheet);
    const double fp32_mhz = per_clock.fp32_mhz > 0 ? per_clock.fp32_mhz : tensor_mhz;

    // Vendors give three digits or fewer: 7.5 stands for 7.46.
    CHECK(agrees(device.value("fp32", Ceilings::kDatasheet), peak(device, per_clock.fp32, fp32_mhz),
                 6e-3));
    CHECK(agrees(device.value("fp16", Ceilings::kDatasheet),
                 peak(device, per_clock.fp16, tensor_mhz), 3e-3));
    CHECK(device.has("tf32") == (per_clock.tf32 > 0));
    if (per_clock.tf32 > 0)
      CHECK(agrees(device.value("tf32", Ceilings::kDatasheet),
                   peak(device, per_clock.tf32, tensor_mhz), 2e-3));
  }
}

TEST_CASE("measured rates of a device are below its datasheet's") {
  for (const std::string& name : device_names()) {
    CAPTURE(name);
    const Device& device = find_device(name);

    for (const char* rate : {"fp32", "tf32", "fp16", "dram_bandwidth"})
      if (device.has(rate)) CHECK(device.value(rate) <= device.value(rate, Ceilings::kDatasheet));
    if (device.has("tf32_mma")) CHECK(device.value("tf32_mma") < device.value("tf32"));
    if (device.has("fp16_mma")) CHECK(device.value("fp16_mma") < device.value("fp16"));
    if (device.has("l2_bandwidth"))
      CHECK(device.value("l2_bandwidth") > device.value("dram_bandwidth"));
  }
}

TEST_CASE("limits per SM fit each other and follow the compute capability") {
  std::map<std::string, const Device*> first_of_capability;
  for (const std::string& name : device_names()) {
    CAPTURE(name);
    const Device& device = find_device(name);

    CHECK(device.value("threads_per_sm") == 32 * device.value("warps_per_sm"));
    CHECK(device.value("shared_per_block") <= device.value("shared_per_sm"));
    CHECK(device.value("shared_per_sm") < device.value("l1_capacity"));
    const auto [first, is_new] =
        first_of_capability.try_emplace(device.compute_capability, &device);
    for (const char* limit : {"shared_per_sm", "shared_per_block", "threads_per_sm", "warps_per_sm",
                              "thread_blocks_per_sm", "registers_per_sm", "l1_capacity"})
      CHECK(device.value(limit) == first->second->value(limit));
    CHECK(device.generation == first->second->generation);
  }
}

TEST_CASE("a measured number and the datasheet's stay visible side by side") {
  const Device& h200 = find_device("h200");

  CHECK(h200.value("dram_bandwidth") == 4581);
  CHECK(h200.value("dram_bandwidth", Ceilings::kMeasured) == 4581);
  CHECK(h200.value("dram_bandwidth", Ceilings::kDatasheet) == 4800);
  CHECK(h200.value("tf32", Ceilings::kMeasured) == 494.7);     // not measured: the datasheet
  CHECK(h200.value("tf32_mma", Ceilings::kDatasheet) == 321);  // only measured
  CHECK(h200.get("tf32_mma").source.find("2026-11-21") != std::string::npos);
}

TEST_CASE("a missing quantity names the device and the quantity, a misspelt device the nearest") {
  CHECK_THROWS_WITH_AS(find_device("rtx-2070").value("tf32"), "NVIDIA GeForce RTX 2070 has no tf32",
                       Unsupported);
  CHECK_THROWS_WITH_AS(find_device("h20"), doctest::Contains("did you mean 'h200'"), Error);
  CHECK_THROWS_WITH_AS(find_device("rtx-4909"), doctest::Contains("did you mean 'rtx-4090'"),
                       Error);
}

TEST_CASE("a sound device file is read as written") {
  const TemporaryFolder folder;
  write_text(folder / "card.toml", kSoundFile);

  const Device device = read_device(folder / "card.toml");

  CHECK(device.name == "card");
  CHECK(device.title == "Test card");
  CHECK(device.aliases == std::vector<std::string>{"card"});
  CHECK(device.generation == "ada");
  CHECK(device.compute_capability == "8.9");
  CHECK(device.measured.empty());
  REQUIRE(device.datasheet.size() == 1);
  CHECK(device.get("fp32").value == 80);
  CHECK(device.get("fp32").unit == "TFLOP/s");
  CHECK(device.get("fp32").source == "a datasheet");
}

TEST_CASE("every mistake in a device file is an error with its place") {
  const struct {
    const char* from;
    const char* to;
    const char* complaint;  // how it starts
  } mistakes[] = {
      {", source = \"a datasheet\"", "", "card.toml:6:8: 'source' is missing"},
      {"\"a datasheet\"", "\"\"", "card.toml:6:49: 'source' has to be text"},
      {"\"a datasheet\"", "7", "card.toml:6:49: 'source' has to be text"},
      {", unit = \"TFLOP/s\"", "", "card.toml:6:8: 'unit' is missing"},
      {"TFLOP/s", "GFLOP/s",
       "card.toml:6:8: fp32 is given in 'GFLOP/s', it has to be in 'TFLOP/s'"},
      {"value = 80, ", "", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"80", "\"80\"", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"80", "0", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"80", "-80.5", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"80", "inf", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"80", "nan", "card.toml:6:8: fp32 needs a positive, finite value"},
      {"{ value = 80, unit = \"TFLOP/s\", source = \"a datasheet\" }", "80",
       "card.toml:6:8: fp32 has to be { value, unit, source }"},
      {"value =", "vlaue =", "card.toml:6:10: unknown key 'vlaue', did you mean 'value'"},
      {"fp32", "fp23", "card.toml:6:1: unknown quantity 'fp23', did you mean 'fp32'"},
      {"[datasheet]", "[datasheets]",
       "card.toml:5:2: unknown key 'datasheets', did you mean 'data"},
      {"[datasheet]\nfp32 = {", "datasheet = 3 #", "card.toml:5:13: [datasheet] has to be a table"},
      {"title", "titel", "card.toml:1:1: unknown key 'titel', did you mean 'title'"},
      {"title = \"Test card\"", "", "card.toml:1:1: 'title' is missing"},
      {"\"8.9\"", "8.9", "card.toml:4:22: 'compute_capability' has to be text"},
      {"\"ada\"", "\"adda\"", "card.toml:3:14: unknown generation 'adda', did you mean 'ada'"},
      {"[\"card\"]", "\"card\"", "card.toml:2:11: 'aliases' has to be a list"},
      {"[\"card\"]", "[\"card\", 4]", "card.toml:2:20: an alias has to be text"},
      {"}\n", "\n", "card.toml:6:"},
      {"[datasheet]", "title = \"twice\"\n[datasheet]", "card.toml:5:"},
  };
  REQUIRE(complaint_about(kSoundFile) == "");
  for (const auto& mistake : mistakes) {
    CAPTURE(std::string(mistake.to));

    const std::string complaint = complaint_about(replaced(kSoundFile, mistake.from, mistake.to));

    CAPTURE(complaint);
    CHECK(complaint.starts_with(mistake.complaint));
  }
  CHECK_THROWS_WITH_AS(read_device("/nowhere/card.toml"), doctest::Contains("/nowhere/card.toml"),
                       Error);
}

TEST_CASE("one broken file among the shipped ones is refused, and so is a name claimed twice") {
  const TemporaryFolder folder;
  const std::filesystem::path shipped = shipped_path("model/devices");
  std::filesystem::copy(shipped, folder.path());
  REQUIRE(read_devices(folder.path()).size() == device_names().size());
  const std::string sound = read_text(folder / "h200.toml");

  write_text(folder / "h200.toml", replaced(sound, "unit = \"GB/s\"", "unit = \"TB/s\""));
  CHECK_THROWS_WITH_AS(read_devices(folder.path()), doctest::Contains("h200.toml:14:18: "), Error);

  write_text(folder / "h200.toml", replaced(sound, "aliases = []", "aliases = [\"h100\"]"));
  CHECK_THROWS_WITH_AS(read_devices(folder.path()), doctest::Contains("'h100' is already that of"),
                       Error);

  write_text(folder / "h200.toml", sound);
  CHECK(read_devices(folder.path()).size() == device_names().size());
}

TEST_CASE("shipped files are searched in TESSERA_HOME first") {
  const TemporaryFolder home;
  std::filesystem::create_directories(home / "model");
  write_text(home / "model/here.txt", "");

  const Outcome found = in_child([&] {
    setenv("TESSERA_HOME", home.path().c_str(), 1);
    fmt::print("{}\n{}\n", shipped_path("model/here.txt"), shipped_path("model/devices"));
    try {
      shipped_path("model/gone.txt");
    } catch (const Unsupported& error) {
      fmt::print("{}\n", error.what());
    }
  });

  CAPTURE(found.output);
  CHECK(found.output.find((home / "model/here.txt") + "\n") != std::string::npos);
  CHECK(found.output.find("\n" TESSERA_SOURCE_DIR "/model/devices\n") != std::string::npos);
  CHECK(found.output.find("model/gone.txt is missing; looked for it at\n  " +
                          (home / "model/gone.txt")) != std::string::npos);
}

}  // namespace
}  // namespace tessera
