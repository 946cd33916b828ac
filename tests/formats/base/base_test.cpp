// The shared ground: names, parameters, loops, random numbers, matrices and permutations.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <set>
#include <thread>

#include "formats/base/kept_threads.hpp"
#include "formats/base/loop_threads.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/permutation.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

struct Toy {
  static constexpr const char* kKind = "toy";
  explicit Toy(std::int64_t size) : size(size) {}
  std::int64_t size;
};

Entry<Toy> toy_entry(const std::string& name) {
  return {.name = name,
          .summary = "a toy",
          .params = {{"size", std::int64_t{3}, "how large", {}, 1, 10},
                     {"colour", std::string("red"), "", {"red", "green"}},
                     {"scale", 1.5, ""},
                     {"loud", false, ""}},
          .make = [](const Params& p) { return std::make_unique<Toy>(p.integer("size")); }};
}

TEST_CASE("an unknown name is an error that suggests the nearest known one") {
  Registry<Toy> registry;
  registry.add(toy_entry("rabbit"));
  registry.add(toy_entry("gorder"));

  CHECK_THROWS_WITH_AS(registry.find("rabit"),
                       "unknown toy 'rabit', did you mean 'rabbit'; known: gorder, rabbit", Error);
  CHECK_THROWS_WITH_AS(registry.find("zzzzzz"), "unknown toy 'zzzzzz'; known: gorder, rabbit",
                       Error);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("abcd", "abdc") == 1);
}

TEST_CASE("a name registered twice aborts and prints both places") {
  const Outcome outcome = in_child([] {
    Registry<Toy> registry;
    for (int line : {1, 2}) {
      Entry<Toy> entry = toy_entry("rabbit");
      entry.where = line == 1 ? std::source_location::current() : entry.where;
      registry.add(entry);
    }
  });

  CHECK(outcome.signal == SIGABRT);
  CHECK(outcome.output.find("toy 'rabbit' is registered twice") != std::string::npos);
  CHECK(outcome.output.find("base_test.cpp:") != std::string::npos);
}

TEST_CASE("parameters are filled in, converted and checked where they are declared") {
  Registry<Toy> registry;
  registry.add(toy_entry("rabbit"));

  CHECK(registry.make("rabbit")->size == 3);
  CHECK(registry.make("rabbit", {{"size", std::string("7")}})->size == 7);
  const Params params =
      registry.resolve("rabbit", {{"scale", std::int64_t{2}}, {"loud", std::string("true")}});
  CHECK(params.real("scale") == 2.0);
  CHECK(params.flag("loud"));
  CHECK(params.text("colour") == "red");
  CHECK_THROWS_WITH_AS(registry.resolve("rabbit", {{"sise", std::int64_t{1}}}),
                       "toy rabbit: unknown parameter 'sise', did you mean 'size'; known: size, "
                       "colour, scale, loud",
                       Error);
  CHECK_THROWS_WITH_AS(registry.resolve("rabbit", {{"size", std::int64_t{11}}}),
                       "toy rabbit: size = 11 is outside [1, 10]", Error);
  CHECK_THROWS_WITH_AS(registry.resolve("rabbit", {{"size", std::string("big")}}),
                       "toy rabbit: size takes an integer, not 'big'", Error);
  CHECK_THROWS_AS(registry.resolve("rabbit", {{"colour", std::string("blue")}}), Error);
}

TEST_CASE("a number with choices takes these only") {
  const std::vector<ParamSpec> specs{{"height", std::int64_t{8}, "", {"8", "16"}}};

  CHECK(Params::resolve("toy", specs, {{"height", std::int64_t{16}}}).integer("height") == 16);
  CHECK(Params::resolve("toy", specs, {{"height", std::string("16")}}).integer("height") == 16);
  CHECK_THROWS_WITH_AS(Params::resolve("toy", specs, {{"height", std::int64_t{12}}}),
                       "toy: unknown value for height '12', did you mean '16'; known: 8, 16",
                       Error);
}

TEST_CASE("a thread has loops of its own number of threads, and others keep theirs") {
  const ThreadCount all(5);
  std::vector<int> inside(64);
  {
    const ThreadsOfLoops few(2);
    CHECK(num_threads() == 2);
    int elsewhere = 0;
    std::thread([&] { elsewhere = num_threads(); }).join();
    CHECK(elsewhere == 5);
    parallel_for(64, 1, [&](std::int64_t begin, std::int64_t) { inside[begin] = num_threads(); });
    {
      const ThreadsOfLoops unchanged(0);
      CHECK(num_threads() == 2);
    }
  }

  CHECK(num_threads() == 5);
  CHECK(std::ranges::count(inside, 2) == 64);
}

TEST_CASE("parallel loops cover every index once and pass on the first failure") {
  const ThreadCount threads(4);
  std::vector<std::atomic<int>> seen(10007);
  std::atomic<bool> at_multiples = true;
  parallel_for(10007, 100, [&](std::int64_t begin, std::int64_t end) {
    if (begin % 100 != 0) at_multiples = false;
    for (std::int64_t i = begin; i < end; ++i) ++seen[i];
  });
  for (const auto& count : seen) REQUIRE(count == 1);
  CHECK(at_multiples);

  parallel_for(0, 10, [&](std::int64_t, std::int64_t) { FAIL("an empty range has no pieces"); });
  CHECK_THROWS_WITH_AS(
      parallel_for(1000, 1,
                   [](std::int64_t i, std::int64_t) { require(i != 500, "piece {} failed", i); }),
      "piece 500 failed", Error);
}

