// The checks of C, both ways: a planted fault of every kind is caught and named, a right result
// passes.
#include "experiments/backends/check_result.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "experiments/config/plan.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/csr.hpp"
#include "formats/io/source.hpp"
#include "oracle/spmm_oracle.hpp"
#include "reorder/reordering.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const Generation& hopper() { return find_generation("hopper"); }

CsrMatrix scaled(CsrMatrix matrix, float scale) {
  std::vector<float> values(matrix.values.begin(), matrix.values.end());
  for (float& value : values) value *= scale;
  matrix.values = std::move(values);
  return matrix;
}

/// A product in an order of its own, computed by a kernel's emulation.
struct Product {
  explicit Product(const std::string& kernel_name, float scale = 1,
                   const Params::Given& params = {})
      : a(scaled(random_sparse(70, 50, 0.2, 1), scale)),
        kernel(Registry<SpmmKernel>::instance().make(kernel_name, params)),
        packed(Registry<Format>::instance().make(kernel->format())->pack(permute_rows(a, rows))),
        c(permute_rows(kernel->emulate(*packed, b, hopper()), rows.inverse())) {}

  CheckedResult check(const DenseMatrix& result, bool against_fp32 = false) const {
    return check_result(a, b, result, {*kernel, *packed, rows, generation}, against_fp32);
  }

  CsrMatrix a;
  DenseMatrix b = random_dense(50, 20, 2);
  Permutation rows = [] {
    std::vector<std::int32_t> old_of_new(70);
    for (std::int32_t p = 0; p < 70; ++p) old_of_new[p] = (p * 27 + 5) % 70;
    return Permutation(old_of_new);
  }();
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;
  DenseMatrix c;  // rows in the order of a
  std::string generation = "hopper";
};

std::int32_t new_place(const Permutation& rows, std::int32_t row) {
  return rows.inverse().old_of_new()[row];
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a right result passes the check, whatever kernel and order it is from") {
  for (const char* name : {"csr_spmm", "acc_spmm"}) {
    CAPTURE(name);
    const Product product(name);

    const CheckedResult checked = product.check(product.c);

    CHECK(checked.reason == "");
    CHECK(checked.check->compared == 70 * 20);
    CHECK(checked.check->beyond_bound == 0);
    CHECK(checked.check->non_finite == 0);
    CHECK(checked.check->bound_ratio > 0);
    CHECK(checked.check->bound_ratio <= 1);
    CHECK(checked.check->worst->bound > 0);
  }
}

TEST_CASE("one wrong value is caught, with its element, its tile and both numbers") {
  for (const char* name : {"csr_spmm", "acc_spmm"}) {
    CAPTURE(name);
    const Product product(name);
    DenseMatrix c = product.c;
    const float right = c.at(43, 17);
    c.at(43, 17) += 0.25f;

    const CheckedResult checked = product.check(c);

    CHECK(checked.check->beyond_bound == 1);
    CHECK(checked.check->bound_ratio > 1);
    const Json worst = to_json(*checked.check)["worst"];
    CHECK(worst["row"] == 43);
    CHECK(worst["col"] == 17);
    CHECK(worst["computed"].get<double>() == doctest::Approx(right + 0.25));
    CHECK(worst["expected"].get<double>() == doctest::Approx(right).epsilon(0.01));
    CHECK(worst["tile"] == product.packed->locate(new_place(product.rows, 43)));
    CHECK(contains(checked.reason, "1 of 1400 elements are beyond the error bound"));
    CHECK(contains(checked.reason, "worst: C[43][17]"));
    CHECK(contains(checked.reason, worst["tile"].get<std::string>()));
  }
}

TEST_CASE("a fault on tensor cores is traced to the MMA step at which its row's sum begins") {
  const Product product("acc_spmm");
  const std::int32_t place = new_place(product.rows, 43);
  const auto& packed = packed_as<BitTcf>(*product.packed);
  const std::uint32_t begin = packed.row_window_offset[place / 8];
  std::uint32_t first = begin;  // TC block with the row's first nonzero
  while ((packed.tc_local_bit[first] >> (place % 8 * 8) & 0xff) == 0) ++first;
  DenseMatrix c = product.c;
  c.at(43, 17) += 0.25f;

  const std::string reason = product.check(c).reason;

  CHECK(contains(reason, "C[43][17]"));
  CHECK(contains(reason, fmt::format("row window {} (row {} of it)", place / 8, place % 8)));
  CHECK(contains(reason,
                 fmt::format("TC block {}, MMA step {} of the window", first, first - begin)));
}

