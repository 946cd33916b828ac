// Every format's device half: the bytes of its host half, for any shape.

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/packed_difference.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_permute.hpp"
#include "formats/io/source.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

/// The difference between the bytes that GPU and host pack; empty for none.
std::string fault_of(const Variant& format, const CsrMatrix& matrix, const Format& host) {
  Point point;
  point.backend = "pack_gpu";
  point.task = Packing{{}, format};
  point.measure.warmup = 0;
  point.measure.min_samples = point.measure.max_samples = 1;
  return find_backend("pack_gpu").backend->pack({point, host, matrix}).fault;
}

/// A format whose padding a test can afford.
class SmallFormat final : public Format {
 public:
  explicit SmallFormat(const Variant& format)
      : format_(Registry<Format>::instance().make(format.name, format.params)) {}

 private:
  std::unique_ptr<PackedMatrix> build(const CsrMatrix& matrix, const PackLimits&) const override {
    return format_->pack(matrix, {.bytes = 1 << 28});
  }

  std::unique_ptr<Format> format_;
};

/// Sizes worth trying beside the defaults.
const std::vector<std::pair<std::string, Params::Given>> kSizes{
    {"bcsr", {{"block_rows", std::int64_t{1}}, {"block_cols", std::int64_t{1}}}},
    {"bcsr", {{"block_rows", std::int64_t{3}}, {"block_cols", std::int64_t{5}}}},
    {"bcsr", {{"block_rows", std::int64_t{16}}, {"block_cols", std::int64_t{8}}}},
    {"blocked_ell", {{"block", std::int64_t{3}}}},
    {"tcf", {{"window_rows", std::int64_t{5}}, {"tile_cols", std::int64_t{7}}}},
    {"hrpb", {{"tile_rows", std::int64_t{32}}}},
    {"hrpb", {{"tile_rows", std::int64_t{48}}, {"tile_cols", std::int64_t{12}}}}};

/// Every format that has a device half, as it comes.
std::vector<Variant> device_formats() {
  std::vector<Variant> all;
  for (const std::string& name : Registry<GpuFormat>::instance().names())
    all.push_back({name, Registry<Format>::instance().resolve(name, {})});
  return all;
}

/// With every choice its parameters leave, and other sizes.
std::vector<Variant> device_variants() {
  const auto& formats = Registry<Format>::instance();
  std::vector<Variant> all = device_formats();
  for (const std::string& name : Registry<GpuFormat>::instance().names())
    for (const ParamSpec& param : formats.find(name).params)
      for (const std::string& choice : param.choices)
        all.push_back({name, formats.resolve(name, {{param.name, choice}})});
  for (const auto& [name, sizes] : kSizes) all.push_back({name, formats.resolve(name, sizes)});
  return all;
}

void check_bytes(const CsrMatrix& matrix, const std::vector<Variant>& formats) {
  for (const Variant& format : formats) {
    CAPTURE(to_text(format));
    CAPTURE(matrix.rows);
    CAPTURE(matrix.cols);
    std::string fault;
    try {
      fault = fault_of(format, matrix, SmallFormat(format));
    } catch (const Unsupported&) {
      continue;  // too much padding
    }
    CHECK(fault == "");
  }
}

TEST_CASE("every device builder gives the bytes of its host half for awkward shapes") {
  if (no_gpu()) return;
  REQUIRE(device_formats().size() == Registry<Format>::instance().names().size());

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
                                            {4000, 4000, 0.002},
                                            // The most of few windows, and one more; the most
                                            // of their columns, and one more (few_windows.cuh).
                                            {16384, 90, 0.01},
                                            {16385, 90, 0.01},
                                            {50, 196608, 0.001},
                                            {50, 196609, 0.001}})
    check_bytes(random_sparse(rows, cols, density, 5), device_variants());
}

// A subcase for each format: tests/sanitize_gpu runs them one by one.
TEST_CASE("every device builder keeps explicit zeros, negative zeros and NaN apart from padding") {
  const CsrMatrix full = random_sparse(150, 130, 0.2, 6);
  std::vector<float> values(full.values.begin(), full.values.end());
  for (std::size_t k = 0; k < values.size(); k += 3) values[k] = k % 2 != 0 ? 0.0f : -0.0f;
  values[1] = std::nanf("");
  const CsrMatrix a{full.rows, full.cols, full.row_offsets, full.col_indices, std::move(values)};
  for (const Variant& format : device_formats()) {
    SUBCASE(format.name.c_str()) {
      if (no_gpu()) return;
      std::vector<Variant> variants = device_variants();
      std::erase_if(variants, [&](const Variant& each) { return each.name != format.name; });
      check_bytes(a, variants);
    }
  }
}

