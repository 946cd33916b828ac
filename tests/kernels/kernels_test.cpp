// Every kernel's host half: what it emulates, and what it says of its work.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "experiments/backends/check_result.hpp"
#include "formats/base/registry.hpp"
#include "formats/bit_tcf.hpp"
#include "formats/csr.hpp"
#include "formats/me_tcf.hpp"
#include "kernels/spmm/row_windows/window_tile.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/mma.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Shape {
  std::int32_t m, k;
  std::int64_t n;
  double density;
};
const std::vector<Shape> kShapes{{1, 1, 1, 1.0},     {7, 5, 3, 0.4},     {8, 8, 32, 0.3},
                                 {65, 40, 33, 0.15}, {64, 200, 4, 0.05}, {30, 9, 130, 0.9},
                                 {20, 20, 8, 0.0}};

std::unique_ptr<PackedMatrix> pack_for(const SpmmKernel& kernel, const CsrMatrix& a,
                                       const Params::Given& format = {}) {
  return Registry<Format>::instance().make(kernel.format(), format)->pack(a);
}

/// acc_spmm's ME-TCF.
const Params::Given kEightRows = {{"window_rows", std::int64_t{8}}};

/// The same result, worked out element by element from the definition.
using Definition = float (*)(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i,
                             std::int64_t j);

float fma_chain(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (std::int64_t k = a.row_offsets[i]; k < a.row_offsets[i + 1]; ++k)
    sum = std::fma(a.values[k], b.at(a.col_indices[k], j), sum);
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

/// Calls visit(left, right) for every eight active columns of the row's window of eight rows.
template <class Visit>
void for_each_chunk(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j,
                    Visit visit) {
  const std::int64_t first = i / 8 * 8, last = std::min<std::int64_t>(first + 8, a.rows);
  std::set<std::int32_t> active;
  for (std::int64_t row = first; row < last; ++row)
    active.insert(a.row_cols(row).begin(), a.row_cols(row).end());
  const DenseMatrix row_of_a = to_dense(a);
  std::vector<float> left, right;
  for (const std::int32_t col : active) {
    left.push_back(row_of_a.at(i, col));
    right.push_back(b.at(col, j));
    if (left.size() < 8 && col != *active.rbegin()) continue;
    left.resize(8), right.resize(8);
    visit(left, right);
    left.clear(), right.clear();
  }
}

std::vector<float> to_tf32(std::vector<float> values) {
  for (float& value : values) value = convert(value, Conversion::kTf32);
  return values;
}

/// The rest after rounding to TF32, in TF32; nothing of a NaN or an infinity.
std::vector<float> rest_in_tf32(std::vector<float> values) {
  for (float& value : values) {
    const float large = convert(value, Conversion::kTf32);
    value = std::isfinite(large) ? convert(value - large, Conversion::kTf32) : 0.0f;
  }
  return values;
}

/// One fused step for every chunk.
float hopper_tf32_chain(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  float sum = 0;
  for_each_chunk(a, b, i, j, [&](const auto& left, const auto& right) {
    sum = fused_dot_add(step, to_tf32(left), to_tf32(right), sum);
  });
  return sum;
}

/// Three for every chunk, the small products first, added in FP32 every few chunks.
template <int kPromote>
float hopper_tf32x3_chain(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i,
                          std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  float sum = 0, total = 0;
  int chunks = 0;
  for_each_chunk(a, b, i, j, [&](const auto& left, const auto& right) {
    sum = fused_dot_add(step, rest_in_tf32(left), to_tf32(right), sum);
    sum = fused_dot_add(step, to_tf32(left), rest_in_tf32(right), sum);
    sum = fused_dot_add(step, to_tf32(left), to_tf32(right), sum);
    if (kPromote == 0 || ++chunks % kPromote != 0) return;
    total += sum;
    sum = 0;
  });
  total += sum;
  return std::isnan(total) ? std::bit_cast<float>(0x7fffffff) : total;
}

void check_emulation(const char* name, Definition definition, const CsrMatrix& a,
                     const DenseMatrix& b, const Params::Given& params = {}) {
  const auto kernel = Registry<SpmmKernel>::instance().make(name, params);
  const auto packed =
      pack_for(*kernel, a, params.contains("format") ? kEightRows : Params::Given{});
  const DenseMatrix c = kernel->emulate(*packed, b, find_generation("hopper"));
  REQUIRE(c.rows == a.rows);
  REQUIRE(c.cols == b.cols);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cols; ++j) {
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(std::bit_cast<std::uint32_t>(c.at(i, j)) ==
              std::bit_cast<std::uint32_t>(definition(a, b, i, j)));
    }
  }
}

