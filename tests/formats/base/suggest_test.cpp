// The nearest known name to a misspelt one.
#include "formats/base/suggest.hpp"

#include <doctest/doctest.h>

namespace tessera {
namespace {

const std::vector<std::string> kNames{"multiply", "matrix", "acc_spmm", "csr_spmm", "n", "rcm"};

TEST_CASE("a misspelt name has a nearest one") {
  CHECK(nearest_name("mutiply", kNames) == "multiply");
  CHECK(nearest_name("acc_smpm", kNames) == "acc_spmm");
  CHECK(nearest_name("rmc", kNames) == "rcm");
}

TEST_CASE("a beginning of three letters stands for the only name that has it") {
  CHECK(nearest_name("acc", kNames) == "acc_spmm");
  CHECK(nearest_name("ac", kNames) == "");
  CHECK(nearest_name("multi", {"multiply", "multigrid_x"}) == "");
}

TEST_CASE("what shares too little with every name has no nearest one") {
  CHECK(nearest_name("quux", kNames) == "");
  CHECK(nearest_name("x", kNames) == "");
  CHECK(nearest_name("", kNames) == "");
}

}  // namespace
}  // namespace tessera