TEST_CASE("a record holds the measures of the oracle, distributions as arrays") {
  const Product product("acc_spmm");
  const ErrorBound bound{std::vector<double>(70, 1), std::vector<double>(70, 1)};

  const Json fields = to_json(*product.check(product.c, true).check);
  const ProductErrors errors = compare_spmm(product.a, product.b, product.c, bound, true);

  CHECK(fields["smape_pct"] == errors.smape_pct);
  CHECK(fields["smape_common_pct"] == 2 * errors.smape_pct);
  CHECK(fields["smape_fp32_pct"] == *errors.smape_fp32_pct);
  CHECK(fields["backward_error"] == errors.backward_error.max);
  CHECK(fields["backward_error_mean"] == errors.mean_backward_error);
  CHECK(fields["backward_error_p50"] == errors.backward_error.p50);
  CHECK(fields["backward_error_p95"] == errors.backward_error.p95);
  CHECK(fields["backward_error_p99"] == errors.backward_error.p99);
  CHECK(fields["normwise_backward_error"] == errors.normwise_backward_error);
  CHECK(fields["signed_bias"] == errors.signed_bias);
  CHECK(fields["condition_geomean"] == errors.condition_geomean);
  CHECK(fields["condition_p50"] == errors.condition.p50);
  CHECK(fields["condition_max"] == errors.condition.max);
  CHECK(fields["overflows"] == 0);
  CHECK(fields["underflows"] == errors.underflows);
  const Json& histogram = fields["ulp_histogram"];
  REQUIRE(histogram["count"].size() == histogram["upper_ulp"].size());
  CHECK(histogram["upper_ulp"][1] == 0.5);
  CHECK(histogram["count"].back() > 0);
  const auto counts = histogram["count"].get<std::vector<std::int64_t>>();
  CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 1400);
  const Json& table = fields["by_condition"];
  REQUIRE(table["count"].size() >= 2);
  CHECK(table["condition_from"][0] == 1);
  CHECK(table["condition_from"][1] == 10);
  CHECK(table["count"][0] == errors.by_condition[0].count);
  CHECK(table["median_rel"][0] == errors.by_condition[0].median_relative);
  CHECK(table["max_rel"][0] == errors.by_condition[0].max_relative);
  CHECK(table["median_backward_error"][0] == errors.by_condition[0].median_backward);
  CHECK_FALSE(product.check(product.c).check->smape_fp32_pct.has_value());
}

TEST_CASE("products in the subnormal range are checked, too: flushed to zero they are wrong") {
  // At 2^-140 a TF32 operand has no bit left, and the bound says so.
  for (const auto& [name, scale] :
       {std::pair{"csr_spmm", 0x1p-126f}, {"csr_spmm", 0x1p-140f}, {"acc_spmm", 0x1p-126f}}) {
    CAPTURE(name);
    CAPTURE(scale);
    const Product product(name, scale);
    DenseMatrix flushed = product.c;
    for (float& value : flushed.values)
      if (std::abs(value) < 0x1p-126f) value = 0;

    CHECK(product.check(product.c).reason == "");
    CHECK(product.check(flushed).reason != "");
  }
}

TEST_CASE("of several wrong values the worst is named, and one that is no number before all") {
  const Product product("csr_spmm");
  DenseMatrix c = product.c;
  c.at(3, 0) += 0.001f;
  c.at(66, 19) += 3.0f;

  CHECK(product.check(c).check->worst->row == 66);

  c.at(9, 4) = std::numeric_limits<float>::quiet_NaN();
  const CheckedResult checked = product.check(c);
  CHECK(checked.check->worst->row == 9);
  CHECK(checked.check->worst->col == 4);
  CHECK(checked.check->worst->computed == NumberOrText("nan"));
  CHECK(checked.check->non_finite == 1);
  CHECK(contains(checked.reason, "3 of 1400 elements"));
}

