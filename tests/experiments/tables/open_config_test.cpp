// A config is chosen by what the records hold.
#include "experiments/tables/open_config.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "experiments/config/plan.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

/// A config of matrices that are absent, or in files, with a stand-in, and a folder of records.
class Planted {
 public:
  explicit Planted(bool has_files = false) {
    std::filesystem::create_directories(folder_ / "sets");
    std::filesystem::create_directories(folder_ / "out");
    std::string matrices = "\"absent_a\", \"absent_b\"";
    if (has_files) {
      for (const char* name : {"a.mtx", "b.mtx"})
        write_text(folder_ / name,
                   "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1.5\n");
      matrices = fmt::format(R"("{}", "{}")", folder_ / "a.mtx", folder_ / "b.mtx");
    }
    write_text(folder_ / "sets/far.toml",
               fmt::format("schema = 1\n[set]\nname = \"far\"\nmatrix = [{}]\n"
                           "stand_in = [\"rmat(scale=4)\"]\n",
                           matrices));
    write_text(folder_ / "c.toml",
               "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"simulate\", \"gpu\"]\n"
               "[grid]\nmatrix = \"@far\"\nkernel = \"csr_spmm\"\n"
               "[table]\ncolumns = [\"n\"]\nwhere = { backend = \"gpu\" }\n");
  }

  /// Plants a record of every point of these backends that the config has without that.
  void record(const Without& without, const std::vector<std::string>& backends,
              const std::string& status = "ok") const {
    std::ofstream file(folder_ / "out/records.jsonl", std::ios::app);
    const Config config = load_config(folder_ / "c.toml", {}, without);
    for (const PlanEntry& entry : make_plan(config, backends).entries) {
      Json record = planted_record(entry);
      record["status"] = status;
      file << record.dump() << "\n";
    }
  }

  /// The first matrix and the backend of the table of the config that the records lead to.
  std::string opened(bool as_written = false) const {
    const Config config = open_config({folder_ / "c.toml", {}, as_written}, folder_ / "out");
    return config.grid.at(0).choices.at(0).at("matrix").value.get<std::string>() + " " +
           config.table.at(0).where.at("backend").value.get<std::string>();
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("records of measured files are shown as such, wherever they were made") {
  const Planted planted;
  planted.record({}, {"simulate", "gpu"});

  CHECK(planted.opened() == "absent_a gpu");
}

TEST_CASE("simulated records of files are shown as such") {
  const Planted planted;
  planted.record({}, {"simulate"});

  CHECK(planted.opened() == "absent_a simulate");
  CHECK(planted.opened(true) == "absent_a gpu");
}

TEST_CASE("records of stand-ins are shown where they are most, and never beside others") {
  const Planted planted;
  planted.record({.data = true}, {"simulate"});
  CHECK(planted.opened() == "rmat(scale=4) simulate");
  CHECK(planted.opened(true) == "absent_a gpu");

  planted.record({}, {"gpu"}, "skipped");  // that is no result
  CHECK(planted.opened() == "rmat(scale=4) simulate");

  planted.record({}, {"gpu"});
  CHECK(planted.opened() == "absent_a gpu");
}

TEST_CASE("records of another backend than the config's are those of its files of matrices") {
  const Planted planted(true);
  planted.record({}, {"model"});

  CHECK(planted.opened().find("a.mtx ") != std::string::npos);
}

TEST_CASE("a config is changed for what this machine lacks, unless it is to be as written") {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n"
             "[grid]\nmatrix = [\"absent_a\"]\nkernel = \"csr_spmm\"\n"
             "[without.data.grid]\nmatrix = [\"rmat(scale=4)\"]\n");
  const auto matrix = [&](const std::vector<std::string>& sets, bool as_written) {
    const Config config = open_config({folder / "c.toml", sets, as_written});
    return config.grid.at(0).choices.at(0).at("matrix").value.get<std::string>();
  };

  CHECK(matrix({}, false) == "rmat(scale=4)");
  CHECK(matrix({}, true) == "absent_a");
  CHECK(matrix({"grid.matrix=[\"absent_a\", \"poisson2d\"]"}, false) == "absent_a");
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n"
             "[table]\ncolumns = [\"gflop\"]\n");
  CHECK(error_of([&] {
          open_config({folder / "c.toml", {}, false});
        }).find("did you mean 'gflops'") != std::string::npos);
}

}  // namespace
}  // namespace tessera
