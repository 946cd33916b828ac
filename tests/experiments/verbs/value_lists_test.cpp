// Lists of options, split and read.
#include "experiments/verbs/value_lists.hpp"

#include <doctest/doctest.h>

#include "tests/planted_records.hpp"

namespace tessera {
namespace {

using Integers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

TEST_CASE("numbers and ranges make a list without doubles, in the order given") {
  CHECK(integer_values("--n", "32") == Integers{32});
  CHECK(integer_values("--n", "128, 32,128") == Integers{128, 32});
  CHECK(integer_values("--n", "32:512:*2") == Integers{32, 64, 128, 256, 512});
  CHECK(integer_values("--n", "32:500:*2") == Integers{32, 64, 128, 256});
  CHECK(integer_values("--n", "32:128:+32") == Integers{32, 64, 96, 128});
  CHECK(integer_values("--n", "1:7:3") == Integers{1, 4, 7});
  CHECK(integer_values("--n", "8,32:128:*2,100") == Integers{8, 32, 64, 128, 100});
  CHECK(integer_values("--n", "9223372036854775807:9223372036854775807:*2").size() == 1);
}

TEST_CASE("a range that is none says what was expected") {
  const auto error = [](const char* text) {
    return error_of([&] { integer_values("--n", text); });
  };
  CHECK(error("x") ==
        "--n x: a number, or a range FROM:TO:STEP, was expected, as in 32:512:*2 or 32:128:+32");
  for (const char* text : {"", "32:", "1:2", "1:2:3:4", "32,,64", "1:2:x", "3.5"})
    CHECK(error(text).find("a range FROM:TO:STEP, was expected") != std::string::npos);
  CHECK(error("0") == "--n 0: 1 or more was expected, not 0");
  CHECK(error("-8").find("1 or more was expected") != std::string::npos);
  CHECK(error("32:512:*1") == "--n 32:512:*1: with the step *1 the range has no end");
  CHECK(error("32:512:0").find("has no end") != std::string::npos);
  CHECK(error("512:32:*2") == "--n 512:32:*2: a range goes up, from 1 or more");
  CHECK(error("1:1000000:1") == "--n 1:1000000:1: more than 1000 values");
}

TEST_CASE("values are split at commas outside brackets and quotes") {
  CHECK(split_values("--kernel", "a,b") == Texts{"a", "b"});
  CHECK(split_values("--kernel", "acc_spmm(precision=tf32, stages=3), csr_spmm") ==
        Texts{"acc_spmm(precision=tf32, stages=3)", "csr_spmm"});
  CHECK(split_values("--kernel", "f(x=\"a,b)\"),g") == Texts{"f(x=\"a,b)\")", "g"});
  CHECK(split_values("--kernel", Texts{"a,b", "c"}) == Texts{"a", "b", "c"});
  CHECK(error_of([] { split_values("--kernel", "a,,b"); }) == "--kernel a,,b: a value is missing");
}

TEST_CASE("a selection has typed values, and a column given twice has the values of both") {
  const Settings where = where_values("--where", {"kernel=acc_spmm,csr_spmm", "n=32", "n=64"});
  CHECK(where.at("kernel").value == Json({"acc_spmm", "csr_spmm"}));
  CHECK(where.at("n").value == Json({32, 64}));
  CHECK(where.at("n").place == "--where n");
  CHECK(plain_value("true") == Json(true));
  CHECK(plain_value("0.5") == Json(0.5));
  CHECK(plain_value("2cubes") == Json("2cubes"));
  CHECK(error_of([] { where_values("--where", {"kernel"}); }) ==
        "--where kernel: COLUMN=VALUE was expected, as in kernel=csr_spmm");
}

}  // namespace
}  // namespace tessera
