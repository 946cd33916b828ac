// The host half of flash_spmm: every option against its definition, element by element, from A.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/vector_tiles/vector_tiles.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A precision and the vectors of its MMAs.
struct Mma {
  const char* precision;
  std::int64_t depth;
};
const std::vector<Mma> kMmas{{"tf32", 4}, {"tf32", 8}, {"fp16", 8}, {"fp16", 16}};

std::unique_ptr<SpmmKernel> kernel_of(const Mma& mma, Params::Given params = {}) {
  params["precision"] = std::string(mma.precision);
  return Registry<SpmmKernel>::instance().make("flash_spmm", params);
}

std::unique_ptr<PackedMatrix> pack(const CsrMatrix& a, const Mma& mma) {
  return Registry<Format>::instance().make("me_bcrs", {{"tile_cols", mma.depth}})->pack(a);
}

/// Columns that the eight rows around row i have.
std::vector<std::int32_t> active_cols(const CsrMatrix& a, std::int64_t i) {
  std::set<std::int32_t> cols;
  for (std::int64_t row = i / 8 * 8; row < std::min<std::int64_t>(i / 8 * 8 + 8, a.rows); ++row)
    cols.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  return {cols.begin(), cols.end()};
}

/// In parts of at most `most` MMAs, nearly equal, added in their order.
float chain(const CsrMatrix& a, const DenseMatrix& dense_a, const DenseMatrix& b, const Mma& mma,
            std::int64_t most, std::int64_t i, std::int64_t j) {
  const Conversion conversion =
      std::string_view(mma.precision) == "fp16" ? Conversion::kFp16 : Conversion::kTf32;
  const FusedStep& step = find_generation("hopper").step(type_of(conversion));
  const std::vector<std::int32_t> cols = active_cols(a, i);
  const std::int64_t blocks = (std::ssize(cols) + mma.depth - 1) / mma.depth;
  const std::int64_t parts = std::max<std::int64_t>(1, (blocks + most - 1) / most);
  float total = 0;
  for (std::int64_t p = 0; p < parts; ++p) {
    float sum = 0;
    for (std::int64_t block = blocks * p / parts; block < blocks * (p + 1) / parts; ++block) {
      std::vector<float> left, right;
      for (std::int64_t k = block * mma.depth; k < (block + 1) * mma.depth; ++k) {
        const bool there = k < std::ssize(cols);
        left.push_back(there ? convert(dense_a.at(i, cols[k]), conversion) : 0);
        right.push_back(there ? convert(b.at(cols[k], j), conversion) : 0);
      }
      for (std::int64_t at = 0; at < mma.depth; at += step.products) {
        const auto count =
            static_cast<std::size_t>(std::min<std::int64_t>(step.products, mma.depth));
        sum = fused_dot_add(step, {left.data() + at, count}, {right.data() + at, count}, sum);
      }
    }
    total = p == 0 ? sum : total + sum;
  }
  return std::isnan(total) ? std::bit_cast<float>(0x7fffffff) : total;
}

void check_bits(const CsrMatrix& a, const DenseMatrix& b, const Mma& mma, std::int64_t max_vectors,
                Params::Given params = {}) {
  CAPTURE(mma.precision);
  CAPTURE(mma.depth);
  CAPTURE(max_vectors);
  params["max_vectors"] = max_vectors;
  const DenseMatrix c =
      kernel_of(mma, params)->emulate(*pack(a, mma), b, find_generation("hopper"));
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  const DenseMatrix dense_a = to_dense(a);
  const std::int64_t most = std::max<std::int64_t>(1, max_vectors / mma.depth);
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(chain(a, dense_a, b, mma, most, i, j)));
    }
}

TEST_CASE(
    "flash_spmm's emulation gives the bits of its definition, with and without split windows") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 1), empty = random_sparse(20, 20, 0.0, 2);
  const DenseMatrix b = random_dense(177, 5, 3), b_of_empty = random_dense(20, 3, 4);

  for (const Mma& mma : kMmas) {
    for (const std::int64_t max_vectors : {4, 24, 1000}) check_bits(a, b, mma, max_vectors);
    check_bits(empty, b_of_empty, mma, 24);
  }
}