TEST_CASE("a wrong column index in the packed matrix is caught, in the rows that read it") {
  const Product product("acc_spmm");
  BitTcf broken(product.a.rows, product.a.cols, product.a.nnz());
  const auto& whole = packed_as<BitTcf>(*product.packed);
  broken.row_window_offset = whole.row_window_offset;
  broken.tc_offset = whole.tc_offset;
  broken.sparse_a_to_b = whole.sparse_a_to_b;
  broken.tc_local_bit = whole.tc_local_bit;
  broken.values = whole.values;
  std::int32_t& index = broken.sparse_a_to_b[8 * whole.row_window_offset[5]];
  index = (index + 1) % product.a.cols;

  const DenseMatrix c =
      permute_rows(product.kernel->emulate(broken, product.b, hopper()), product.rows.inverse());
  const CheckedResult checked = product.check(c);

  CHECK(checked.check->beyond_bound >= 20);
  CHECK(contains(checked.check->worst->tile, "row window 5 "));
  CHECK(contains(checked.reason, "row window 5 "));
}

TEST_CASE("a result in the order of the packed matrix is not taken for one in the file's") {
  const Product product("csr_spmm");

  const CheckedResult checked = product.check(permute_rows(product.c, product.rows));

  CHECK(checked.reason != "");
}

TEST_CASE("an error just within the bound passes and one just beyond it does not") {
  const Product product("acc_spmm");
  const Json worst = to_json(*product.check(product.c).check)["worst"];
  const auto row = worst["row"].get<std::int64_t>(), col = worst["col"].get<std::int64_t>();
  const double expected = worst["expected"], bound = worst["bound"];
  DenseMatrix within = product.c, beyond = product.c;
  within.at(row, col) = static_cast<float>(expected + 0.99 * bound);
  beyond.at(row, col) = static_cast<float>(expected + 1.01 * bound);

  CHECK(product.check(within).reason == "");
  CHECK(product.check(beyond).check->beyond_bound == 1);
}

TEST_CASE("with C in 16 bits a rounded result passes, and one some places away does not") {
  for (const char* name : {"tessera_spmm", "rows_spmm"}) {
    for (const char* storage : {"fp16", "bf16"}) {
      CAPTURE(name);
      CAPTURE(storage);
      const Product product(name, 1, {{"storage", std::string(storage)}});
      const ElementType type = element_type(storage);
      const DenseMatrix right = stored_as(type, product.c);
      CHECK(product.check(right).reason == "");
      // A place in FP16 is 2^-10 of a value, in BF16 2^-7: the bound allows for one rounding.
      DenseMatrix wrong = right;
      const std::size_t largest =
          std::ranges::max_element(wrong.values, {}, [](float v) { return std::abs(v); }) -
          wrong.values.begin();
      wrong.values[largest] = rounded_to(
          type, wrong.values[largest] * static_cast<float>(1 + 16 * rounding_error(type)));
      CHECK(contains(product.check(wrong).reason, "C["));
      // Infinity is right beyond FP16's range alone.
      wrong = right;
      wrong.values[largest] = std::numeric_limits<float>::infinity();
      CHECK(product.check(wrong).reason != "");
    }
  }
}

TEST_CASE(
    "sums beyond the range of FP16 are right as infinities, and wrong as its largest number") {
  const Product product("rows_spmm", 60000, {{"storage", std::string("fp16")}});
  const DenseMatrix right = stored_as(ElementType::kFp16, product.c);
  const auto overflown = std::ranges::find_if(right.values, [](float v) { return std::isinf(v); });
  REQUIRE(overflown != right.values.end());
  CHECK(product.check(right).reason == "");
  DenseMatrix wrong = right;
  // Far beyond the range: no rounding makes it a number.
  const std::size_t farthest =
      std::ranges::max_element(product.c.values, {}, [](float v) { return std::abs(v); }) -
      product.c.values.begin();
  REQUIRE(std::abs(product.c.values[farthest]) > 70000);
  wrong.values[farthest] = std::copysign(65504.0f, product.c.values[farthest]);
  CHECK(product.check(wrong).reason != "");
}

TEST_CASE("a matrix without rows has nothing to be wrong") {
  const CsrMatrix a{0, 5, std::vector<std::int64_t>{0}, {}, {}};
  const auto kernel = Registry<SpmmKernel>::instance().make("csr_spmm");
  const auto packed = Registry<Format>::instance().make("csr")->pack(a);

  const CheckedResult checked = check_result(a, random_dense(5, 3, 4), DenseMatrix(0, 3),
                                             {*kernel, *packed, Permutation::identity(0), "ada"});

  CHECK(checked.reason == "");
  CHECK(checked.check->compared == 0);
}

