// tile_spgemm on the CPU: its emulation against the oracle and against MMAs written out in full,
// its parts against their definitions, and the shares of its schedule against the work as a whole.
#include "kernels/spgemm/tile/tile_spgemm.hpp"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "experiments/backends/check_result.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/oracle_support.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using namespace tile_spgemm;

constexpr const char* kPrecisions[] = {"fp16", "tf32", "tf32x3"};

std::unique_ptr<SpgemmKernel> make_kernel(const char* precision) {
  return Registry<SpgemmKernel>::instance().make("tile_spgemm",
                                                 {{"precision", std::string(precision)}});
}

CsrMatrix emulated(const char* precision, const CsrMatrix& a, const CsrMatrix& b,
                   const char* generation = "hopper") {
  const CsrMatrix c = make_kernel(precision)->emulate(a, b, find_generation(generation));
  validate(c);
  return c;
}

/// Returns the fault of an emulated product, or nothing if it is correct.
std::string fault_of(const char* precision, const CsrMatrix& a, const CsrMatrix& b,
                     const std::string& generation = "hopper") {
  return check_result({*make_kernel(precision), a, b, generation},
                      emulated(precision, a, b, generation.c_str()))
      .reason;
}

struct Case {
  const char* name;
  CsrMatrix a, b;
};

std::vector<Case> cases() {
  const CsrMatrix wide = random_sparse(100, 100, 0.1, 6);
  const CsrMatrix spread = rescaled(wide, [](int k) { return k * 7 % 40 - 20; });
  return {
      {"sparse and rectangular", random_sparse(203, 157, 0.03, 1), random_sparse(157, 91, 0.05, 2)},
      {"dense tiles", random_sparse(70, 93, 0.9, 3), random_sparse(93, 64, 0.9, 4)},
      {"scattered", random_sparse(300, 300, 0.003, 5), random_sparse(300, 300, 0.003, 6)},
      {"wide range", spread, wide},
      {"one row, one column", random_sparse(1, 400, 0.5, 7), random_sparse(400, 1, 0.5, 8)},
      {"no rows", random_sparse(0, 8, 0.5, 9), random_sparse(8, 20, 0.5, 10)},
      {"no nonzeros", random_sparse(9, 8, 0, 11), random_sparse(8, 20, 0.5, 12)},
      {"no columns", random_sparse(20, 9, 0.5, 13), random_sparse(9, 0, 0.5, 14)}};
}

TEST_CASE("tile_spgemm is within its bound and has the structural pattern") {
  for (const char* precision : kPrecisions)
    for (const Case& x : cases()) {
      CAPTURE(precision);
      CAPTURE(x.name);
      CHECK(fault_of(precision, x.a, x.b) == "");
    }
  for (const char* generation : {"ampere", "ada", "blackwell"})
    for (const char* precision : kPrecisions) {
      CAPTURE(generation);
      CHECK(fault_of(precision, cases()[0].a, cases()[0].b, generation) == "");
    }
}

/// Returns the largest error of C relative to |A| |B|.
double backward_error(const char* precision, const CsrMatrix& a, const CsrMatrix& b) {
  const CsrMatrix c = emulated(precision, a, b);
  const DenseMatrix left = to_dense(a), right = to_dense(b);
  double largest = 0;
  for (std::int32_t i = 0; i < c.rows; ++i)
    for (std::int64_t at = c.row_offsets[i]; at < c.row_offsets[i + 1]; ++at) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < a.cols; ++k) {
        const double product = static_cast<double>(left.at(i, k)) * right.at(k, c.col_indices[at]);
        sum += product;
        magnitude += std::abs(product);
      }
      largest = std::max(largest, std::abs(c.values[at] - sum) / magnitude);
    }
  return largest;
}

TEST_CASE(
    "operands in two TF32 parts are about as accurate as FP32, operands in one part are not") {
  const CsrMatrix a = random_sparse(80, 120, 0.4, 21), b = random_sparse(120, 70, 0.4, 22);

  CHECK(backward_error("tf32x3", a, b) < 0x1p-20);
  CHECK(backward_error("tf32", a, b) > 0x1p-16);
  CHECK(backward_error("fp16", a, b) > 0x1p-16);
}

/// Returns one row of an MMA: products along its depth, in the steps of the generation.
float mma(const FusedStep& step, const std::vector<float>& a, const std::vector<float>& b,
          float c) {
  for (std::size_t begin = 0; begin < a.size(); begin += step.products) {
    const std::size_t count = std::min<std::size_t>(step.products, a.size() - begin);
    c = fused_dot_add(step, {a.data() + begin, count}, {b.data() + begin, count}, c);
  }
  return c;
}

