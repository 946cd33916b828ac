// Records: what is appended is read back, and traces of a killed or careless writer are recognised.
#include "experiments/records/record_set.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <limits>

#include "formats/base/check.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

/// A record as far as a record set needs one.
Json point(const std::string& id, const std::string& status = "ok",
           const std::string& finished_at = "2026-01-01T00:00:00Z") {
  return {{"schema", 1},
          {"type", "point"},
          {"point_id", id},
          {"params_hash", "request of " + id},
          {"params", Json::object()},
          {"status", status},
          {"finished_at", finished_at}};
}

Json environment(const std::string& id, const std::string& host) {
  return {{"schema", 1}, {"type", "env"}, {"env_id", id}, {"host", host}};
}

std::string lines(const std::vector<Json>& records) {
  std::string text;
  for (const Json& record : records) text += record.dump() + "\n";
  return text;
}

/// "a=ok b=failed": the points of a set, in order.
std::string told(const RecordSet& set) {
  std::vector<std::string> points;
  for (const Json& record : set.points)
    points.push_back(fmt::format("{}={}", record["point_id"].get<std::string>(),
                                 record["status"].get<std::string>()));
  return fmt::format("{}", fmt::join(points, " "));
}

std::string error_of(const std::string& path) {
  try {
    read_records(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("texts and keys of records are escaped when they are read, and safe ones stay") {
  const TemporaryFolder folder;
  Json record = point("a");
  record["reason"] = "gr\u00fc\u00df \"c:\\d\"";
  record["deep"] = {{{"k\x1b", {"\r\n", "\u009b", 1.5}}}};
  write_text(folder / "r.jsonl", lines({record}));

  const Json read = read_records(folder / "r.jsonl").points.at(0);

  CHECK(read["reason"] == record["reason"]);
  CHECK(read["deep"].dump() == R"([{"k\\x1b":["\\x0d\\x0a","\\xc2\\x9b",1.5]}])");
}

TEST_CASE("a point has its last attempt, or the last one of every machine") {
  const TemporaryFolder folder;
  std::vector<Json> attempts;
  for (const auto& [machine, status] :
       {std::pair("old", "failed"), {"old", "ok"}, {"new", "wrong"}}) {
    attempts.push_back(point("a", status));
    attempts.back()["env_id"] = machine;
  }
  write_text(folder / "r.jsonl", lines(attempts));
  CHECK(told(read_records(folder / "r.jsonl")) == "a=wrong");
  CHECK(told(read_records(folder / "r.jsonl", true)) == "a=ok a=wrong");
}

TEST_CASE("records are read as they were appended, by one writer or by several in turn") {
  const TemporaryFolder folder;
  const std::string path = folder / "new/deep/records.jsonl";

  {
    RecordWriter writer(path);
    writer.append(environment("e1", "one"));
    writer.append(point("a"));
  }
  RecordWriter(path).append(point("b", "failed"));

  const std::vector<Json> all = read_json_lines(path);
  REQUIRE(all.size() == 3);
  CHECK(all[0] == environment("e1", "one"));
  CHECK(all[2] == point("b", "failed"));
  CHECK(told(read_records(path)) == "a=ok b=failed");
  CHECK(read_records(path).environments.at("e1") == environment("e1", "one"));
  CHECK(read_text(path) == lines(all));
}

TEST_CASE("an appended line is in the file before the writer is gone") {
  const TemporaryFolder folder;
  RecordWriter writer(folder / "r.jsonl");

  writer.append(point("a"));

  CHECK(told(read_records(folder / "r.jsonl")) == "a=ok");
  writer.add(point("b"));
  CHECK(told(read_records(folder / "r.jsonl")) == "a=ok b=ok");
  writer.sync();
  CHECK(told(read_records(folder / "r.jsonl")) == "a=ok b=ok");
}

TEST_CASE("what JSON cannot hold is written as null or replaced, and a line stays a line") {
  const TemporaryFolder folder;
  Json record = point("a");
  record["time"] = std::numeric_limits<double>::quiet_NaN();
  record["reason"] = "two\nlines, and a byte that is no UTF-8: \xff";

  RecordWriter(folder / "r.jsonl").append(record);

  const std::vector<Json> all = read_json_lines(folder / "r.jsonl");
  REQUIRE(all.size() == 1);
  CHECK(all[0]["time"].is_null());
  CHECK(all[0]["reason"].get<std::string>().starts_with("two\\x0alines"));
}

TEST_CASE("a torn last line is ignored, and cut off before the next append") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  const std::string whole = lines({point("a"), point("b")});
  const std::string last = point("c").dump();
  for (const std::size_t kept : {std::size_t{1}, last.size() / 2, last.size() - 1}) {
    CAPTURE(kept);
    write_text(path, whole + last.substr(0, kept));

    CHECK(told(read_records(path)) == "a=ok b=ok");

    RecordWriter(path).append(point("d"));
    CHECK(read_text(path) == whole + lines({point("d")}));
  }
}

TEST_CASE("a whole last record counts without its newline, and keeps its place before the next") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  write_text(path, lines({point("a")}) + point("b").dump());

  CHECK(told(read_records(path)) == "a=ok b=ok");

  RecordWriter(path).append(point("c"));
  CHECK(read_text(path) == lines({point("a"), point("b"), point("c")}));
}

TEST_CASE("a file that is nothing but a torn line, or empty, holds no records") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{\"schema\":1"}) {
    write_text(folder / "r.jsonl", text);
    CHECK(read_records(folder / "r.jsonl").points.empty());

    RecordWriter(folder / "r.jsonl").append(point("a"));
    CHECK(read_text(folder / "r.jsonl") == lines({point("a")}));
  }
}

