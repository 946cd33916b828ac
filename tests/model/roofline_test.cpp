// The roofline: predictions equal those worked out by hand, and move the right way with the work
// and with the device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

// ---------------------------------------------------------------------------------

/// A device with round numbers.
Device toy_device() {
  Device device;
  device.name = "toy";
  device.title = "Toy";
  device.datasheet = {{"dram_bandwidth", {1000, "GB/s", "test"}},
                      {"l2_capacity", {8e6, "bytes", "test"}},
                      {"tf32", {100, "TFLOP/s", "test"}},
                      {"fp32", {10, "TFLOP/s", "test"}}};
  device.measured = {{"dram_bandwidth", {800, "GB/s", "test"}},
                     {"l2_bandwidth", {4000, "GB/s", "test"}},
                     {"tf32_mma", {50, "TFLOP/s", "test"}},
                     {"launch_overhead", {2, "us", "test"}}};
  return device;
}

/// Two thread blocks that ask for 24 MB of 16 MB and multiply on both kinds of core.
WorkDescription toy_work() {
  WorkDescription work;
  work.kernel = "toy";
  work.mma_type = "tf32";
  work.flops_per_mma = 2048;
  work.thread_blocks = {{.mma = 60'000,
                         .fma = 5'000'000,
                         .a_bytes = 2'000'000,
                         .b_bytes = 9'000'000,
                         .c_bytes = 1'000'000},
                        {.mma = 40'000,
                         .fma = 10'000'000,
                         .a_bytes = 4'000'000,
                         .b_bytes = 7'000'000,
                         .c_bytes = 1'000'000}};
  work.footprint_bytes = 6'000'000;
  work.b_rows_bytes = 8'000'000;
  work.c_bytes = 2'000'000;
  return work;
}

Prediction roofline(const WorkDescription& work, const Device& device,
                    const Params::Given& params = {}) {
  return Registry<Model>::instance().make("roofline", params)->predict(work, device);
}

/// Time of a part, or -1 when the prediction has none of that name.
double part_us(const Prediction& prediction, const std::string& name) {
  const auto part = std::ranges::find(prediction.parts, name, &PredictedPart::name);
  return part == prediction.parts.end() ? -1 : part->time_us;
}

TEST_CASE("the roofline's parts are those worked out by hand") {
  const Prediction measured = roofline(toy_work(), toy_device());
  const Prediction datasheet =
      roofline(toy_work(), toy_device(), {{"ceilings", std::string("datasheet")}});

  CHECK(part_us(measured, "DRAM") == doctest::Approx(20));             // 16 MB / 800 GB/s
  CHECK(part_us(measured, "L2") == doctest::Approx(6));                // 24 MB / 4000 GB/s
  CHECK(part_us(measured, "tensor cores") == doctest::Approx(4.096));  // 1e5 x 2048 / 50 TFLOP/s
  CHECK(part_us(measured, "CUDA cores") == doctest::Approx(3));        // 2 x 15e6 / 10 TFLOP/s
  CHECK(part_us(measured, "launch") == doctest::Approx(2));
  CHECK(measured.parts.size() == 5);
  CHECK(measured.time_us == doctest::Approx(20));
  CHECK(measured.bound_by == "DRAM");
  CHECK(measured.parts[0].reason == "16.00 MB at 800 GB/s");
  CHECK(part_us(datasheet, "DRAM") == doctest::Approx(16));             // 16 MB / 1000 GB/s
  CHECK(part_us(datasheet, "tensor cores") == doctest::Approx(2.048));  // at 100 TFLOP/s
  CHECK(part_us(datasheet, "L2") == doctest::Approx(6));                // no datasheet figure
}