TEST_CASE("kept threads run every piece of many loops, with any number of them, and rethrow") {
  const KeptThreads kept;
  const KeptThreads again;  // inside another scope: uses the threads of that one
  std::vector<std::int64_t> sums(64);
  for (std::int64_t loop = 0; loop < 2000; ++loop) {
    const ThreadCount threads(1 + static_cast<int>(loop % 5));
    parallel_for(64, 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        parallel_for(2, 1, [&](std::int64_t part, std::int64_t) { sums[i] += part * loop; });
    });
  }
  for (const std::int64_t sum : sums) REQUIRE(sum == 1999 * 2000 / 2);

  const ThreadCount threads(4);
  CHECK_THROWS_WITH_AS(
      parallel_for(1000, 1,
                   [](std::int64_t i, std::int64_t) { require(i != 500, "piece {} failed", i); }),
      "piece 500 failed", Error);
  std::atomic<int> pieces = 0;
  parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++pieces; });
  CHECK(pieces == 100);
}

TEST_CASE("random draws are reproducible, spread and never zero where zero would hide a fault") {
  double sum = 0, squares = 0;
  std::set<float> distinct;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float x = random_signed(7, i);
    REQUIRE(x != 0.0f);
    REQUIRE(std::abs(x) < 1.0f);
    sum += x;
    squares += double{x} * x;
    distinct.insert(x);
  }
  CHECK(std::abs(sum / 1e5) < 0.01);
  CHECK(squares / 1e5 == doctest::Approx(1.0 / 3).epsilon(0.01));
  CHECK(distinct.size() > 99000);
  CHECK(random_bits(1, 2) == random_bits(1, 2));
  CHECK(random_bits(1, 2) != random_bits(2, 1));

  double normal_squares = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) normal_squares += std::pow(random_normal(3, i), 2);
  CHECK(normal_squares / 1e5 == doctest::Approx(1.0).epsilon(0.02));
}

TEST_CASE("validate names the row and the cause of every way a CSR can be broken") {
  const auto with = [](std::vector<std::int64_t> offsets, std::vector<std::int32_t> cols) {
    const std::size_t nnz = cols.size();
    return CsrMatrix{2, 3, std::move(offsets), std::move(cols), std::vector<float>(nnz, 1.0f)};
  };
  CHECK_NOTHROW(validate(with({0, 2, 3}, {0, 2, 1})));
  CHECK_THROWS_WITH_AS(validate(with({0, 2}, {0, 2})), "2 rows need 3 row offsets, not 2", Error);
  CHECK_THROWS_WITH_AS(validate(with({1, 2, 3}, {0, 2, 1})), "row offsets start at 1, not 0",
                       Error);
  CHECK_THROWS_WITH_AS(validate(with({0, 2, 4}, {0, 2, 1})),
                       "the last row offset is 4, but there are 3 column indices and 3 values",
                       Error);
  CHECK_THROWS_WITH_AS(validate(with({0, 4, 3}, {0, 2, 1})),
                       "row 0 runs from offset 0 to 4 of 3 nonzeros", Error);
  CHECK_THROWS_WITH_AS(validate(with({0, 2, 3}, {0, 3, 1})), "row 0 holds column 3, outside [0, 3)",
                       Error);
  CHECK_THROWS_WITH_AS(validate(with({0, 2, 3}, {2, 2, 1})),
                       "row 0: column 2 follows column 2; they must ascend", Error);
}

TEST_CASE("transposing and permuting move every value to its place and can be undone") {
  const CsrMatrix a = random_sparse(37, 23, 0.15, 1);

  CHECK(transpose(transpose(a)) == a);
  const CsrMatrix at = transpose(a);
  validate(at);
  CHECK(at.rows == 23);

  RandomSequence random(5);
  std::vector<std::int32_t> order(37), col_order(23);
  for (int i = 0; i < 37; ++i) order[i] = i;
  for (int i = 0; i < 23; ++i) col_order[i] = i;
  random.shuffle(order);
  random.shuffle(col_order);
  const Permutation rows(order), cols(col_order);
  const CsrMatrix moved = permute_cols(permute_rows(a, rows), cols);
  validate(moved);
  const auto dense = to_dense(a), dense_moved = to_dense(moved);
  for (int i = 0; i < 37; ++i)
    for (int j = 0; j < 23; ++j) REQUIRE(dense_moved.at(i, j) == dense.at(order[i], col_order[j]));
  CHECK(permute_rows(permute_cols(moved, cols.inverse()), rows.inverse()) == a);
  CHECK(content_hash(a) != content_hash(moved));
  CHECK(content_hash(a) == content_hash(permute_rows(a, Permutation::identity(37))));

  CHECK_THROWS_WITH_AS(Permutation({0, 1, 1}),
                       "index 1 occurs twice in a permutation, the second time at place 2", Error);
  CHECK_THROWS_WITH_AS(Permutation({0, 3, 1}), "place 1 of a permutation of 3 holds index 3",
                       Error);
}

}  // namespace
}  // namespace tessera