TEST_CASE("a broken line that is not the last is an error with its place") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  for (const char* broken : {"{\"schema\":1,\"typ", "", "[1, 2]", "12", "{} {}", "\xff\xfe"}) {
    CAPTURE(broken);
    write_text(path, lines({point("a")}) + broken + "\n" + lines({point("b")}));

    CHECK(error_of(path) == path + ":2: not a record: a line holds one JSON object");
  }
  write_text(path, "torn\n");
  CHECK(error_of(path).starts_with(path + ":1: "));
}

TEST_CASE("a line that is JSON and no record is an error with its place") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  const auto error_with = [&](const std::string& key, const Json& value) {
    Json record = point("b");
    if (value.is_null())
      record.erase(key);
    else
      record[key] = value;
    write_text(path, lines({point("a"), record, point("c")}));
    return error_of(path);
  };

  CHECK(error_with("reason", 12) == "no error");
  for (const char* key : {"type", "point_id", "params_hash", "status", "finished_at"}) {
    CAPTURE(key);
    CHECK(error_with(key, nullptr) == path + ":2: a record needs '" + key + "', a text");
    CHECK(error_with(key, 12) == path + ":2: a record needs '" + key + "', a text");
  }
  CHECK(error_with("params", "text") == path + ":2: a record needs 'params', an object");
  CHECK(error_with("type", "pint") == path + ":2: a record of unknown type \"pint\"");
  CHECK(error_with("schema", 2) == path + ":2: a record of schema 2, this program reads schema 1");
  CHECK(error_with("schema", nullptr).starts_with(path + ":2: a record of schema null"));
  write_text(path, lines({{{"schema", 1}, {"type", "env"}}}));
  CHECK(error_of(path) == path + ":1: a record needs 'env_id', a text");
}

TEST_CASE("of several attempts at a point the last counts, and takes its place in the order") {
  const TemporaryFolder folder;
  write_text(folder / "r.jsonl", lines({point("a", "failed"), point("b"), point("a", "timeout"),
                                        point("c"), point("a", "ok"), point("c", "wrong")}));

  CHECK(told(read_records(folder / "r.jsonl")) == "b=ok a=ok c=wrong");
}

TEST_CASE("of two files the attempt that was finished later counts, whatever their names") {
  const TemporaryFolder folder;
  const std::string early = "2026-01-01T00:00:00Z", late = "2026-01-02T00:00:00Z";
  write_text(folder / "x.jsonl", lines({point("a", "ok", late), point("b", "failed", early)}));
  write_text(folder / "y.jsonl", lines({point("a", "failed", early), point("b", "ok", late)}));
  write_text(folder / "notes.txt", "not a record\n");

  CHECK(told(read_records(folder.path())) == "a=ok b=ok");
}

