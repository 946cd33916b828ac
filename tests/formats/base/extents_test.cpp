// Products of extents that a user chooses.
#include "formats/base/extents.hpp"

#include <doctest/doctest.h>

#include "formats/base/matrix.hpp"

namespace tessera {
namespace {

TEST_CASE("a product of extents that overflows is an error that names both") {
  CHECK(element_count(3, 4) == 12);
  CHECK(element_count(0, 9'000'000'000'000'000'000) == 0);
  CHECK(element_count(9'000'000'000'000'000'000, 0) == 0);
  CHECK(element_count(std::int64_t{1} << 30, std::int64_t{1} << 29) == std::int64_t{1} << 59);
  CHECK_THROWS_WITH_AS(element_count(64, 9'000'000'000'000'000'000),
                       "a dense matrix of 64 x 9000000000000000000 fits no memory", Error);
  CHECK_THROWS_AS(element_count(std::int64_t{1} << 30, std::int64_t{1} << 30), Error);
  CHECK_THROWS_AS(element_count(-1, 4), Error);
}

TEST_CASE("a dense matrix whose extents overflow is an error that names both") {
  // The products wrap to 0 and to 64.
  CHECK_THROWS_WITH_AS(DenseMatrix(64, 288230376151711744),
                       "a dense matrix of 64 x 288230376151711744 fits no memory", Error);
  CHECK_THROWS_AS(random_dense(64, 288230376151711745, 1), Error);
}

// The address sanitizer ends the process where `new` would throw.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a dense matrix beyond this machine's memory is told with its extents") {
  CHECK_THROWS_WITH_AS(DenseMatrix(1, 288230376151711744),
                       "this machine has too little memory for a dense matrix of 1 x "
                       "288230376151711744",
                       OutOfMemory);
}
#endif

}  // namespace
}  // namespace tessera
