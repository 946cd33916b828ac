// Where batches of dense matrices lie: which layouts share an element, found by marking every
// element.
#include "kernels/spmm/plan/extents.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <vector>

namespace tessera {
namespace {

/// The distinct elements of a batch, and whether one belongs to two matrices.
struct Marked {
  std::set<std::int64_t> elements;
  bool is_shared = false;

  Marked(const Placed& matrix, const Batch& batch) {
    for (std::int64_t i = 0; i < batch.count; ++i)
      for (std::int64_t row = 0; row < matrix.rows; ++row)
        for (std::int64_t col = 0; col < matrix.cols; ++col)
          is_shared |=
              !elements.insert(i * batch.stride + row * matrix.row_stride + col * matrix.col_stride)
                   .second;
  }
};

}  // namespace

TEST_CASE("matrices of a batch that are told to be apart share no element") {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int apart = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t rows = draw(1, 5), cols = draw(1, 5), gap = draw(0, 20);
    const Placed matrix =
        draw(0, 1) == 0 ? Placed{rows, cols, cols + gap, 1} : Placed{rows, cols, 1, rows + gap};
    const Batch batch{draw(1, 4), draw(0, 60)};
    const Marked marked(matrix, batch);
    const bool told = are_apart(matrix, batch);
    CHECK_FALSE((told && marked.is_shared));
    ++(told ? apart : refused);
    const Extent extent(nullptr, ElementType::kFp16, matrix, batch);
    CHECK(extent.last == 2 * static_cast<std::uint64_t>(*marked.elements.rbegin() + 1));
    if (told) CHECK(extent.dense == 2 * marked.elements.size());
  }
  CHECK(apart > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("batches that follow each other or lie side by side are apart") {
  CHECK(are_apart({3, 4, 4, 1}, {5, 12}));
  CHECK_FALSE(are_apart({3, 4, 4, 1}, {5, 11}));
  CHECK(are_apart({3, 4, 20, 1}, {5, 4}));
  CHECK_FALSE(are_apart({3, 4, 19, 1}, {5, 4}));
  CHECK_FALSE(are_apart({3, 4, 20, 1}, {5, 3}));
  CHECK(are_apart({3, 4, 1, 15}, {5, 3}));
  CHECK(are_apart({3, 4, 4, 1}, {1, 0}));
  CHECK_FALSE(are_apart({3, 4, 4, 1}, {2, 0}));
}

TEST_CASE("extents meet where they share a byte, and have gaps where a byte is of no element") {
  const std::vector<float> memory(100);
  const auto at = [&](std::int64_t first, std::int64_t ld) {
    return Extent(memory.data() + first, ElementType::kFp32, {3, 4, ld, 1}, {2, 3 * ld});
  };
  CHECK(at(0, 4).meets(at(23, 4)));
  CHECK_FALSE(at(0, 4).meets(at(24, 4)));
  CHECK_FALSE(at(24, 4).meets(at(0, 4)));
  CHECK_FALSE(at(0, 4).has_gaps());
  CHECK(at(0, 5).has_gaps());
}

}  // namespace tessera
