// The parts of a submission that need no scheduler: words, costs, and the states of shards.
#include <doctest/doctest.h>

#include "experiments/cluster/shell.hpp"
#include "experiments/cluster/submission.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using Phase = QueueTask::Phase;

PlanEntry entry(const std::string& matrix, std::int64_t n, double file_cost) {
  DenseProduct product;
  product.n = n;
  PlanEntry made;
  made.point.backend = "emulate";
  made.point.matrix = matrix;
  made.point.task = product;
  made.hash = fmt::format("{}/{}", matrix, n);
  made.cost = file_cost * static_cast<double>(n);
  return made;
}

std::vector<double> costs(const Plan& plan) {
  std::vector<double> all;
  for (const PlanEntry& one : plan.entries) all.push_back(one.cost);
  return all;
}

TEST_CASE("the shell reads every word back as it was") {
  const std::vector<std::string> words{"printf", "%s|", "a b", "it's", "$HOME", "", "x\ny", "*"};
  CHECK(output_of_command(words) == "a b|it's|$HOME||x\ny|*|");
  CHECK(shell_word("grid.n=3") == "grid.n=3");
  CHECK(run_command({"sh", "-c", "exit 7"}).exit == 7);
  CHECK_THROWS_WITH_AS(output_of_command({"sh", "-c", "echo no; exit 7"}),
                       "`sh -c 'echo no; exit 7'` failed with exit code 7: no\n", Error);
}

TEST_CASE("shards are written as ranges") {
  CHECK(ranges_text({1, 2, 3, 7, 9, 10}) == "1-3,7,9-10");
  CHECK(ranges_text({4}) == "4");
}

TEST_CASE("without times a cost is nonzeros times columns, estimated where nothing was counted") {
  Plan plan{{entry("a", 2, 100), entry("a", 4, 100), entry("b", 2, 300)}, {}};
  RecordedPoints recorded;
  recorded.nonzeros["a"] = 50;  // half the bytes of its file: b's nonzeros are taken to be 150

  CHECK(predict_costs(plan, recorded) == "nonzeros times columns");
  CHECK(costs(plan) == std::vector<double>{100, 200, 300});
}

TEST_CASE("with times a cost is the seconds of the request, or those of its nonzeros and columns") {
  Plan plan{{entry("a", 2, 100), entry("a", 4, 100), entry("b", 2, 300)}, {}};
  RecordedPoints recorded;
  recorded.nonzeros = {{"a", 50}, {"b", 10}};
  recorded.by_request["a/2"] = {"ok", 5};
  recorded.by_request["a/4"] = {"failed", 0};

  CHECK(predict_costs(plan, recorded) == "the seconds of earlier records");
  CHECK(costs(plan) == std::vector<double>{5, 10, 1});  // 5 s for 100, then for 200 and 20
}

TEST_CASE("a shard's state is the queue's while it is there, and else that of its records") {
  const Plan plan{{entry("a", 2, 1), entry("a", 4, 1), entry("b", 2, 1), entry("b", 4, 1),
                   entry("c", 2, 1), entry("d", 2, 1), entry("e", 2, 1)},
                  {}};
  const Submission submission{"slurm",
                              "c",
                              {},
                              {},
                              5,
                              "",
                              {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}},
                              {{"7", {1, 2, 3, 4}, "8", ""}, {"9", {2}, "10", ""}}};
  RecordedPoints recorded;
  recorded.by_request["a/2"] = {"ok", 1};
  recorded.by_request["a/4"] = {"failed", 0};
  recorded.by_request["b/2"] = {"ok", 1};
  const std::vector<QueueTask> tasks{{"7", 1, Phase::kEnded, "COMPLETED"},
                                     {"7", 2, Phase::kEnded, "TIMEOUT"},
                                     {"9", 2, Phase::kRunning, "on n1"},
                                     {"7", 3, Phase::kQueued, "Resources"},
                                     {"7", 4, Phase::kEnded, "FAILED"},
                                     {"8", 0, Phase::kQueued, "Dependency"},
                                     {"99", 5, Phase::kRunning, "of someone else"}};
  const auto states = [&](const auto& shards) {
    std::string text;
    for (const ShardState& shard : shards)
      text += fmt::format("{} {}/{} {};", to_text(shard.state), shard.left, shard.points,
                          shard.task + shard.detail);
    return text;
  };

  CHECK(states(shard_states(plan, submission, recorded, tasks)) ==
        "done 0/2 7_1COMPLETED;running 1/2 9_2on n1;queued 1/1 7_3Resources;failed 1/1 7_4FAILED;"
        "not submitted 1/1 ;");
  CHECK(states(shard_states(plan, submission, recorded, std::nullopt)) ==
        "done 0/2 ;unknown 1/2 ;unknown 1/1 ;unknown 1/1 ;not submitted 1/1 ;");
  CHECK(shard_states(plan, submission, recorded, tasks, {"failed"}).front().left == 1);
  CHECK(shard_states(plan, submission, recorded, tasks, {"wrong"}).front().left == 0);
}

TEST_CASE("a submission that was written is read again, and a broken one names its file") {
  const TemporaryFolder folder;
  CHECK_FALSE(find_submission(folder.path()));
  const Submission written{"slurm", "/a b.toml", {"x=1"},    {"gpu"},
                           2,       "nonzeros",  {{"m", 2}}, {{"7", {1, 2}, "8", "now"}}};
  write_submission(folder.path(), written);
  const std::optional<Submission> read = find_submission(folder.path());
  REQUIRE(read);
  CHECK(read->config == written.config);
  CHECK(read->sets == written.sets);
  CHECK(read->shard_of == written.shard_of);
  CHECK(read->jobs.front().shards == std::vector<int>{1, 2});
  CHECK(read->jobs.front().merge == "8");

  const std::string path = cluster_folder(folder.path()) + "/submission.json";
  write_text(path, "{\"schema\": 2}");
  CHECK_THROWS_WITH_AS(
      find_submission(folder.path()),
      (path + ": this is no submission: schema 2, this program reads schema 1").c_str(), Error);
}

}  // namespace
}  // namespace tessera
