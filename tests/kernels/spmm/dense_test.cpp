// dense_spmm without a GPU: its tiles, how the depth is shared, and its sums.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "formats/base/registry.hpp"
#include "formats/dense_tiles.hpp"
#include "kernels/spmm/dense/schedule.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

std::unique_ptr<PackedMatrix> pack_dense(const CsrMatrix& a, std::int64_t growth = 0) {
  return Registry<Format>::instance().make(DenseTiles::kFormat, {{"growth", growth}})->pack(a);
}

TEST_CASE("dense tiles have a place of their own for every cell") {
  constexpr std::int64_t kRows = 130, kCols = 70;
  std::set<std::int64_t> places;
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t col = 0; col < kCols; ++col)
      places.insert(DenseTiles::cell(row, col, DenseTiles::col_tiles_of(kCols)));
  CHECK(std::ssize(places) == kRows * kCols);
  CHECK(*places.rbegin() < DenseTiles::places(kRows, kCols));
  // Row 9 and column 13: the second tile, its second eight rows, their last four columns.
  CHECK(DenseTiles::cell(9, 13, 8) == 512 + 64 + 32 + 4 + 1);
}

TEST_CASE("dense tiles refuse an A with more places for a nonzero than their growth") {
  const CsrMatrix a = random_sparse(64, 64, 0.1, 3);
  const std::int64_t growth = 64 * 64 / a.nnz() + 1;
  CHECK(pack_dense(a, growth)->unpack() == a);
  CHECK_THROWS_WITH_AS(pack_dense(a, growth - 1), doctest::Contains("more than growth = "),
                       Unsupported);
}

TEST_CASE("the parts of dense_spmm's depth are all of it, and fill a GPU") {
  for (const std::int64_t rows : {1, 64, 500, 2048, 20000})
    for (const std::int64_t depth : {0, 1, 33, 512, 2048, 30000})
      for (const std::int64_t n : {1, 64, 65, 128, 513})
        for (const int bytes : {2, 4}) {
          CAPTURE(rows);
          CAPTURE(depth);
          CAPTURE(n);
          CAPTURE(bytes);
          const dense_spmm::Schedule schedule = dense_spmm::make_schedule(rows, depth, n, bytes);
          const int stages = static_cast<int>(schedule.stages(depth));
          const int parts = schedule.parts();
          CHECK(dense_spmm::first_stage(stages, schedule.parts_log2, 0) == 0);
          CHECK(dense_spmm::first_stage(stages, schedule.parts_log2, parts) == stages);
          CHECK((parts == 1 || stages >= 2 * parts));
          CHECK(2 * schedule.shared_bytes() + 2048 <= kH200Limits.shared_bytes);
          const std::int64_t tiles = schedule.row_tiles(rows) * schedule.column_tiles(n);
          CHECK((parts == 1 || parts * tiles <= 132));
          CHECK((parts == 8 || 2 * parts * tiles > 132 || 4 * parts > stages));
        }
}

TEST_CASE("dense_spmm adds the chains of its parts in their order") {
  const CsrMatrix a = random_sparse(3, 300, 0.4, 11);
  const DenseMatrix b = random_dense(300, 5, 12);
  for (const char* storage : {"fp32", "bf16"}) {
    const auto kernel =
        Registry<SpmmKernel>::instance().make("dense_spmm", {{"storage", std::string(storage)}});
    const bool narrow = std::string(storage) == "bf16";
    const dense_spmm::Schedule schedule = dense_spmm::make_schedule(3, 300, 5, narrow ? 2 : 4);
    REQUIRE(schedule.parts() > 1);
    const auto stages = static_cast<int>(schedule.stages(300));
    const Precision& precision = find_precision(narrow ? "bf16" : "tf32_even");
    const Generation& hopper = find_generation("hopper");
    const FusedStep& step = hopper.step(type_of(precision.conversion));
    const PreparedB prepared(b, precision);
    DenseMatrix expected(3, 5);
    for (std::int32_t row = 0; row < 3; ++row) {
      for (int part = 0; part < schedule.parts(); ++part) {
        const std::int64_t first =
            dense_spmm::first_stage(stages, schedule.parts_log2, part) * schedule.stage_depth();
        const std::int64_t last =
            dense_spmm::first_stage(stages, schedule.parts_log2, part + 1) * schedule.stage_depth();
        // Every column takes part, so that no step is shifted: zeros change no sum.
        std::vector<RowTerm> terms;
        for (std::int64_t col = first; col < std::min<std::int64_t>(last, 300); ++col)
          terms.push_back({0.0f, col});
        for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k)
          if (a.col_indices[k] >= first && a.col_indices[k] < last)
            terms[a.col_indices[k] - first].value = a.values[k];
        std::vector<float> sums(5, 0.0f);
        multiply_row(precision, step, dense_spmm::depth_of_step(narrow ? 2 : 4), terms, prepared,
                     sums);
        for (std::size_t j = 0; j < sums.size(); ++j)
          expected.row(row)[j] = part == 0 ? sums[j] : add_on_gpu(expected.row(row)[j], sums[j]);
      }
    }
    CAPTURE(std::string(storage));
    CHECK(kernel->emulate(*pack_dense(a), b, hopper).values == expected.values);
  }
}

TEST_CASE("an infinity of B reaches every row of a product by dense_spmm") {
  const CsrMatrix a = random_sparse(70, 40, 0.2, 5);
  DenseMatrix b = random_dense(40, 3, 6);
  b.row(7)[1] = std::numeric_limits<float>::infinity();
  const DenseMatrix c = Registry<SpmmKernel>::instance()
                            .make("dense_spmm")
                            ->emulate(*pack_dense(a), b, find_generation("hopper"));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    CHECK(!std::isfinite(c.row(row)[1]));
    CHECK(std::isfinite(c.row(row)[0]));
  }
}

}  // namespace
}  // namespace tessera