TEST_CASE("emulation gives the bits of the kernel's definition") {
  for (const Shape& shape : kShapes) {
    const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 11);
    const DenseMatrix b = random_dense(shape.k, shape.n, 12);

    check_emulation("csr_spmm", fma_chain, a, b);
    check_emulation("acc_spmm", hopper_tf32_chain, a, b);
    check_emulation("windows_spmm", hopper_tf32_chain, a, b);
    check_emulation("warps_spmm", hopper_tf32_chain, a, b);
    check_emulation("shares_spmm", hopper_tf32_chain, a, b, {{"thread_blocks", std::int64_t{1}}});
    check_emulation("acc_spmm", hopper_tf32x3_chain<0>, a, b,
                    {{"precision", std::string("tf32x3")}});
    check_emulation("acc_spmm", hopper_tf32x3_chain<1>, a, b,
                    {{"precision", std::string("tf32x3_promoted")}});
    check_emulation("acc_spmm", hopper_tf32x3_chain<2>, a, b,
                    {{"precision", std::string("tf32x3")}, {"promote", std::int64_t{2}}});
  }
}

TEST_CASE("emulation keeps to the bits with NaN, infinities and vanishing values in B") {
  const CsrMatrix a = random_sparse(24, 30, 0.3, 21);
  DenseMatrix b = random_dense(30, 9, 22);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(5, 4) = std::numeric_limits<float>::infinity();
  b.at(17, 4) = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < 30; ++k) b.at(k, 7) *= 0x1p-126f;
  for (std::int64_t k = 0; k < 30; ++k) b.at(k, 8) = std::copysign(0x1p-149f, b.at(k, 8));

  check_emulation("csr_spmm", fma_chain, a, b);
  // Only columns of the row's own window reach it: the definition walks the same ones.
  check_emulation("acc_spmm", hopper_tf32_chain, a, b);
  check_emulation("acc_spmm", hopper_tf32x3_chain<1>, a, b,
                  {{"precision", std::string("tf32x3_promoted")}});
  check_emulation("windows_spmm", hopper_tf32_chain, a, b);
  check_emulation("warps_spmm", hopper_tf32_chain, a, b);
}

/// A window's chunks in two halves, the later one longer, added like red.global.add.f32 does.
float hopper_tf32_halves(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  int chunks = 0, chunk = 0;
  for_each_chunk(a, b, i, j, [&](const auto&, const auto&) { ++chunks; });
  float halves[2] = {0, 0};
  for_each_chunk(a, b, i, j, [&](const auto& left, const auto& right) {
    float& sum = halves[chunk++ >= chunks / 2];
    sum = fused_dot_add(step, to_tf32(left), to_tf32(right), sum);
  });
  const auto flush = [](float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
  };
  const float sum = flush(flush(halves[0]) + flush(halves[1]));
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffff) : sum;
}