TEST_CASE("a single flipped bit is found against the emulation, though it is within the bound") {
  const Product product("acc_spmm");
  DenseMatrix c = product.c;
  c.at(12, 7) = std::bit_cast<float>(std::bit_cast<std::uint32_t>(c.at(12, 7)) ^ 1u);

  const BitComparison same = compare_bits(product.c, product.c);
  const BitComparison flipped = compare_bits(c, product.c);

  CHECK(product.check(c).reason == "");
  CHECK(to_json(same) == Json{{"compared", 1400}, {"different", 0}});
  CHECK(launch_fault(0, true, same) == "");
  CHECK(flipped.different == 1);
  CHECK(flipped.first->row == 12);
  CHECK(flipped.first->col == 7);
  CHECK(contains(launch_fault(0, true, flipped), "1 of 1400 elements differ from the emulation"));
  CHECK(contains(launch_fault(0, true, flipped), "row 12, column 7"));
}

TEST_CASE("bits tell zeros by their sign and NaNs by their payload") {
  DenseMatrix c(1, 3), expected(1, 3);
  expected.at(0, 1) = -0.0f;
  c.at(0, 2) = std::bit_cast<float>(kPoison);
  expected.at(0, 2) = std::bit_cast<float>(0x7fffffffu);

  const Json bits = compare_bits(c, expected);

  CHECK(bits["different"] == 2);
  CHECK(bits["first"]["col"] == 1);
  CHECK_THROWS_WITH_AS(compare_bits(c, DenseMatrix(3, 1)), "C is 1 x 3, its emulation 3 x 1",
                       Error);
}

TEST_CASE("different bits are counted, and the first is found, wherever they are in a large C") {
  const DenseMatrix expected = random_dense(3 << 15, 64, 7);  // three parts of the comparison
  DenseMatrix c = expected;
  CHECK(compare_bits(c, expected).different == 0);
  for (const std::int64_t row : {(2 << 15) + 9, (1 << 15) - 1 + (1 << 15), (3 << 15) - 1})
    c.at(row, 5) = -c.at(row, 5);

  const BitComparison bits = compare_bits(c, expected);

  CHECK(bits.different == 3);
  REQUIRE(bits.first);
  CHECK(bits.first->row == (1 << 15) - 1 + (1 << 15));
  CHECK(bits.first->col == 5);
}

/// The memory of a launch that wrote all of C and nothing else.
std::vector<float> written_memory(const DenseMatrix& c, std::size_t guard) {
  std::vector<float> memory(c.values.size() + 2 * guard, std::bit_cast<float>(kPoison));
  std::copy(c.values.begin(), c.values.end(), memory.begin() + static_cast<std::ptrdiff_t>(guard));
  return memory;
}

TEST_CASE("C is read back from between its guards, and nothing is wrong with it") {
  DenseMatrix c = random_dense(6, 9, 5);
  c.at(2, 2) = std::bit_cast<float>(0x7fffffffu);  // the NaN of the hardware is a result

  const LaunchOutput output = read_output(written_memory(c, 16), 16, 6, 9);

  CHECK(compare_bits(output.c, c).different == 0);
  CHECK(output.unwritten == 0);
  CHECK(output.guards_intact);
  CHECK(launch_fault(output.unwritten, output.guards_intact, {}) == "");
  CHECK_THROWS_AS(read_output(written_memory(c, 16), 16, 6, 8), Error);
}

TEST_CASE("elements a launch left unwritten are counted") {
  const DenseMatrix c = random_dense(6, 9, 5);
  std::vector<float> memory = written_memory(c, 16);
  memory[16] = memory[16 + 53] = std::bit_cast<float>(kPoison);

  const LaunchOutput output = read_output(memory, 16, 6, 9);

  CHECK(output.unwritten == 2);
  CHECK(output.guards_intact);
  CHECK(launch_fault(output.unwritten, true, {}) == "2 elements of C were never written");
}

