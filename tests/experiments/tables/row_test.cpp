// A row of a table: it has its columns in order, and what it shares with others stays theirs.
#include "experiments/tables/row.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <stdexcept>

#include "experiments/tables/distinct_texts.hpp"

namespace tessera {
namespace {

TEST_CASE("a row holds what a map holds, after any changes") {
  std::mt19937_64 random(30);
  for (int round = 0; round < 200; ++round) {
    Row row;
    std::map<std::string, Json> map;
    for (int change = 0; change < 60; ++change) {
      const std::string column = "column " + std::to_string(random() % 12);
      const Json value = random() % 2 == 0 ? Json(random() % 100) : Json("text");
      switch (random() % 3) {
        case 0:
          map[column] = row[column] = value;
          break;
        case 1:
          row.share(column_name(column), std::make_shared<Json>(value));
          map[column] = value;
          break;
        default:
          row.erase(column);
          map.erase(column);
      }
    }
    REQUIRE(Json(row) == Json(map));
    REQUIRE(Json(row).get<Row>() == row);
    auto place = map.begin();
    for (const auto& [column, value] : row) {
      REQUIRE(column == place->first);
      REQUIRE(value == place->second);
      ++place;
    }
    REQUIRE(place == map.end());
    for (int c = 0; c < 13; ++c) {
      const std::string column = "column " + std::to_string(c);
      REQUIRE(row.contains(column) == map.contains(column));
      REQUIRE((row.find_name(column_name(column)) == row.find(column)));
      if (map.contains(column))
        REQUIRE(row.at(column) == map.at(column));
      else
        REQUIRE_THROWS_AS(row.at(column), std::out_of_range);
    }
  }
}

TEST_CASE("a change of one row's value changes no other row") {
  const auto value = std::make_shared<Json>(1);
  Row a, b;
  a.share(column_name("x"), value);
  b.share(column_name("x"), value);
  Row copy = b;
  a["x"] = 2;
  copy["x"] = 3;
  CHECK(a.at("x") == 2);
  CHECK(b.at("x") == 1);
  CHECK(copy.at("x") == 3);
  CHECK_FALSE(a == b);
  b["x"] = 2;
  CHECK(a == b);
  CHECK(*value == 1);
}

TEST_CASE("texts of a column are numbered in the order of their rows, shared or not") {
  const auto shared = std::make_shared<Json>("b");
  std::vector<Row> rows(6);
  rows[0].share(column_name("x"), shared);
  rows[2].share(column_name("x"), shared);
  rows[3]["x"] = "a";
  rows[4]["x"] = "b";
  rows[5]["x"] = 1.5;
  DistinctTexts texts("x"), none("");
  std::vector<std::uint32_t> numbers;
  for (const Row& row : rows) {
    numbers.push_back(texts.number(row));
    CHECK(none.number(row) == 0);
  }
  CHECK(numbers == std::vector<std::uint32_t>{0, 1, 0, 2, 0, 3});
  CHECK(texts.texts() == std::vector<std::string>{"b", "", "a", "1.5"});
  CHECK(none.texts() == std::vector<std::string>{""});
}

}  // namespace
}  // namespace tessera
