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
    RecordSet all;
    std::map<std::string, std::size_t> place;
    int doubled = 0;
    for (const std::string& source : sources_) {
      RecordSet set = read_records(source);
      all.environments.merge(set.environments);
      for (Json& record : set.points) {
        const auto [found, is_new] =
            place.try_emplace(record.at("point_id").get<std::string>(), all.points.size());
        if (is_new)
          all.points.push_back(std::move(record));
        else if (++doubled; better(record, all.points[found->second]))
          all.points[found->second] = std::move(record);
      }
    }
    std::string lines;
    for (const auto& [id, environment] : all.environments) lines += environment.dump() + "\n";
    for (const Json& record : all.points) lines += record.dump() + "\n";
    write_file(out_ + "/records.jsonl", lines);
    write_csv(all);
    fmt::print(stderr, "{}, {}, {} doubled; in {}\n", counted(std::ssize(all.points), "point"),
               counted(std::ssize(all.environments), "environment"), doubled, out_);
    return kOk;
  }

 private:
  /// A result beats a failure, a later result an earlier one.
  static bool better(const Json& a, const Json& b) {
    const auto is_result = [](const Json& record) {
      const std::string status = record.value("status", "");
      return status == "ok" || status == "wrong";
    };
    return is_result(a) == is_result(b) ? is_later(a, b) : is_result(a);
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
};

const Register<Verb> entry{{
    .name = "merge",
    .summary = "merge records of shards and machines into one set and a CSV file",
    .make = [](const Params&) { return std::make_unique<MergeVerb>(); },
}};

}  // namespace
}  // namespace tessera