/// A window's chunks in parts of at most three, nearly equal, added in order.
float hopper_tf32_parts(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  int chunks = 0, chunk = 0;
  for_each_chunk(a, b, i, j, [&](const auto&, const auto&) { ++chunks; });
  const int parts = std::max(1, (chunks + 2) / 3);
  std::vector<float> sums(static_cast<std::size_t>(parts), 0.0f);
  for_each_chunk(a, b, i, j, [&](const auto& left, const auto& right) {
    int part = 0;
    while (chunk >= chunks * (part + 1) / parts) ++part;
    ++chunk;
    sums[part] = fused_dot_add(step, to_tf32(left), to_tf32(right), sums[part]);
  });
  float total = sums[0];
  for (int part = 1; part < parts; ++part) total += sums[part];
  return std::isnan(total) ? std::bit_cast<float>(0x7fffffff) : total;
}

/// An element of C from equal shares of two TC blocks; a window's sums are added in order.
float hopper_tf32_shares(const CsrMatrix& a, const DenseMatrix& b, std::int64_t i, std::int64_t j) {
  const FusedStep& step = find_generation("hopper").step(MmaType::kTf32);
  int chunk = 0;
  for (std::int64_t row = 0; row < i / 8 * 8; row += 8)
    for_each_chunk(a, b, row, j, [&](const auto&, const auto&) { ++chunk; });
  int share = chunk / 2;
  float sum = 0, total = 0;
  bool first = true;
  const auto add = [&] {
    total = first ? sum : total + sum;
    first = false, sum = 0;
  };
  for_each_chunk(a, b, i, j, [&](const auto& left, const auto& right) {
    if (chunk / 2 != share) add();
    share = chunk++ / 2;
    sum = fused_dot_add(step, to_tf32(left), to_tf32(right), sum);
  });
  add();
  return std::isnan(total) ? std::bit_cast<float>(0x7fffffff) : total;
}

TEST_CASE("windows that acc_spmm splits are the sums of their parts, in order") {
  DenseMatrix b = random_dense(90, 12, 72);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(55, 4) = std::numeric_limits<float>::infinity();
  const Params::Given cap = {{"max_blocks", std::int64_t{3}}};
  const auto with = [&](const char* name, const char* value) {
    Params::Given params = cap;
    params[name] = std::string(value);
    return params;
  };

  for (const double density : {0.02, 0.3}) {  // without and with windows beyond the cap
    const CsrMatrix a = random_sparse(44, 90, density, 71);
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, cap);
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, with("pipeline", "registers"));
    check_emulation("acc_spmm", hopper_tf32_chain, a, b, with("balance", "none"));
    check_emulation("acc_spmm", hopper_tf32_chain, a, b, with("balance", "ibd"));  // even windows
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, with("pipeline", "least_bubble"));
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, with("pipeline", "dtc"));
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, with("format", "me_tcf"));
    check_emulation("acc_spmm", hopper_tf32_parts, a, b, with("store", "wt"));
    Params::Given shares = with("balance", "dtc");
    shares["max_blocks"] = std::int64_t{1000};  // one share for all
    check_emulation("acc_spmm", hopper_tf32_chain, a, b, shares);
    shares["max_blocks"] = std::int64_t{2};
    check_emulation("acc_spmm", hopper_tf32_shares, a, b, shares);
    shares["pipeline"] = std::string("least_bubble"), shares["buffers"] = std::string("block");
    check_emulation("acc_spmm", hopper_tf32_shares, a, b, shares);
    shares["balance"] = std::string("adaptive");  // even windows
    check_emulation("acc_spmm", hopper_tf32_chain, a, b, shares);
  }
  const CsrMatrix a = random_sparse(44, 90, 0.3, 71);
  const auto atomic = Registry<SpmmKernel>::instance().make("acc_spmm", with("combine", "atomic"));
  CHECK_THROWS_AS(atomic->emulate(*pack_for(*atomic, a), b, find_generation("hopper")),
                  Unsupported);
}

