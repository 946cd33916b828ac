// tessera merge: the merge records of shards and machines into one set and a CSV file.

#include <set>

#include "experiments/records/record_set.hpp"
#include "experiments/tables/rows.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class MergeVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("RECORDS", sources_, "record files, or folders of them")->required();
    app.add_option("--out", out_, "folder for records.jsonl and records.csv")
        ->required()
        ->takes("FOLDER");
    app.example("tessera merge out/shard1 out/shard2 --out out/all",
                "the records of two shards in one");
  }

  int run() override {
    for (const std::string& source : sources_) {
      RecordSet set = read_records(source, true);
      all_.environments.merge(set.environments);
      for (Json& record : set.points) add(std::move(record));
    }
    std::erase(all_.points, Json());
    std::string lines;
    for (const auto& [id, environment] : all_.environments) lines += environment.dump() + "\n";
    for (const Json& record : all_.points) lines += record.dump() + "\n";
    write_file(out_ + "/records.jsonl", lines);
    write_csv(all_);
    fmt::print(stderr, "{}, {}, {} doubled{}; in {}\n", counted(std::ssize(place_), "point"),
               counted(std::ssize(all_.environments), "environment"), doubled_,
               beside_ > 0
                   ? fmt::format(", {} of another machine beside them", counted(beside_, "result"))
                   : "",
               out_);
    return kOk;
  }

 private:
  /// Keeps the record of every machine, the latest last, where readers look for a point's. A result
  /// takes the place of failures, whichever machine they are of.
  void add(Json record) {
    std::vector<std::size_t>& places = place_[record.at("point_id").get<std::string>()];
    if (!places.empty() && is_result(record) != is_result(all_.points[places.front()])) {
      ++doubled_;
      if (!is_result(record)) return;
      for (const std::size_t place : places) all_.points[place] = Json();
      beside_ -= std::ssize(places) - 1;
      places.clear();
    }
    for (const std::size_t place : places) {
      Json& present = all_.points[place];
      if (present.value("env_id", "") != record.value("env_id", "")) continue;
      ++doubled_;
      if (is_later(record, present)) present = std::move(record);
      return keep_latest_last(places, present);
    }
    if (!places.empty()) ++beside_;
    places.push_back(all_.points.size());
    all_.points.push_back(std::move(record));
    if (places.size() > 1) keep_latest_last(places, all_.points[places.end()[-2]]);
  }

  void keep_latest_last(const std::vector<std::size_t>& places, Json& changed) {
    Json& last = all_.points[places.back()];
    if (is_later(changed, last)) std::swap(changed, last);
  }

  static bool is_result(const Json& record) {
    const std::string status = record.value("status", "");
    return status == "ok" || status == "wrong";
  }

  void write_csv(const RecordSet& all) const {
    const std::vector<Row> rows = record_rows(all);
    std::set<std::string> columns;
    for (const Row& row : rows)
      for (const auto& [column, value] : row) columns.insert(column);
    write_file(out_ + "/records.csv", csv_table(rows, {columns.begin(), columns.end()}));
  }

  std::vector<std::string> sources_;
  std::string out_;
  RecordSet all_;
  std::map<std::string, std::vector<std::size_t>> place_;  // of the records of each point
  int doubled_ = 0;
  std::int64_t beside_ = 0;  // records of a point beyond its first machine's
};

const Register<Verb> entry{{
    .name = "merge",
    .summary = "merge records of shards and machines into one set and a CSV file",
    .make = [](const Params&) { return std::make_unique<MergeVerb>(); },
}};

}  // namespace
}  // namespace tessera
