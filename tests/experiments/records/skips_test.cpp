// Skipped points by cause.
#include "experiments/records/skips.hpp"

#include <doctest/doctest.h>

namespace tessera {
namespace {

Skip absent(const std::string& matrix, const std::string& backend) {
  return {{kAbsentMatrix, matrix}, backend, "there is no matrix '" + matrix + "'"};
}

TEST_CASE("absent matrices are one cause, whatever they are called and whoever needs them") {
  SkipCount count;
  for (const char* matrix : {"cora", "DD", "cora", "pubmed", "wave", "citeseer"})
    for (const char* backend : {"gpu", "simulate"}) count.add(absent(matrix, backend));

  REQUIRE(count.groups().size() == 1);
  CHECK(
      count.groups()[0].text() ==
      "12 skipped: 5 matrices not found (DD, citeseer, cora and 2 more); set $TESSERA_DATA to the "
      "folder that has them, or download with `tessera matrix fetch`");
  CHECK(count.to_json()[0]["points"] == 12);
  CHECK(count.to_json()[0]["matrices"].size() == 5);
}

TEST_CASE("a backend is one cause for all matrices, a kernel one in each backend") {
  SkipCount count;
  count.add({{"kernel", "cusparse"}, "simulate", "no trace"});
  count.add({{"kernel", "cusparse"}, "emulate", "no emulation"});
  for (int i = 0; i < 3; ++i) count.add({{"backend", "gpu"}, "gpu", "no CUDA device"});
  count.add({{"kernel", "cusparse"}, "simulate", "no trace"});

  REQUIRE(count.groups().size() == 3);
  CHECK(count.groups()[0].text() == "3 skipped: backend gpu: no CUDA device");
  CHECK(count.groups()[1].text("would be") ==
        "2 would be: kernel cusparse, backend simulate: no trace");
  CHECK(count.groups()[2].text() == "1 skipped: kernel cusparse, backend emulate: no emulation");
}

TEST_CASE("a reason that names sizes does not divide a cause") {
  SkipCount count;
  count.add({{"order", "rcm"}, "emulate", "3 x 4 is not square"});
  count.add({{"order", "rcm"}, "gpu", "5 x 6 is not square"});

  REQUIRE(count.groups().size() == 1);
  CHECK(count.groups()[0].text() == "2 skipped: order rcm: 3 x 4 is not square (for one of them)");
}

TEST_CASE("records from before causes were recorded are divided by their reasons") {
  SkipCount count;
  for (const char* reason : {"one", "two", "one"})
    count.add(skip_of({{"params", {{"backend", "gpu"}}}, {"reason", reason}}));

  REQUIRE(count.groups().size() == 2);
  CHECK(count.groups()[0].text() == "2 skipped: one");
}

}  // namespace
}  // namespace tessera