TEST_CASE("acc_spmm computes the same bits with buffers of a thread block as of a warp") {
  const auto& registry = Registry<SpmmKernel>::instance();
  const CsrMatrix a = random_sparse(203, 157, 0.07, 77);
  const DenseMatrix b = random_dense(157, 36, 78);
  for (const char* pipeline : {"least_bubble", "dtc"}) {
    for (const char* balance : {"capped", "dtc", "none"}) {
      CAPTURE(pipeline);
      CAPTURE(balance);
      const auto kernel = [&](const char* buffers) {
        return registry.make("acc_spmm", {{"pipeline", std::string(pipeline)},
                                          {"balance", std::string(balance)},
                                          {"buffers", std::string(buffers)},
                                          {"max_blocks", std::int64_t{3}}});
      };
      const auto packed = pack_for(*kernel("warp"), a);
      const Generation& hopper = find_generation("hopper");
      CHECK(kernel("warp")->emulate(*packed, b, hopper).values ==
            kernel("block")->emulate(*packed, b, hopper).values);

      const WorkDescription warps = kernel("warp")->work(*packed, 128);
      const WorkDescription blocks = kernel("block")->work(*packed, 128);
      const auto sum = [](const WorkDescription& work, std::int64_t ThreadBlockWork::*what) {
        std::int64_t total = 0;
        for (const ThreadBlockWork& block : work.thread_blocks) total += block.*what;
        return total;
      };
      // A is read once and not four times, but for the offset and the bitmap, read twice.
      CHECK(2 * sum(blocks, &ThreadBlockWork::a_bytes) < sum(warps, &ThreadBlockWork::a_bytes));
      CHECK(sum(blocks, &ThreadBlockWork::mma) == sum(warps, &ThreadBlockWork::mma));
      CHECK(sum(blocks, &ThreadBlockWork::b_bytes) == sum(warps, &ThreadBlockWork::b_bytes));
      CHECK(sum(warps, &ThreadBlockWork::barriers) == 0);
      CHECK(sum(blocks, &ThreadBlockWork::barriers) > 0);
    }
  }
}

TEST_CASE("acc_spmm computes the same bits of ME-TCF as of BitTCF, and counts its bytes") {
  const auto& registry = Registry<SpmmKernel>::instance();
  const CsrMatrix a = random_sparse(203, 157, 0.07, 75);
  const DenseMatrix b = random_dense(157, 36, 76);
  for (const char* pipeline : {"staged", "least_bubble", "dtc"}) {
    CAPTURE(pipeline);
    const Params::Given by_bits = {{"pipeline", std::string(pipeline)}};
    Params::Given by_bytes = by_bits;
    by_bytes["format"] = std::string("me_tcf");
    const auto bits = registry.make("acc_spmm", by_bits);
    const auto bytes = registry.make("acc_spmm", by_bytes);
    const auto packed_bits = pack_for(*bits, a), packed_bytes = pack_for(*bytes, a, kEightRows);

    const Generation& hopper = find_generation("hopper");
    CHECK(bits->emulate(*packed_bits, b, hopper).values ==
          bytes->emulate(*packed_bytes, b, hopper).values);
    CHECK(bits->terms_per_row(*packed_bits) == bytes->terms_per_row(*packed_bytes));
    const auto a_bytes = [](const WorkDescription& work) {
      std::int64_t sum = 0;
      for (const ThreadBlockWork& block : work.thread_blocks) sum += block.a_bytes;
      return sum;
    };
    const WorkDescription of_bits = bits->work(*packed_bits, 32);
    const WorkDescription of_bytes = bytes->work(*packed_bytes, 32);
    const std::int64_t blocks = packed_as<BitTcf>(*packed_bits).num_tc_blocks();
    CHECK(a_bytes(of_bytes) - a_bytes(of_bits) == a.nnz() - 8 * blocks);
    CHECK(of_bytes.footprint_bytes - of_bits.footprint_bytes == a.nnz() - 8 * blocks);
  }

  const auto bytes = registry.make("acc_spmm", {{"format", std::string("me_tcf")}});
  const auto tall = Registry<Format>::instance().make("me_tcf")->pack(a);
  CHECK_THROWS_WITH_AS(bytes->emulate(*tall, b, find_generation("hopper")),
                       doctest::Contains("window_rows = 8"), Error);
}

