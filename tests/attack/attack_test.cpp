// The attack itself: it finds planted faults and reduces them, and its fixed part finds none.

#include "tests/attack/attack.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <set>

#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("no kernel's emulation fails in the attack's first seeds") {
  const Attacked kernels{emulated};
  int compared = 0;
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    const AttackCase drawn = draw_case(seed);
    CAPTURE(seed);
    CAPTURE(describe(drawn));
    const Verdict verdict = attack(drawn, kernels);
    CHECK(verdict.reason == "");
    compared += verdict.compared;
    seen.insert(drawn.choice.kernel);
  }
  CHECK(compared > 5000);
  for (const Choice& choice : kernel_choices()) CHECK(seen.contains(choice.kernel));
}

TEST_CASE("saved cases of the attack stay right") {
  const std::filesystem::path folder =
      std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/attack/cases";
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CAPTURE(entry.path().string());
    CHECK(attack(load_case(entry.path()), {emulated}).reason == "");
    ++replayed;
  }
  CHECK(replayed > 0);
}

/// The first drawn case of at least 20 nonzeros that fails with the double.
AttackCase first_failing(const Attacked& kernels, const std::string& fault) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const AttackCase drawn = draw_case(seed);
    if (drawn.a.nnz() >= 20 && attack(drawn, kernels).fault == fault) return drawn;
  }
  FAIL("no case fails");
  return {};
}

void check_found(const Attacked& kernels, const std::string& fault, std::int64_t most_nonzeros) {
  const AttackCase failing = first_failing(kernels, fault);
  const AttackCase least = shrunk(failing, kernels);
  CAPTURE(describe(failing));
  CAPTURE(describe(least));
  CHECK(least.a.nnz() <= most_nonzeros);
  CHECK(least.a.rows <= 2);
  CHECK(least.b.cols == 1);

  const TemporaryFolder folder;
  save_case(least, folder / "least.json");
  const AttackCase loaded = load_case(folder / "least.json");
  CHECK(loaded.a == least.a);
  CHECK(describe(loaded) == describe(least));
  CHECK(attack(loaded, kernels).fault == fault);
  CHECK(attack(loaded, {emulated}).reason == "");
}

TEST_CASE("the attack finds an emulation that loses a nonzero, and reduces the case to a few") {
  const auto loses_last = [](const AttackCase& given) {
    AttackCase without = given;
    std::vector<float> values(given.a.values.begin(), given.a.values.end());
    if (!values.empty()) values.back() = 0;
    without.a.values = std::move(values);
    return emulated(without);
  };
  check_found({loses_last}, "value", 3);
}

TEST_CASE("the attack finds a NaN where none may be") {
  const auto gives_nan = [](const AttackCase& given) {
    DenseMatrix c = emulated(given);
    if (!c.values.empty() && given.a.nnz() >= 2)
      c.values.back() = std::numeric_limits<float>::quiet_NaN();
    return c;
  };
  check_found({gives_nan}, "value", 2);
}

TEST_CASE("the attack finds a finite number where a NaN has to be") {
  const auto hides_nan = [](const AttackCase& given) {
    DenseMatrix c = emulated(given);
    const bool in_b = std::ranges::any_of(given.b.values, [](float x) { return std::isnan(x); });
    for (float& value : c.values)
      if (in_b && std::isnan(value)) value = 0;
    return c;
  };
  check_found({hides_nan}, "value", 2);
}

/// A of one row, whose only nonzero does not meet the infinity in B.
AttackCase beside_an_infinity(const char* kernel) {
  AttackCase given;
  given.choice.kernel = kernel;
  given.a = {1, 2, std::vector<std::int64_t>{0, 1}, std::vector<std::int32_t>{0},
             std::vector<float>{1}};
  given.b = DenseMatrix(2, 1, std::numeric_limits<float>::infinity());
  given.b.at(0, 0) = 3;
  return given;
}

TEST_CASE("the attack excuses a NaN beside an infinity on tensor cores, and not in FP32") {
  const auto gives_nan = [](const AttackCase&) {
    return DenseMatrix(1, 1, std::numeric_limits<float>::quiet_NaN());
  };
  CHECK(attack(beside_an_infinity("csr_spmm"), {gives_nan}).fault == "value");
  CHECK(attack(beside_an_infinity("acc_spmm"), {gives_nan}).fault == "");
  AttackCase finite = beside_an_infinity("acc_spmm");
  finite.b.at(1, 0) = 2;
  CHECK(attack(finite, {gives_nan}).fault == "value");
}

TEST_CASE("the bound of additions in memory covers subnormals that they flush, and no others") {
  AttackCase given = beside_an_infinity("shares_spmm");
  given.b.values = {0x1p-130f, 0};
  const auto flushes = [](const AttackCase&) { return DenseMatrix(1, 1, 0); };
  CHECK(attack(given, {flushes}).fault == "");
  given.b.at(0, 0) = 0x1p-120f;
  CHECK(attack(given, {flushes}).fault == "value");
  given = beside_an_infinity("csr_spmm");
  given.b.values = {0x1p-130f, 0};
  CHECK(attack(given, {flushes}).fault == "value");
}

