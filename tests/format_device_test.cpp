// Every format's device half: the bytes of its host half, for any shape.

#include <doctest/doctest.h>

#include "experiments/gpu_info.hpp"
#include "experiments/gpu_packing.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu_format.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

MeasureRule once() {
  MeasureRule rule;
  rule.warmup = 0;
  rule.min_samples = rule.max_samples = 1;
  return rule;
}

/// Every format that has a device half, with every choice its parameters leave.
std::vector<Variant> device_formats() {
  const auto& formats = Registry<Format>::instance();
  std::vector<Variant> all;
  for (const std::string& name : Registry<GpuFormat>::instance().names()) {
    all.push_back({name, formats.resolve(name, {})});
    for (const ParamSpec& param : formats.find(name).params)
      for (const std::string& choice : param.choices)
        all.push_back({name, formats.resolve(name, {{param.name, choice}})});
  }
  return all;
}

void check_bytes(const CsrMatrix& matrix) {
  for (const Variant& format : device_formats()) {
    CAPTURE(to_text(format));
    CAPTURE(matrix.rows);
    CAPTURE(matrix.cols);
    const auto packed = Registry<Format>::instance().make(format.name, format.params)->pack(matrix);

    const GpuPacking gpu = pack_on_gpu(format, matrix, *packed, once());

    CHECK(gpu.different == std::vector<std::string>{});
  }
}

TEST_CASE("every device builder gives the bytes of its host half for awkward shapes") {
  if (no_gpu()) return;
  REQUIRE(device_formats().size() >= 1);

  for (const auto& [rows, cols, density] : {std::tuple{1, 1, 1.0},
                                            {8, 8, 1.0},
                                            {9, 17, 0.4},
                                            {1, 5000, 0.5},
                                            {5000, 1, 0.5},
                                            {40, 50, 0.0},
                                            {64, 64, 0.02},
                                            {203, 157, 0.07},
                                            {130, 70000, 0.01},
                                            {20, 600000, 0.003},
                                            {4000, 4000, 0.002}})
    check_bytes(random_sparse(rows, cols, density, 5));
}

TEST_CASE("every device builder gives the bytes of its host half for generated matrices") {
  if (no_gpu()) return;
  for (const char* name : {"rmat(scale=12)", "poisson2d(nx=60, ny=50)", "mycielskian9",
                           "block_random(rows=500, cols=700, block=8, fill=0.5)"}) {
    CAPTURE(name);
    check_bytes(load_matrix(name, false).matrix);
  }
}

TEST_CASE("every device builder gives the bytes of its host half for real matrices") {
  if (no_gpu()) return;
  for (const char* name : {"wave", "DD", "cnr-2000", "fb-Cornell5", "mycielskian14", "bcsstk17",
                           "elast-dolphin5K-ref1", "soc-Slashdot0902"}) {
    CAPTURE(name);
    try {
      check_bytes(load_matrix(name).matrix);
    } catch (const Unsupported& absent) {
      MESSAGE("skipped: " << absent.what());
      return;
    }
  }
}

TEST_CASE("a builder that differs in one byte is found out") {
  if (no_gpu()) return;
  const CsrMatrix matrix = random_sparse(100, 90, 0.1, 3);
  std::vector<float> values(matrix.values.begin(), matrix.values.end());
  values[17] = -values[17];
  const CsrMatrix other{matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, values};
  const auto& formats = Registry<Format>::instance();
  const auto expected = formats.make("bit_tcf")->pack(other);

  const GpuPacking gpu =
      pack_on_gpu({"bit_tcf", formats.resolve("bit_tcf", {})}, matrix, *expected, once());

  CHECK(gpu.different == std::vector<std::string>{"values"});
}

}  // namespace
}  // namespace tessera