TEST_CASE("flash_spmm's emulation honours NaN, infinities, overflow of FP16 and vanishing values") {
  const CsrMatrix a = random_sparse(40, 50, 0.1, 5);
  const DenseMatrix b = dense_beyond_fp16(50, 6);

  for (const Mma& mma : kMmas)
    for (const std::int64_t max_vectors : {16, 1000}) check_bits(a, b, mma, max_vectors);
}

TEST_CASE("the path of B through flash_spmm changes no bit") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 11);
  const DenseMatrix b = random_dense(177, 5, 12);

  for (const Mma& mma : kMmas) {
    check_bits(a, b, mma, 1000, {{"pipeline", std::string("registers")}});
    check_bits(a, b, mma, 1000,
               {{"pipeline", std::string("registers")}, {"map", std::string("off")}});
    for (const char* how : {"as_is", "converted"})
      check_bits(a, b, mma, 1000, {{"b", std::string(how)}});
  }
}

TEST_CASE("flash_spmm stays within its error bound, and a wrong element breaks it") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 21);
  const DenseMatrix b = random_dense(177, 20, 22);
  const Permutation order = Permutation::identity(a.rows);
  const std::string generation = "hopper";

  for (const Mma& mma : kMmas) {
    const auto kernel = kernel_of(mma, {{"max_vectors", std::int64_t{16}}});
    const auto packed = pack(a, mma);
    DenseMatrix c = kernel->emulate(*packed, b, find_generation(generation));
    CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason == "");
    c.at(5, 7) += 1;
    CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason != "");
  }
}

TEST_CASE(
    "flash_spmm refuses TC blocks, maps and vectors without an instance, and atomics in "
    "emulation") {
  const CsrMatrix a = random_sparse(61, 177, 0.3, 31);
  const DenseMatrix b = random_dense(177, 4, 32);
  const auto emulate = [&](const Mma& mma, const Params::Given& params, std::int64_t depth) {
    const auto kernel = kernel_of(mma, params);
    return kernel->emulate(*pack(a, {mma.precision, depth}), b, find_generation("hopper"));
  };
  const Params::Given atomic{{"combine", std::string("atomic")}, {"max_vectors", std::int64_t{16}}};

  CHECK_THROWS_AS(emulate({"tf32", 8}, {}, 16), Unsupported);
  CHECK_THROWS_AS(emulate({"fp16", 8}, {}, 4), Unsupported);
  CHECK_THROWS_AS(emulate({"tf32", 8}, atomic, 8), Unsupported);
  CHECK_NOTHROW(emulate(
      {"tf32", 8}, {{"combine", std::string("atomic")}, {"max_vectors", std::int64_t{1000}}}, 8));
  CHECK_THROWS_AS(kernel_of({"tf32", 8}, {{"map", std::string("off")}}), Unsupported);
  const auto tall =
      Registry<Format>::instance().make("me_bcrs", {{"vector_rows", std::int64_t{16}}})->pack(a);
  CHECK_THROWS_AS(kernel_of({"tf32", 8})->emulate(*tall, b, find_generation("hopper")),
                  Unsupported);
}

TEST_CASE("flash_spmm's work counts the MMAs and the bytes of its vectors") {
  const CsrMatrix a = random_sparse(203, 157, 0.03, 41);
  for (const Mma& mma : kMmas) {
    std::int64_t vectors = 0, mmas = 0;
    for (std::int64_t i = 0; i < a.rows; i += 8) {
      const std::int64_t active = std::ssize(active_cols(a, i));
      vectors += active;
      mmas += (active + mma.depth - 1) / mma.depth;
    }
    const bool fp16 = std::string_view(mma.precision) == "fp16";
    for (const std::int64_t n : {8, 100, 128, 300}) {
      const auto of = [&](const char* b) {
        return kernel_of(mma, {{"b", std::string(b)}})->work(*pack(a, mma), n);
      };
      const std::int64_t groups = n <= 32 ? 1 : (n + 127) / 128 * 4;
      const WorkDescription as_is = of("as_is"), converted = of("converted");
      CHECK(as_is.total().mma == 2 * groups * mmas);
      CHECK(converted.total().mma == 2 * groups * mmas);
      CHECK(as_is.total().c_bytes == 4 * n * a.rows);
      CHECK(as_is.total().b_bytes == 4 * n * vectors);
      CHECK(as_is.launches.size() == 1);
      CHECK(converted.launches.size() == (fp16 ? 2 : 1));
      if (fp16)
        CHECK(converted.total().b_bytes == 4 * n * a.cols + 2 * ((n + 15) / 16 * 16) * vectors);
      CHECK(as_is.total().a_bytes - 16 * 26 * ((n + 127) / 128) ==
            (n + 127) / 128 * vectors * (4 + 8 * (fp16 ? 2 : 4)));
    }
  }
}