TEST_CASE("a window split over two thread blocks is the sum of its parts, subnormals lost") {
  const CsrMatrix a = random_sparse(8, 60, 0.4, 71);  // one window: two shares are its halves
  DenseMatrix b = random_dense(60, 12, 72);
  b.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  b.at(55, 4) = std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < 60; ++k) b.at(k, 7) *= 0x1p-126f;

  check_emulation("shares_spmm", hopper_tf32_halves, a, b, {{"thread_blocks", std::int64_t{2}}});

  const auto thirds =
      Registry<SpmmKernel>::instance().make("shares_spmm", {{"thread_blocks", std::int64_t{3}}});
  CHECK_THROWS_AS(thirds->emulate(*pack_for(*thirds, a), b, find_generation("hopper")),
                  Unsupported);
}

TEST_CASE("a truncating kernel differs from a rounding one, towards zero") {
  const CsrMatrix a = random_sparse(64, 64, 0.2, 31);
  const DenseMatrix b = random_dense(64, 16, 32);
  const auto& registry = Registry<SpmmKernel>::instance();
  const auto rounding = registry.make("acc_spmm");
  const auto truncating = registry.make("acc_spmm", {{"precision", std::string("tf32_raw")}});
  const auto packed = pack_for(*rounding, a);

  const DenseMatrix c = rounding->emulate(*packed, b, find_generation("hopper"));
  const DenseMatrix d = truncating->emulate(*packed, b, find_generation("hopper"));

  double exact = 0, shrunk = 0;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    exact += std::abs(c.values[i]);
    shrunk += std::abs(d.values[i]);
  }
  CHECK(shrunk < exact * (1 - 3e-4));  // two operands, each 3.5e-4 short on average
  CHECK(shrunk > exact * (1 - 2e-3));
}

TEST_CASE("the order of summation is the format's business: any number of threads, same bits") {
  const CsrMatrix a = random_sparse(300, 200, 0.05, 41);
  const DenseMatrix b = random_dense(200, 40, 42);
  for (const char* name : {"csr_spmm", "acc_spmm", "windows_spmm", "warps_spmm"}) {
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    const auto packed = pack_for(*kernel, a);
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 5}) {
      const ThreadCount limit(threads);
      results.push_back(kernel->emulate(*packed, b, find_generation("hopper")).values);
    }
    CHECK(results[0] == results[1]);
    CHECK(results[0] == results[2]);
  }
}

TEST_CASE("work descriptions add up to what the matrix says") {
  for (const Shape& shape : kShapes) {
    const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 51);
    const auto describe = [&](const char* name) {
      const auto kernel = Registry<SpmmKernel>::instance().make(name);
      return kernel->work(*pack_for(*kernel, a), shape.n);
    };
    std::set<std::int32_t> used(a.col_indices.begin(), a.col_indices.end());

    for (const char* name : {"csr_spmm", "acc_spmm"}) {
      const WorkDescription work = describe(name);
      CHECK(work.kernel == name);
      CHECK(work.useful_flops == 2 * a.nnz() * shape.n);
      CHECK(work.total().c_bytes == 4 * shape.n * a.rows);
      CHECK(work.c_bytes == 4 * shape.n * a.rows);
      CHECK(work.b_rows_bytes == 4 * shape.n * static_cast<std::int64_t>(used.size()));
      CHECK(work.total().b_bytes >= work.b_rows_bytes);
    }
    CHECK(describe("csr_spmm").total().fma == a.nnz() * shape.n);
    CHECK(describe("csr_spmm").total().b_bytes == 4 * a.nnz() * shape.n);

    const auto packed = Registry<Format>::instance().make("bit_tcf")->pack(a);
    const auto& tiles = packed_as<BitTcf>(*packed);
    std::int64_t active = 0;
    for (const std::int32_t col : tiles.sparse_a_to_b) active += col != kNoColumn;
    const WorkDescription acc = describe("acc_spmm");
    // 32, 64 or 128 columns a warp, whole groups of 32 in any case.
    const std::int64_t groups = shape.n <= 32 ? 1 : shape.n <= 64 ? 2 : 4;
    CHECK(acc.total().mma ==
          2 * groups * tiles.num_tc_blocks() * ((shape.n + 32 * groups - 1) / (32 * groups)));
    CHECK(acc.total().b_bytes == 4 * active * shape.n);
    CHECK(acc.flops_per_mma == 2048);

    for (const char* name : {"windows_spmm", "warps_spmm", "shares_spmm"}) {
      const WorkDescription other = describe(name);
      CHECK(other.useful_flops == acc.useful_flops);
      CHECK(other.b_rows_bytes == acc.b_rows_bytes);
      CHECK(other.total().b_bytes == acc.total().b_bytes);
    }
    for (const char* name : {"windows_spmm", "shares_spmm"})
      CHECK(describe(name).total().mma ==
            2 * tiles.num_tc_blocks() * window_tile::num_col_chunks(shape.n));
    CHECK(describe("warps_spmm").total().mma ==
          8 * tiles.num_tc_blocks() * ((shape.n + 127) / 128));
    CHECK(describe("windows_spmm").total().c_bytes == acc.c_bytes);
    CHECK(describe("warps_spmm").total().c_bytes == acc.c_bytes);
  }
}