TEST_CASE("a write outside C is caught on either side, at either end of a guard") {
  const DenseMatrix c = random_dense(6, 9, 5);
  for (const std::size_t place : {0, 15, 16 + 54, 2 * 16 + 54 - 1}) {
    CAPTURE(place);
    std::vector<float> memory = written_memory(c, 16);
    memory[place] = 0;

    const LaunchOutput output = read_output(memory, 16, 6, 9);

    CHECK_FALSE(output.guards_intact);
    CHECK(output.unwritten == 0);
    CHECK(launch_fault(0, output.guards_intact, {}) == "the kernel wrote outside C");
  }
}

TEST_CASE("a check reports every fault of a launch") {
  CHECK(launch_fault(3, false, BitComparison{9, 0, {}}) ==
        "the kernel wrote outside C; 3 elements of C were never written");
}

/// The plain kernel, until a test plants a fault in its result.
std::function<void(DenseMatrix&)> planted_fault;

class PlantedSpmm final : public SpmmKernel {
 public:
  std::string format() const override { return plain_->format(); }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return plain_->arithmetic(); }
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    return plain_->terms_per_row(packed);
  }
  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    DenseMatrix c = plain_->emulate(packed, b, generation);
    if (planted_fault) planted_fault(c);
    return c;
  }

 private:
  std::unique_ptr<SpmmKernel> plain_ = Registry<SpmmKernel>::instance().make("csr_spmm");
};

const Register<SpmmKernel> planted_spmm{{
    .name = "planted_spmm",
    .summary = "csr_spmm with planted faults, for the tests of the check",
    .make = [](const Params&) { return std::make_unique<PlantedSpmm>(); },
}};

Json record_of(const std::function<void(DenseMatrix&)>& fault, const std::string& extra = "") {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n[grid]\n"
             "matrix = \"uniform(rows=40, cols=40, density=0.2, seed=9)\"\n"
             "kernel = \"planted_spmm\"\nreorder = \"degree\"\nn = 8\n" +
                 extra);
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  planted_fault = fault;
  const Json record =
      PointRunner().run(make_plan(load_config(folder / "c.toml")).entries.at(0).point).record;
  planted_fault = nullptr;
  return record;
}

TEST_CASE(
    "a point whose result is wrong gets a record that says so, and one that is right does not") {
  const auto fault = [](DenseMatrix& c) { c.at(11, 5) += 0.5f; };
  std::int32_t row = -1;  // of the file, at place 11 of the order

  const Json right = record_of(nullptr), wrong = record_of(fault);
  {
    const CsrMatrix a = load_matrix("uniform(rows=40, cols=40, density=0.2, seed=9)", false).matrix;
    row = Registry<Reordering>::instance().make("degree")->order(a).rows.old_of_new()[11];
  }

  CHECK(right["status"] == "ok");
  CHECK(right["check"]["compared"] == 320);
  CHECK(wrong["status"] == "wrong");
  CHECK(wrong["check"]["worst"]["row"] == row);
  CHECK(wrong["check"]["worst"]["col"] == 5);
  CHECK(contains(wrong["reason"], fmt::format("C[{}][5]", row)));
  CHECK(wrong["point_id"] == right["point_id"]);
}

TEST_CASE("a runner that keeps the truth of A and B checks all points as one that does not") {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n[grid]\n"
             "matrix = [\"uniform(rows=40, cols=40, density=0.2, seed=9)\", "
             "\"uniform(rows=40, cols=40, density=0.2, seed=10)\"]\n"
             "kernel = [\"csr_spmm\", \"acc_spmm\"]\nreorder = [\"none\", \"degree\"]\n"
             "n = [8, 9]\nvalues = [\"random\", \"normal\"]\n");
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  const Plan plan = make_plan(load_config(folder / "c.toml"));
  REQUIRE(plan.entries.size() == 32);
  PointRunner keeping({.keeps_truth = true}), plain;

  for (const PlanEntry& entry : plan.entries) {
    const Json kept = keeping.run(entry.point).record, made = plain.run(entry.point).record;
    CAPTURE(made["params"].dump());
    CHECK(kept["status"] == "ok");
    CHECK(kept["check"] == made["check"]);
  }
}

TEST_CASE("a check that is switched off is not made") {
  const auto fault = [](DenseMatrix& c) { c.at(11, 5) += 0.5f; };

  const Json record = record_of(fault, "[check]\nenabled = false\n");

  CHECK(record["status"] == "ok");
  CHECK_FALSE(record.contains("check"));
}

}  // namespace
}  // namespace tessera