TEST_CASE(
    "the attack finds one flipped bit of a launch, an unwritten element and a touched guard") {
  LaunchOutput change;
  const auto launch = [&](const AttackCase& given) {
    LaunchOutput output{scaled_products(given, emulated(given)).front(), change.unwritten,
                        change.guards_intact};
    return output;
  };
  const auto flips = [&](const AttackCase& given) {
    LaunchOutput output = launch(given);
    float& last = output.c.values.back();
    if (given.a.nnz() >= 2) last = std::bit_cast<float>(std::bit_cast<std::uint32_t>(last) ^ 1u);
    return output;
  };
  AttackCase small = draw_case(0);
  for (std::uint64_t seed = 1; small.a.nnz() < 2 || !attack(small, {emulated}).compared;)
    small = draw_case(seed++);

  CHECK(attack(small, {emulated, launch, "hopper"}).reason == "");
  check_found({emulated, flips, "hopper"}, "launch", 2);
  change.unwritten = 1;
  CHECK(attack(small, {emulated, launch, "hopper"}).fault == "launch");
  change.unwritten = 0;
  change.guards_intact = false;
  CHECK(attack(small, {emulated, launch, "hopper"}).fault == "launch");
}

TEST_CASE("the attack finds an element that alpha and beta do not scale") {
  Attacked kernels{emulated};
  kernels.scale = [](const AttackCase& given, const DenseMatrix& product) {
    std::vector<DenseMatrix> results = scaled_products(given, product);
    if (given.scaling != Scaling{} && given.a.nnz() >= 2)
      for (DenseMatrix& c : results) c.values.back() = product.values.back();
    return results;
  };
  check_found(kernels, "scaling", 2);
}

TEST_CASE("an infinite element of A B stays infinite when it is scaled") {
  AttackCase given = beside_an_infinity("csr_spmm");
  given.b.at(0, 0) = std::numeric_limits<float>::infinity();
  for (const char* kernel : {"csr_spmm", "shares_spmm"}) {
    given.choice.kernel = kernel;
    CHECK(attack(given, {emulated}).fault == "");
    Attacked kernels{emulated};
    kernels.scale = [](const AttackCase&, const DenseMatrix&) {
      return std::vector<DenseMatrix>{DenseMatrix(1, 1, 5)};
    };
    CHECK(attack(given, kernels).fault == "scaling");
  }
}

TEST_CASE("a launch may add two parts of a sum to beta C in either order, and nothing else") {
  AttackCase given;
  given.choice = {"shares_spmm", {{"thread_blocks", std::int64_t{2}}}};
  given.scaling = {-1.7f, 0.3f};
  given.a = random_sparse(20, 90, 0.3, 81);
  given.b = random_dense(90, 24, 82);
  const std::vector<DenseMatrix> orders = scaled_products(given, emulated(given));
  REQUIRE(orders.size() == 2);
  const std::int64_t between = compare_bits(orders[0], orders[1]).different;
  CHECK(between > 10);
  CHECK(between <= 8 * 24);  // one window is split

  DenseMatrix c = orders[0];
  const auto launch = [&](const AttackCase&) { return LaunchOutput{c}; };
  const auto fault = [&] { return attack(given, {emulated, launch, "hopper"}).fault; };
  CHECK(fault() == "");
  c = orders[1];
  CHECK(fault() == "");
  for (std::size_t i = 0; i < c.values.size(); i += 2) c.values[i] = orders[0].values[i];
  CHECK(fault() == "");
  // The bits of a kernel that adds up before it scales.
  c = emulate_scaling(given.scaling, emulated(given), given.old_c());
  CHECK(fault() == "launch");
  c = orders[1];
  c.values[5] = std::nextafter(std::max(orders[0].values[5], orders[1].values[5]), 1e30f);
  CHECK(fault() == "launch");
}

// What the device test of this matrix said at b10db3c, whose emulation added up before it scaled.
TEST_CASE("the bits that an H200 left of two shares are those of the later one added first") {
  AttackCase given;
  given.choice = {"shares_spmm", {{"thread_blocks", std::int64_t{2}}}};
  given.scaling = {0.5f, -2.0f};
  given.a = uneven_matrix();
  given.b = random_dense(157, 64, 3);
  const DenseMatrix product = emulated(given);
  const std::vector<DenseMatrix> orders = scaled_products(given, product);
  const DenseMatrix added_first = emulate_scaling(given.scaling, product, given.old_c());
  REQUIRE(orders.size() == 2);
  CHECK(compare_bits(orders[0], added_first).different == 80);
  const BitComparison bits = compare_bits(orders[1], added_first);
  CHECK(bits.compared == 5312);
  CHECK(bits.different == 78);
  REQUIRE(bits.first.has_value());
  CHECK(bits.first->row == 26);
  CHECK(bits.first->col == 1);
  CHECK(orders[1].at(26, 1) == -0.9961004853248596f);
  CHECK(added_first.at(26, 1) == -0.9961004257202148f);
}

TEST_CASE("a seed of the attack always gives the same case, and seeds differ") {
  CHECK(describe(draw_case(7)) == describe(draw_case(7)));
  CHECK(draw_case(7).a == draw_case(7).a);
  std::set<std::string> cases;
  for (std::uint64_t seed = 0; seed < 50; ++seed) cases.insert(describe(draw_case(seed)));
  CHECK(cases.size() >= 48);
}

TEST_CASE("a saved case that is damaged is refused with its file") {
  const TemporaryFolder folder;
  AttackCase drawn = draw_case(3);
  drawn.b.values.pop_back();
  save_case(drawn, folder / "short.json");
  CHECK_THROWS_WITH_AS(load_case(folder / "short.json"), doctest::Contains("short.json: B has"),
                       Error);
  CHECK_THROWS_WITH_AS(load_case(folder / "none.json"), doctest::Contains("cannot be read"), Error);
}

}  // namespace
}  // namespace tessera