TEST_CASE("terms per row bound the sums: nonzeros for FP32, MMAs with a nonzero for tensor cores") {
  const CsrMatrix a = random_sparse(50, 90, 0.1, 61);
  const auto terms = [&](const char* name) {
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    return kernel->terms_per_row(*pack_for(*kernel, a));
  };
  const auto csr = terms("csr_spmm"), acc = terms("acc_spmm");

  for (std::int32_t i = 0; i < a.rows; ++i) {
    CHECK(csr[i] == a.row_length(i));
    CHECK(acc[i] <= a.row_length(i));
    CHECK(8 * acc[i] >= a.row_length(i));
  }
  CHECK(terms("cusparse") == csr);
}

TEST_CASE("every kernel that is emulated keeps within the bound of its own arithmetic") {
  int emulated = 0;
  for (const std::string& name : Registry<SpmmKernel>::instance().names()) {
    CAPTURE(name);
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    for (const Shape& shape : kShapes) {
      CAPTURE(shape.m);
      const CsrMatrix a = random_sparse(shape.m, shape.k, shape.density, 41);
      const DenseMatrix b = random_dense(shape.k, shape.n, 42);
      const auto packed = pack_for(*kernel, a);
      const Permutation order = Permutation::identity(a.rows);
      const std::string generation = "hopper";
      DenseMatrix c;
      try {
        c = kernel->emulate(*packed, b, find_generation(generation));
      } catch (const Unsupported&) {
        continue;
      }
      ++emulated;

      CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason == "");
      if (a.nnz() == 0) continue;
      std::int32_t row = 0;
      while (a.row_length(row) == 0) ++row;
      c.at(row, 0) += 1;  // and the check would have seen it
      CHECK(check_result(a, b, c, {*kernel, *packed, order, generation}).reason != "");
    }
  }
  REQUIRE(emulated > 0);
}

TEST_CASE("every kernel reads a registered format") {
  const auto names = Registry<SpmmKernel>::instance().names();
  REQUIRE(names.size() >= 3);
  for (const std::string& name : names)
    CHECK(Registry<Format>::instance().contains(
        Registry<SpmmKernel>::instance().make(name)->format()));
}

TEST_CASE("a closed library says why it is not emulated") {
  const auto kernel = Registry<SpmmKernel>::instance().make("cusparse");
  const CsrPacked packed(random_sparse(4, 4, 0.5, 1));
  CHECK_THROWS_AS(kernel->emulate(packed, random_dense(4, 1, 2), find_generation("hopper")),
                  Unsupported);
  CHECK_THROWS_AS(kernel->work(packed, 1), Unsupported);
}