TEST_CASE("an attempt counts after the one it replaces, though a clock dated that in the future") {
  const TemporaryFolder folder;
  const std::string future = "2999-01-01T00:00:00Z";
  Json again = point("a", "failed", "2026-01-01T00:00:00Z");
  again["after"] = future;
  Json once_more = point("a", "ok", "2026-01-02T00:00:00Z");
  once_more["after"] = time_of(again);
  // The names sort against time.
  write_text(folder / "x.jsonl", lines({once_more}));
  write_text(folder / "y.jsonl", lines({again}));
  write_text(folder / "z.jsonl", lines({point("a", "timeout", future)}));

  CHECK(told(read_records(folder.path())) == "a=ok");
  CHECK(time_of(once_more) == future);
  CHECK(time_of(point("a")) == "2026-01-01T00:00:00Z");
  CHECK(is_later(once_more, again));
  CHECK(is_later(again, point("a", "timeout", future)));
  CHECK_FALSE(is_later(point("a", "timeout", future), once_more));
}

TEST_CASE("a record that nests without end is an error with its place") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  Json deep = point("b");
  deep["reason"] = "not a level: [[[[ \\\" {{{{";
  for (const auto& [levels, allowed] : {std::pair(99, true), {100, false}, {1'000'000, false}}) {
    CAPTURE(levels);
    std::string text = deep.dump();
    text.back() = ',';
    text += "\"deep\":" + std::string(levels, '[') + std::string(levels, ']') + "}\n";
    write_text(path, lines({point("a")}) + text);

    CHECK(error_of(path) ==
          (allowed ? "no error" : path + ":2: a record nests at most 100 levels"));
  }
}

TEST_CASE("a long torn line is cut off, and a long whole one without its newline is kept") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  Json wide = point("b");
  wide["reason"] = std::string(300'000, 'x');
  for (const bool is_torn : {true, false}) {
    CAPTURE(is_torn);
    const std::string last = wide.dump();
    write_text(path, lines({point("a")}) + last.substr(0, last.size() - (is_torn ? 1 : 0)));
    { RecordWriter(path).append(point("c")); }
    CHECK(told(read_records(path)) == (is_torn ? "a=ok c=ok" : "a=ok b=ok c=ok"));
  }
}

TEST_CASE("environments are kept once each") {
  const TemporaryFolder folder;
  write_text(folder / "x.jsonl", lines({environment("e1", "one"), environment("e2", "two")}));
  write_text(folder / "y.jsonl", lines({environment("e1", "one")}));

  CHECK(read_records(folder.path()).environments.size() == 2);
}

TEST_CASE("a folder without records is an empty set, and one that is not there an error") {
  const TemporaryFolder folder;

  CHECK(read_records(folder.path()).points.empty());
  CHECK(error_of(folder / "absent") ==
        (folder / "absent") + ": there is no such record file or folder");
}

/// The message of opening a file for records.
std::string refusal_of(const std::string& path) {
  try {
    const RecordWriter writer(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("two writers of one file are refused, one after the other is not") {
  const TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  {
    const RecordWriter first(path);

    CHECK(refusal_of(path) == path + ": another run is writing to it");
  }
  CHECK(refusal_of(path) == "none");
}

TEST_CASE("records are neither read from a pipe or a device nor written to one") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "pipe.jsonl").c_str(), 0600) == 0);
  std::filesystem::create_symlink("/dev/full", folder / "full.jsonl");
  for (const char* name : {"pipe.jsonl", "full.jsonl"}) {
    CAPTURE(name);
    const std::string path = folder / name;
    const std::string refusal = path + ": records are in regular files, and this is none";

    CHECK(refusal_of(path) == refusal);
    CHECK(error_of(path) == refusal);
    CHECK(error_of(folder.path()).ends_with("and this is none"));
  }
}

TEST_CASE("a place that cannot be written to is an error that names it") {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  std::filesystem::create_directory(folder / "r.jsonl");

  CHECK(refusal_of(folder / "r.jsonl").starts_with(folder / "r.jsonl"));
  CHECK(refusal_of(folder / "file/r.jsonl").find(folder / "file") != std::string::npos);
}

}  // namespace
}  // namespace tessera
