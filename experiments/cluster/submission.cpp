#include "experiments/cluster/submission.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

constexpr int kSchema = 1;

std::string path_in(const std::string& records) {
  return cluster_folder(records) + "/submission.json";
}

Submission submission_from_json(const Json& json) {
  require(json.at("schema") == kSchema, "schema {}, this program reads schema {}",
          json.at("schema").dump(), kSchema);
  Submission submission{json.at("on"),       json.at("config"), json.at("sets"),
                        json.at("backends"), json.at("shards"), json.at("balanced_by"),
                        json.at("matrices")};
  for (const Json& job : json.at("jobs"))
    submission.jobs.push_back({job.at("job"), job.at("shards"), job.at("merge"), job.at("at")});
  return submission;
}

}  // namespace

std::string cluster_folder(const std::string& records) { return records + "/cluster"; }

std::optional<Submission> find_submission(const std::string& records) {
  const std::string path = path_in(records);
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::ifstream file(path);
  try {
    return submission_from_json(Json::parse(file));
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: this is no submission: {}", path, error.what()));
  }
}

void write_submission(const std::string& records, const Submission& submission) {
  Json jobs = Json::array();
  for (const SubmittedJob& job : submission.jobs)
    jobs.push_back(
        {{"job", job.job}, {"shards", job.shards}, {"merge", job.merge}, {"at", job.at}});
  const Json json{{"schema", kSchema},
                  {"on", submission.scheduler},
                  {"config", submission.config},
                  {"sets", submission.sets},
                  {"backends", submission.backends},
                  {"shards", submission.count},
                  {"balanced_by", submission.balanced_by},
                  {"matrices", submission.shard_of},
                  {"jobs", jobs}};
  write_file(path_in(records), json.dump(1) + "\n");
}

Plan shard_of_run(const Plan& plan, const std::string& records, int index, int count) {
  const std::optional<Submission> submission = find_submission(records);
  if (!submission || submission->count != count || index < 1 || index > count)
    return shard(plan, index, count);
  Plan part{{}, plan.notes};
  for (const PlanEntry& entry : plan.entries) {
    const auto found = submission->shard_of.find(entry.point.matrix);
    require(found != submission->shard_of.end(),
            "{}: no shard has the matrix {}: the experiment has changed since it was submitted; "
            "submit it again",
            path_in(records), entry.point.matrix);
    if (found->second == index) part.entries.push_back(entry);
  }
  return part;
}

}  // namespace tessera
