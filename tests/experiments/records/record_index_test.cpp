// The index of a record set: lines are found again in their files, whatever their form and size.
#include "experiments/records/record_index.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <random>

#include "experiments/records/record_set.hpp"
#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

Json point(const std::string& id, int n) {
  return {{"schema", 1},
          {"type", "point"},
          {"point_id", id},
          {"params_hash", "request of " + id},
          {"params", {{"n", n}}},
          {"status", "ok"},
          {"finished_at", fmt::format("2026-01-01T00:{:02}:{:02}Z", n / 60 % 60, n % 60)}};
}

/// What `lines` finds of every record, beside the record of the set: one text each.
void check_lines(const std::string& folder) {
  const RecordIndex index = read_index(folder);
  const RecordSet set = read_records(folder);
  REQUIRE(index.points.size() == set.points.size());
  IndexedLines lines(index);
  for (std::size_t i = 0; i < set.points.size(); ++i) {
    REQUIRE(lines.line(index.points[i]) == set.points[i].dump());
    REQUIRE(index.points[i].point_id == set.points[i]["point_id"]);
    REQUIRE(time_of(index.points[i]) == time_of(set.points[i]));
  }
}

TEST_CASE("lines of every length and form are found again in their files") {
  std::mt19937_64 random(30);
  const TemporaryFolder folder;
  std::string text[2];
  for (int i = 0; i < 3000; ++i) {
    Json record = point(std::to_string(random() % 1000), i);
    // Some lines are longer than the pieces in which a file is read.
    record["reason"] = std::string(random() % 97 == 0 ? random() % 3'000'000 : random() % 50, 'x');
    text[random() % 2] += record.dump() + "\n";
    if (random() % 3 == 0) {
      text[random() % 2] += fmt::format("{{ {}\n", record.dump().substr(1));
    }
  }
  write_text(folder / "a.jsonl", text[0]);
  write_text(folder / "b.jsonl", text[1] + R"({"torn": "its end was never wri)");

  check_lines(folder.path());
}

TEST_CASE("every attempt is visited once, with its number, and the last one is kept") {
  // The second number is beyond what a thread reads at a time.
  for (const int size : {1, 2'000'000}) {
    CAPTURE(size);
    const TemporaryFolder folder;
    std::string text;
    for (int i = 0; i < 20; ++i) {
      Json record = point(std::to_string(i % 5), i);
      record["reason"] = std::string(size, 'x');
      text += record.dump() + "\n";
    }
    write_text(folder / "a.jsonl", text);
    std::deque<std::vector<double>> pieces;

    const RecordIndex index = read_index(folder.path(), false, [&] {
      return [&piece = pieces.emplace_back()](const JsonLine& line) {
        piece.push_back(JsonLine::number_of(line.find({"params", "n"})));
      };
    });

    CHECK(pieces.size() == (size == 1 ? 1 : 3));
    std::vector<double> visited;
    for (const auto& piece : pieces) visited.insert(visited.end(), piece.begin(), piece.end());
    REQUIRE(visited.size() == 20);
    REQUIRE(index.points.size() == 5);
    for (int i = 0; i < 5; ++i) {
      CHECK(index.points[i].number == 15 + i);
      CHECK(visited[index.points[i].number] == 15 + i);
    }
  }
}

TEST_CASE("attempts of several files are in the order of time, also where clocks went back") {
  std::mt19937_64 random(31);
  const TemporaryFolder folder;
  for (const char* name : {"a.jsonl", "b.jsonl", "c.jsonl"}) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      const int at = random() % 10 == 0 ? static_cast<int>(random() % 200) : i;
      text += point(fmt::format("{} {}", name, i), at).dump() + "\n";
    }
    write_text(folder / name, text);
  }

  const RecordIndex index = read_index(folder.path());

  REQUIRE(index.points.size() == 600);
  for (std::size_t i = 1; i < index.points.size(); ++i) {
    const IndexedRecord &before = index.points[i - 1], &after = index.points[i];
    REQUIRE(time_of(before) <= time_of(after));
    if (time_of(before) == time_of(after)) REQUIRE(before.number < after.number);
  }
}

TEST_CASE("an error in a part of a file that some thread reads names the line, and is the first") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.jsonl";
  std::string text;
  for (int i = 0; i < 30; ++i) {
    Json record = point(std::to_string(i), i);
    record["reason"] = std::string(2'000'000, 'x');
    if (i == 17 || i == 28) record.erase("point_id");
    text += record.dump() + "\n";
  }
  write_text(path, text);

  CHECK_THROWS_WITH_AS(read_index(path), (path + ":18: a record needs 'point_id', a text").c_str(),
                       Error);
}

TEST_CASE("a file that is changed while it is read is an error, one that is extended is none") {
  const TemporaryFolder folder;
  const std::string path = folder / "a.jsonl";
  const std::string text = point("a", 1).dump() + "\n" + point("b", 2).dump() + "\n";
  const auto error_after = [&](const std::string& changed) -> std::string {
    write_text(path, text);
    const RecordIndex index = read_index(path);
    write_text(path, changed);
    try {
      IndexedLines lines(index);
      for (const IndexedRecord& record : index.points) lines.line(record);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const std::string changed = path + ": it was changed, not only extended, while it was read";

  CHECK(error_after(text + point("c", 3).dump() + "\n") == "none");
  CHECK(error_after(text.substr(0, text.size() - 5)) == changed);
  CHECK(error_after("") == changed);
  CHECK(error_after(point("x", 1).dump() + "\n" + point("b", 2).dump() + "\n") == changed);
}

}  // namespace
}  // namespace tessera