TEST_CASE("the roofline names whichever part is slowest") {
  const auto bound_by = [](auto change) {
    WorkDescription work = toy_work();
    change(work);
    return roofline(work, toy_device()).bound_by;
  };

  CHECK(bound_by([](WorkDescription&) {}) == "DRAM");
  CHECK(bound_by([](auto& work) { work.thread_blocks[1].b_bytes = 400'000'000; }) == "L2");
  CHECK(bound_by([](auto& work) { work.thread_blocks[0].mma = 900'000; }) == "tensor cores");
  CHECK(bound_by([](auto& work) { work.thread_blocks[0].fma = 200'000'000; }) == "CUDA cores");
  CHECK(bound_by([](auto& work) { work = {}; }) == "launch");
}

TEST_CASE("operands that fit in a warm L2 cost no DRAM, unless its rate is unknown") {
  WorkDescription fits = toy_work();
  fits.b_rows_bytes = 0;  // 6 + 2 MB: exactly the capacity
  WorkDescription exceeds = fits;
  exceeds.b_rows_bytes = 1;
  Device without_l2_rate = toy_device();
  without_l2_rate.measured.erase("l2_bandwidth");

  CHECK(part_us(roofline(fits, toy_device()), "DRAM") == -1);
  CHECK(roofline(fits, toy_device()).bound_by == "L2");
  CHECK(part_us(roofline(exceeds, toy_device()), "DRAM") == doctest::Approx(10));
  CHECK(part_us(roofline(fits, toy_device(), {{"warm", false}}), "DRAM") == doctest::Approx(10));
  CHECK(part_us(roofline(fits, without_l2_rate), "DRAM") == doctest::Approx(10));
  CHECK(part_us(roofline(fits, without_l2_rate), "L2") == -1);
}

TEST_CASE("the roofline of a CSR kernel on an H200 is that of hardware measured there") {
  WorkDescription work;  // a band of 65,536 rows x 65 nonzeros, N = 128, one B row per nonzero
  const std::int64_t nnz = 65'536 * 65;
  work.thread_blocks = {{.fma = nnz * 128, .b_bytes = nnz * 512}};
  work.footprint_bytes = nnz * 8;
  work.b_rows_bytes = work.c_bytes = 65'536 * 512;

  const Device& h200 = find_device("h200");

  const Prediction prediction = roofline(work, h200);

  // 2.18 GB of B at about 9 TB/s: an operation for every 2 bytes. cuSPARSE reached 3,783 GFLOP/s.
  CHECK(prediction.bound_by == "L2");
  const double gflops = 2.0 * static_cast<double>(nnz) * 128 / (prediction.time_us * 1e3);
  CHECK(gflops == doctest::Approx(h200.value("l2_bandwidth") / 2));
  CHECK(gflops == doctest::Approx(4500).epsilon(0.02));
}

TEST_CASE("tensor cores a device does not have are Unsupported, and only when they are used") {
  WorkDescription cuda_cores_only = toy_work();
  for (ThreadBlockWork& block : cuda_cores_only.thread_blocks) block.mma = 0;
  WorkDescription half = toy_work();
  half.mma_type = "fp16";

  for (const char* turing : {"titan-rtx", "rtx-2070"}) {
    const Device& device = find_device(turing);
    CHECK_THROWS_WITH_AS(roofline(toy_work(), device), (device.title + " has no tf32").c_str(),
                         Unsupported);
    CHECK(roofline(cuda_cores_only, device).time_us > 0);
    CHECK(part_us(roofline(half, device), "tensor cores") > 0);
  }
}

TEST_CASE("more work is never faster, and a faster device never slower") {
  constexpr std::int64_t ThreadBlockWork::*kBlockCounts[] = {
      &ThreadBlockWork::mma, &ThreadBlockWork::fma, &ThreadBlockWork::a_bytes,
      &ThreadBlockWork::b_bytes, &ThreadBlockWork::c_bytes};
  constexpr std::int64_t WorkDescription::*kOperands[] = {
      &WorkDescription::footprint_bytes, &WorkDescription::b_rows_bytes, &WorkDescription::c_bytes};
  std::uint64_t draw = 0;
  const auto random_count = [&] {
    return static_cast<std::int64_t>(std::abs(random_signed(17, draw++)) * 5e6);
  };
  for (const bool warm : {false, true}) {
    for (int trial = 0; trial < 200; ++trial) {
      WorkDescription work = toy_work();
      for (ThreadBlockWork& block : work.thread_blocks)
        for (const auto count : kBlockCounts) block.*count = random_count();
      for (const auto operand : kOperands) work.*operand = random_count();
      const auto time_us = [&](const WorkDescription& of, const Device& on) {
        return roofline(of, on, {{"warm", warm}}).time_us;
      };
      const double before = time_us(work, toy_device());

      for (const auto count : kBlockCounts) {
        WorkDescription more = work;
        more.thread_blocks[trial % 2].*count += random_count();
        CHECK(time_us(more, toy_device()) >= before);
      }
      for (const auto operand : kOperands) {
        WorkDescription more = work;
        more.*operand += random_count();
        CHECK(time_us(more, toy_device()) >= before);
      }
      for (const char* rate : {"dram_bandwidth", "l2_bandwidth", "tf32_mma"}) {
        Device faster = toy_device();
        faster.measured[rate].value *= 2;
        CHECK(time_us(work, faster) <= before);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