TEST_CASE("cusparse's terms are nonzeros in every format, its errors those of what it rounds") {
  const CsrMatrix a = random_sparse(50, 90, 0.1, 61);
  for (const char* format : {"csr", "coo", "bcsr", "blocked_ell"}) {
    CAPTURE(format);
    for (const char* precision : {"fp32", "fp16"}) {
      const auto kernel = Registry<SpmmKernel>::instance().make(
          "cusparse", {{"format", std::string(format)}, {"precision", std::string(precision)}});
      CHECK(kernel->format() == format);
      const auto terms = kernel->terms_per_row(*pack_for(*kernel, a));
      for (std::int32_t i = 0; i < a.rows; ++i) CHECK(terms[i] == a.row_length(i));

      const bool rounds = precision == std::string("fp16") || format == std::string("blocked_ell");
      CHECK((kernel->arithmetic().input_error > 0) == rounds);
    }
  }
}

/// Every element of each fragment is in one place, and in no other.
template <class Map>
void check_map(bool has_b) {
  std::set<std::pair<int, int>> a, b, c;
  for (int t = 0; t < Map::kThreads; ++t) {
    for (int v = 0; v < Map::kValuesA; ++v) a.insert({Map::a_row(t, v), Map::a_col(t, v)});
    for (int v = 0; v < Map::kValuesB; ++v) b.insert({Map::b_row(t, v), Map::b_col(t, v)});
    for (int v = 0; v < Map::kValuesC; ++v) c.insert({Map::c_row(t, v), Map::c_col(t, v)});
  }
  CHECK(a.size() == Map::kM * Map::kK);
  CHECK(Map::kThreads * Map::kValuesA == Map::kM * Map::kK);
  CHECK(*a.rbegin() == std::pair(Map::kM - 1, Map::kK - 1));
  CHECK(c.size() == Map::kM * Map::kN);
  CHECK(Map::kThreads * Map::kValuesC == Map::kM * Map::kN);
  CHECK(*c.rbegin() == std::pair(Map::kM - 1, Map::kN - 1));
  if (!has_b) return;
  CHECK(b.size() == Map::kK * Map::kN);
  CHECK(Map::kThreads * Map::kValuesB == Map::kK * Map::kN);
  CHECK(*b.rbegin() == std::pair(Map::kK - 1, Map::kN - 1));
}

/// Columns of B are contiguous in depth, 16 bytes at a time.
template <class Map>
void check_shared_b() {
  std::set<int> offsets;
  for (int k = 0; k < Map::kK; ++k)
    for (int col = 0; col < Map::kN; ++col) offsets.insert(Map::b_offset(k, col));
  CHECK(offsets.size() == Map::kK * Map::kN);
  CHECK(*offsets.rbegin() == Map::kK * Map::kN - 1);
  CHECK(Map::b_offset(1, 0) == 1);
  CHECK(Map::b_offset(0, 1) == Map::kCoreDepth);
  CHECK(Map::b_offset(Map::kCoreDepth, 0) == Map::kCoreDepth * Map::kN);
}

TEST_CASE("an MMA's lane maps name every element of each fragment once") {
  check_map<MmaM16N8K4>(true);
  check_map<MmaM16N8K8>(true);
  check_map<MmaM16N8Packed<8>>(true);
  check_map<MmaM16N8Packed<16>>(true);
  check_map<WgmmaM64N8K8>(false);
  check_map<WgmmaM64N8K16>(false);
  check_shared_b<WgmmaM64N8K8>();
  check_shared_b<WgmmaM64N8K16>();
}

TEST_CASE("two MMAs cover their columns of C once") {
  std::set<int> cols;
  for (int mma = 0; mma < 2; ++mma)
    for (int row = 0; row < 16; ++row) cols.insert(window_tile::col_of_mma_row(mma, row));
  CHECK(cols.size() == window_tile::kWarpCols);
  CHECK(*cols.rbegin() == window_tile::kWarpCols - 1);
}

}  // namespace
}  // namespace tessera
