// Rows of C back into the order of the file: the result is right, and it is timed where a point
// requests that.
#include "experiments/backends/restore.hpp"

#include <doctest/doctest.h>

#include "experiments/config/plan.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

DenseMatrix drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  DenseMatrix matrix(rows, cols);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = random_signed(seed, i);
  return matrix;
}

TEST_CASE("restoring the rows of C undoes their order") {
  const DenseMatrix c = drawn(5, 3, 1);
  const Permutation rows({3, 0, 4, 1, 2});

  CHECK(restore_rows(permute_rows(c, rows), rows).values == c.values);
  CHECK(restore_rows(c, rows).row(3)[1] == c.row(0)[1]);
  CHECK(restore_rows(c, rows).values != c.values);
  CHECK(restore_rows(c, Permutation::identity(5)).values == c.values);
}

TEST_CASE("restoring is timed over several copies, and takes no time where rows have stayed") {
  const DenseMatrix c = drawn(4000, 32, 2);
  std::vector<std::int32_t> reversed(4000);
  for (std::int32_t i = 0; i < 4000; ++i) reversed[i] = 3999 - i;

  const RestorePart restoring = time_restoring(c, Permutation(reversed));

  REQUIRE(restoring.summary);
  CHECK(restoring.summary->median > 0);
  CHECK(restoring.summary->samples == 5);
  CHECK(restoring.on == "cpu");
  CHECK_FALSE(time_restoring(c, Permutation::identity(4000)).summary);
}

Plan plan_of(const std::string& measure) {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\", \"model\"]\n"
             "[grid]\nmatrix = \"rmat(scale=8)\"\nn = 16\nkernel = \"csr_spmm\"\n"
             "reorder = \"degree\"\n[measure]\n" +
                 measure);
  return make_plan(load_config(folder / "c.toml"));
}

TEST_CASE("a product records the time of restoring its rows on request") {
  const Plan asked = plan_of("unpermute = true\n"), silent = plan_of("");

  const Json json = to_json(asked.entries.at(0).point);
  CHECK(json["unpermute"] == true);
  CHECK(to_json(point_from_json(json)) == json);
  CHECK_FALSE(to_json(asked.entries.at(1).point).contains("unpermute"));  // computes no C
  CHECK_FALSE(to_json(silent.entries.at(0).point).contains("unpermute"));
  Json wrong = json;
  wrong["unpermute"] = false;
  CHECK_THROWS_WITH_AS(point_from_json(wrong), "unpermute: a point has it only when it is true",
                       Error);

  const Json record = PointRunner().run(asked.entries.at(0).point).record;
  CHECK(record["status"] == "ok");
  CHECK(record["unpermute"]["median_us"] > 0);
  CHECK_FALSE(PointRunner().run(silent.entries.at(0).point).record.found.unpermute);
}

}  // namespace
}  // namespace tessera