/// Returns one part of eight values of a dense operand, by depth index.
std::vector<float> depth_of(const char* precision, std::size_t part,
                            const std::array<float, 8>& values) {
  std::vector<float> placed(8);
  for (int k = 0; k < 8; ++k)
    placed[static_cast<std::size_t>(place_in_depth(TileArithmetic::kTf32, 0, k))] =
        split(values[static_cast<std::size_t>(k)], find_precision(precision))[part];
  return placed;
}

TEST_CASE("a cell equals the MMAs of its tiles, written out") {
  const CsrMatrix a = random_sparse(13, 37, 0.6, 31), b = random_sparse(37, 11, 0.6, 32);
  const DenseMatrix left = to_dense(a), right = to_dense(b);
  for (const char* generation : {"ampere", "hopper"}) {
    const FusedStep& step = find_generation(generation).step(MmaType::kTf32);
    for (const char* precision : {"tf32", "tf32x3"}) {
      const bool splits = precision == std::string("tf32x3");
      const CsrMatrix c = emulated(precision, a, b, generation);
      for (std::int32_t i = 0; i < c.rows; ++i)
        for (std::int64_t at = c.row_offsets[i]; at < c.row_offsets[i + 1]; ++at) {
          float large = 0, small = 0;
          for (std::int64_t tile = 0; tile < 5; ++tile) {
            std::array<float, 8> of_a{}, of_b{};
            for (std::int64_t k = tile * 8; k < std::min<std::int64_t>(tile * 8 + 8, 37); ++k) {
              of_a[k % 8] = left.at(i, k);
              of_b[k % 8] = right.at(k, c.col_indices[at]);
            }
            for (int part = splits ? 1 : 0; part >= 0; --part) {
              const auto of_part = depth_of(precision, part, of_b);
              large = mma(step, depth_of(precision, 0, of_a), of_part, large);
              if (splits) small = mma(step, depth_of(precision, 1, of_a), of_part, small);
            }
          }
          REQUIRE(c.values[at] == (splits ? large + small : large));
        }
    }
  }
}

TEST_CASE("FP16 operands are scaled by powers of two, which change no bit") {
  const CsrMatrix small = random_sparse(40, 40, 0.2, 41);
  const CsrMatrix large = rescaled(small, [](int) { return 100; });
  const CsrMatrix tiny = rescaled(small, [](int) { return -90; });

  CHECK(emulated("fp16", large, tiny) ==
        rescaled(emulated("fp16", small, small), [](int) { return 10; }));
}

TEST_CASE("cells that cancel stay, and pairs of tiles without a common inner index make none") {
  // (0, 0): 1 - 1. Tile (0, 1) of A and tile (1, 1) of B share no inner index.
  const CsrMatrix a = csr(8, 16, {0, 2, 3, 3, 3, 3, 3, 3, 3}, {0, 8, 9}, {1, 1, 5}),
                  b = csr(16, 16, {0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3}, {0, 0, 12},
                          {1, -1, 3});
  for (const char* precision : kPrecisions) {
    const CsrMatrix c = emulated(precision, a, b);

    CHECK(make_kernel(precision)->keeps_zeros());
    REQUIRE(c.nnz() == 1);
    CHECK(c.col_indices[0] == 0);
    CHECK(c.values[0] == 0);
  }
}

TEST_CASE("infinities, NaNs and shapes that do not match are refused") {
  const CsrMatrix one = csr(1, 1, {0, 1}, {0}, {1});
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
    for (const char* precision : kPrecisions) {
      CHECK_THROWS_WITH_AS(emulated(precision, csr(1, 1, {0, 1}, {0}, {value}), one),
                           doctest::Contains("A holds"), Unsupported);
      CHECK_THROWS_WITH_AS(emulated(precision, one, csr(1, 1, {0, 1}, {0}, {value})),
                           doctest::Contains("B holds"), Unsupported);
    }
  const CsrMatrix most = csr(1, 1, {0, 1}, {0}, {std::numeric_limits<float>::max()});
  CHECK_THROWS_AS(emulated("tf32x3", most, one), Unsupported);
  CHECK(emulated("fp16", most, one).nnz() == 1);
  CHECK_THROWS_AS(emulated("tf32x3", random_sparse(3, 4, 0.5, 1), random_sparse(5, 3, 0.5, 2)),
                  Error);
}

TEST_CASE("a row has as many terms as tiles") {
  const CsrMatrix a = csr(2, 30, {0, 4, 5}, {0, 7, 8, 29, 16}, {1, 1, 1, 1, 1});

  CHECK(make_kernel("tf32x3")->terms_per_row(a, random_sparse(30, 4, 0.5, 1)) ==
        std::vector<std::int64_t>{3, 1});
}

TEST_CASE("a transposed bitmap has rows and columns exchanged") {
  std::mt19937_64 random(51);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bitmap = random(), other = transposed(bitmap);
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col)
        REQUIRE((bitmap >> (kSide * row + col) & 1) == (other >> (kSide * col + row) & 1));
    REQUIRE(transposed(other) == bitmap);
  }
}