TEST_CASE("flash_spmm converts B where that should take less time") {
  const auto launches = [](const CsrMatrix& a, std::int64_t n) {
    return kernel_of({"fp16", 8})->work(*pack(a, {"fp16", 8}), n).launches.size();
  };
  const CsrMatrix tall = random_sparse(4000, 100, 0.1, 51);  // a row of B is gathered often
  CHECK(launches(tall, 512) == 2);
  CHECK(launches(tall, 128) == 1);  // which a launch would not pay for
  CHECK(launches(random_sparse(100, 40'000, 0.02, 52), 512) == 1);
}

TEST_CASE("flash_spmm has an instance for every path, map, precision, depth and width it offers") {
  const CsrMatrix a = random_sparse(61, 177, 0.08, 61);
  for (const Mma& mma : kMmas)
    for (const char* b : {"as_is", "converted"})
      for (const std::int64_t columns : {0, 32, 64, 128}) {
        const Params::Given staged{{"b", std::string(b)}, {"columns", columns}};
        CHECK(kernel_of(mma, staged)->work(*pack(a, mma), 40).launches.back().registers_per_thread >
              0);
        for (const char* map : {"on", "off"})
          CHECK_NOTHROW(kernel_of(mma, {{"b", std::string(b)},
                                        {"columns", columns},
                                        {"pipeline", std::string("registers")},
                                        {"map", std::string(map)}})
                            ->work(*pack(a, mma), 40));
      }
}

TEST_CASE("the table of vector_tiles has each instance once") {
  using namespace vector_tiles;
  for (const Instance& instance : kInstances)
    CHECK(find_instance(instance.pipeline, instance.operand, instance.depth, instance.mapped,
                        instance.groups) == &instance);
}

TEST_CASE("rows of a stage are whole sectors and lanes read them without bank conflicts") {
  using namespace vector_tiles;
  struct Type {
    Operand operand;
    int pack, depth;
  };
  for (const Type& type :
       {Type{Operand::kTf32, 1, 4}, Type{Operand::kTf32, 1, 8}, Type{Operand::kFp16AsIs, 2, 8},
        Type{Operand::kFp16AsIs, 2, 16}, Type{Operand::kFp16, 2, 8}, Type{Operand::kFp16, 2, 16},
        Type{Operand::kInt8, 4, 32}}) {
    std::set<int> rows;
    for (int k = 0; k < type.depth; ++k) rows.insert(row_in_stage(k, type.pack));
    CHECK(std::ssize(rows) == type.depth);
    CHECK(*rows.rbegin() == type.depth - 1);
    for (const int groups : {1, 2, 4}) {
      const int pitch = row_pitch(type.operand, groups), bytes = 4 * b_bytes(type.operand);
      CHECK(pitch % 32 == 0);
      CHECK(pitch >= groups * kGroupCols * b_bytes(type.operand));
      CHECK(stage_bytes(type.operand, type.depth, groups) % 32 == 0);
      // Lanes 4g + t read four columns of row pack t + i; 128 bytes go at a time.
      for (int i = 0; i < type.pack; ++i)
        for (int first = 0; first < 32; first += 128 / bytes) {
          std::set<int> words;
          for (int lane = first; lane < first + 128 / bytes; ++lane)
            for (int word = 0; word < bytes; word += 4)
              words.insert((row_in_stage(type.pack * (lane % 4) + i, type.pack) * pitch +
                            lane / 4 * bytes + word) /
                           4 % 32);
          CHECK(words.size() == 32);
        }
    }
  }
}

}  // namespace
}  // namespace tessera