TEST_CASE("every device builder gives the bytes of its host half for generated matrices") {
  if (no_gpu()) return;
  for (const char* name : {"rmat(scale=12)", "poisson2d(nx=60, ny=50)", "mycielskian9",
                           "block_random(rows=500, cols=700, block=8, fill=0.5)"}) {
    CAPTURE(name);
    check_bytes(load_matrix(name, false).matrix, device_variants());
  }
}

TEST_CASE("every device builder gives the bytes of its host half for real matrices") {
  if (no_gpu()) return;
  for (const char* name : {"wave", "DD", "cnr-2000", "fb-Cornell5", "mycielskian14", "bcsstk17",
                           "elast-dolphin5K-ref1", "soc-Slashdot0902"}) {
    CAPTURE(name);
    try {
      check_bytes(load_matrix(name).matrix, device_formats());
    } catch (const Unsupported& absent) {
      MESSAGE("skipped: " << absent.what());
      return;
    }
  }
}

/// What is wrong with the matrix packed as mosaic in that order, which is on the device.
std::string fault_in_order(const CsrMatrix& a, const std::vector<std::int32_t>& old_of_new,
                           const Permutation& expected) {
  const DeviceArray<std::int64_t> row_offsets(a.row_offsets);
  const DeviceArray<std::int32_t> col_indices(a.col_indices), order(old_of_new);
  const DeviceArray<float> values(a.values);
  const GpuPermuted in_order(
      {a.rows, a.cols, a.nnz(), row_offsets.data(), col_indices.data(), values.data()},
      order.data(), nullptr);
  const GpuPacked packed =
      Registry<GpuFormat>::instance().make("mosaic")->build(in_order.view(), {}, nullptr);
  return packed_difference(
      packed, *Registry<Format>::instance().make("mosaic")->pack(permute_rows(a, expected)));
}

TEST_CASE("a matrix packed on the GPU in an order that is there has the host's bytes") {
  if (no_gpu()) return;
  for (const auto& [rows, cols, density] : {std::tuple{1, 1, 1.0},
                                            {1, 5000, 0.5},
                                            {5000, 1, 0.5},
                                            {40, 50, 0.0},
                                            {6000, 900, 0.0002},  // most rows are empty
                                            {203, 157, 0.07},
                                            {130, 70000, 0.01},
                                            {20000, 4000, 0.002}}) {
    CAPTURE(rows);
    CAPTURE(cols);
    const CsrMatrix a = random_sparse(rows, cols, density, 9);
    std::vector<std::int32_t> drawn(static_cast<std::size_t>(rows));
    std::iota(drawn.begin(), drawn.end(), 0);
    for (std::int32_t i = rows - 1; i > 0; --i)
      std::swap(drawn[i], drawn[random_bits(10, static_cast<std::uint64_t>(i)) % (i + 1)]);
    const Permutation order(drawn);
    CHECK(fault_in_order(a, drawn, order) == "");
    CHECK(fault_in_order(a, drawn, Permutation::identity(rows)).empty() ==
          (order.is_identity() || a.nnz() == 0));
  }
}

TEST_CASE("a builder that differs in one byte is found out") {
  if (no_gpu()) return;
  const CsrMatrix matrix = random_sparse(100, 90, 0.1, 3);
  std::vector<float> values(matrix.values.begin(), matrix.values.end());
  values[17] = -values[17];
  const CsrMatrix other{matrix.rows, matrix.cols, matrix.row_offsets, matrix.col_indices, values};
  class OtherMatrix final : public Format {
   public:
    explicit OtherMatrix(const CsrMatrix& other) : other_(other) {}

   private:
    std::unique_ptr<PackedMatrix> build(const CsrMatrix&, const PackLimits& limits) const override {
      return Registry<Format>::instance().make("bit_tcf")->pack(other_, limits);
    }
    const CsrMatrix& other_;
  };

  CHECK(fault_of({"bit_tcf", Registry<Format>::instance().resolve("bit_tcf", {})}, matrix,
                 OtherMatrix(other)) == "packed on the GPU, other bytes are in values");
}

}  // namespace
}  // namespace tessera
