// The index of the SuiteSparse Matrix Collection, read from made-up files.
#include "formats/io/collection_index.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

const std::string kIndex =
    "3\n31-Oct-2026 18:12:37\n"
    "HB,small,10,10,30,1,0,0,1,1.0,0.5,structural problem\n"
    "Deep,\"odd, but quoted\",20000,15000,90000,1,1,0,0,0,0,undirected graph,90000\n"
    "Far,wide,20000,20000,50000,0,0,1,0,0.25,0.125,2D/3D problem,50001\r\n";

/// The index of a file with this text, through $TESSERA_COLLECTION_INDEX.
CollectionIndex index_of(const std::string& text) {
  const TemporaryFolder folder;
  write_text(folder / "index.csv", text);
  const EnvironmentVariable own("TESSERA_COLLECTION_INDEX", folder / "index.csv");
  return collection_index().value();
}

TEST_CASE("the index gives every matrix with its sizes, its traits and its kind") {
  const CollectionIndex index = index_of(kIndex);

  CHECK(index.revised == "31-Oct-2026 18:12:37");
  REQUIRE(index.matrices.size() == 3);
  const CollectionMatrix& small = index.matrices[0];
  CHECK(small.full_name() == "HB/small");
  CHECK(small.rows == 10);
  CHECK(small.nnz == 30);
  CHECK(small.real);
  CHECK_FALSE(small.binary);
  CHECK(small.posdef);
  CHECK(small.pattern_symmetry == 1.0);
  CHECK(small.numerical_symmetry == 0.5);
  CHECK(small.kind == "structural problem");
  CHECK(index.matrices[1].name == "odd, but quoted");
  CHECK(index.matrices[1].cols == 15000);
  CHECK(index.matrices[1].binary);
  CHECK_FALSE(index.matrices[2].real);
  CHECK(index.matrices[2].mesh);
}

TEST_CASE("an index that is cut off or broken is refused with its file and line") {
  const auto refused = [](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH_AS(index_of(text), doctest::Contains(("index.csv" + message).c_str()), Error);
  };

  refused(kIndex.substr(0, kIndex.find("Far")),
          ": 2 matrices, but its first line says 3: the file is not whole");
  refused("<html>\n", ":1: the index of the collection begins with the number");
  refused("1\nto-day\nHB,small,10\n", ":3: 3 fields in place of 12 or more");
  refused("1\nto-day\nHB,small,ten,10,30,1,0,0,1,1,1,kind\n",
          ":3: field 3 is 'ten', not a number of at least 0");
  refused("1\nto-day\nHB,,10,10,30,1,0,0,1,1,1,kind\n", ":3: field 2 is empty");
}

TEST_CASE("without an index there is none, and a named one has to be there") {
  const TemporaryFolder folder;
  const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
  {
    const EnvironmentVariable own("TESSERA_COLLECTION_INDEX", "");
    CHECK_FALSE(collection_index());
    std::filesystem::create_directories(std::filesystem::path(fetched_index_path()).parent_path());
    write_text(fetched_index_path(), kIndex);
    CHECK(collection_index().value().matrices.size() == 3);
  }
  const EnvironmentVariable own("TESSERA_COLLECTION_INDEX", folder / "none.csv");
  CHECK_THROWS_WITH_AS(collection_index(), doctest::Contains("none.csv: there is no such file"),
                       Error);
}

}  // namespace
}  // namespace tessera