TEST_CASE("the pairs of an MMA take each depth index once") {
  for (const TileArithmetic arithmetic :
       {TileArithmetic::kFp16, TileArithmetic::kTf32, TileArithmetic::kTf32x3}) {
    std::uint32_t taken = 0;
    for (int pair = 0; pair < pairs_of_mma(arithmetic); ++pair)
      for (int inner = 0; inner < kSide; ++inner)
        taken |= 1u << place_in_depth(arithmetic, pair, inner);
    CHECK(taken == (1u << kSide * pairs_of_mma(arithmetic)) - 1);
  }
}

/// The thread that reaches a tile of B of a factor, as device code finds it.
int thread_of(const FactorLanes& share, int factor, int tile) {
  for (int thread = 0; thread < kThreads; ++thread)
    if (factor % share.factors_at_once() == share.first_factor(thread) &&
        tile % share.lanes() == share.first_tile(thread))
      return thread;
  return -1;
}

TEST_CASE("the lanes of a thread block share factors so that each pair has one thread") {
  for (const int factors : {1, 3, 4, 5, 8, 9, 16, 17, 128, 512}) {
    const FactorLanes share(factors);
    CHECK(share.lanes() * share.factors_at_once() == kThreads);
    CHECK(share.factors_of_warp() * kWarps == share.factors_at_once());
    // All factors are processed at once, unless there are too many even for the fewest lanes each.
    CHECK((factors <= share.factors_at_once() || share.bits == FactorLanes::kLeastBits));
    for (int factor = 0; factor < share.factors_at_once(); ++factor)
      for (int tile = 0; tile < share.lanes(); ++tile) {
        const int thread = thread_of(share, factor, tile);
        REQUIRE(thread >= 0);
        CHECK(thread / kWarpSize == factor / share.factors_of_warp());
        CHECK(share.step_of(factor, tile) == 0);
      }
    CHECK(share.step_of(0, share.lanes()) == 1);
    CHECK(share.step_of(share.factors_at_once(), 0) > share.step_of(0, 1000 * share.lanes()));
  }
}

TEST_CASE("slices cover a tile row of C once and begin where slots do") {
  for (const int end : {40, 41, 64, 750, 6000})
    for (const long long pairs : {0, 100, 5000, 1000000}) {
      TileRowCut cut(33, end, pairs, 1024);
      CHECK((cut.is_cut() ? cut.further_slices() + 1 : 1) == cut.slices());
      tile_spgemm::Task task{};
      std::int32_t before = 32;
      for (int slice = 0; slice < cut.slices(); ++slice) {
        cut.place(task, slice, cut.slices());
        CHECK(task.first_col == before);
        CHECK(task.first_col % kColsOfSlot == 0);
        CHECK(task.end_col > task.first_col);
        before = task.end_col;
      }
      CHECK(before == end);
      cut.keep_whole();
      CHECK(cut.slices() == 1);
    }
}

TEST_CASE("tasks are taken once each, further slices first") {
  constexpr std::int64_t kTileRows = 5, kSlices = 7;
  std::vector<std::int64_t> taken;
  for (std::int64_t i = 0; i < kTileRows + kSlices; ++i)
    taken.push_back(number_of_task(i, kTileRows, kSlices));
  CHECK(taken == std::vector<std::int64_t>{5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4});
}

TEST_CASE("the warps of a list share its tiles without gaps, and lists end where they are full") {
  std::vector<int> first_pairs{0};
  for (int tile = 0; tile < kTilesOfPass; ++tile)
    first_pairs.push_back(first_pairs.back() + tile * 37 % 64);
  const auto first_pair = [&](int tile) { return first_pairs[tile]; };
  constexpr int kList = 1024;
  for (int tile = 0; tile < kTilesOfPass;) {
    const int end = MakeSums::end_of_list(tile, kTilesOfPass, first_pairs[tile], kList, first_pair);
    REQUIRE(end > tile);
    CHECK(first_pairs[end] - first_pairs[tile] <= kList);
    if (end < kTilesOfPass) CHECK(first_pairs[end + 1] - first_pairs[tile] > kList);
    const int before = MakeSums::work_before(tile, first_pairs[tile]),
              work = MakeSums::work_before(end, first_pairs[end]) - before;
    const auto begin_of = [&](int warp) {
      return MakeSums::tile_after(tile, end, before + MakeSums::share_begin(work, warp),
                                  first_pair);
    };
    CHECK(begin_of(0) == tile);
    for (int warp = 0; warp < kWarps; ++warp) CHECK(begin_of(warp) <= begin_of(warp + 1));
    CHECK(begin_of(kWarps) == end);
    tile = end;
  }
}

}  // namespace
}  // namespace tessera
