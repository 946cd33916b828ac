// Sets of matrices that are queries over the collection's index, with a made-up one.
#include "experiments/config/collection_query.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "experiments/config/matrix_catalogue.hpp"
#include "experiments/config/plan.hpp"
#include "tests/planted_records.hpp"

namespace tessera {
namespace {

/// Two matrices of one name, and one each that is complex, small, and at home in a folder of data.
const std::string kIndex =
    "5\n31-Oct-2026 18:12:37\n"
    "Old,twice,20000,20000,70000,1,0,0,1,1,1,structural problem\n"
    "New,twice,30000,30000,60000,1,0,0,1,1,1,structural problem\n"
    "Far,wide,20000,15000,50000,1,1,0,0,0,0,bipartite graph\n"
    "Far,small,9,9,20,0,0,0,0,0.5,0.5,toy\n"
    "Far,large,40000,40000,90000,0,0,1,0,1,0,2D/3D problem\n";

/// A config over the set @many, a made-up index, and an empty cache.
struct Workshop {
  TemporaryFolder folder;
  EnvironmentVariable cache{"TESSERA_CACHE", folder / "cache"};
  EnvironmentVariable data{"TESSERA_DATA", folder / "data"};
  EnvironmentVariable own{"TESSERA_COLLECTION_INDEX", indexed()};

  std::string indexed() const {
    std::filesystem::create_directories(folder / "sets");
    std::filesystem::create_directories(folder / "data");
    write_text(folder / "index.csv", kIndex);
    write_text(folder / "c.toml",
               "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"emulate\"]\n"
               "[grid]\nmatrix = \"@many\"\nkernel = \"csr_spmm\"\n");
    return folder / "index.csv";
  }
  /// The matrices of the set with these lines.
  std::vector<std::string> matrices(const std::string& lines) const {
    write_text(folder / "sets/many.toml", "schema = 1\n[set]\nname = \"many\"\n" + lines);
    const Config config = load_config(folder / "c.toml");
    std::vector<std::string> names;
    for (const Settings& choice : config.grid.at(0).choices)
      names.push_back(choice.at("matrix").value.get<std::string>());
    return names;
  }
  std::string error(const std::string& lines) const {
    const std::string message = error_of([&] { matrices(lines); });
    return message.substr(std::min(message.find("many.toml"), message.size()));
  }
};

using Names = std::vector<std::string>;

TEST_CASE("a query selects by its condition, the smallest first, and tells equal names apart") {
  const Workshop workshop;

  CHECK(workshop.matrices("query = \"rows > 10000 && cols > 10000\"\n") ==
        Names{"wide", "New/twice", "Old/twice", "large"});
  CHECK(workshop.matrices("query = \"rows == cols && real == 1\"\n") ==
        Names{"New/twice", "Old/twice"});
  CHECK(workshop.matrices("query = \"binary || mesh || pattern_symmetry == 0.5\"\n") ==
        Names{"small", "wide", "large"});
  CHECK(workshop.matrices("query = \"posdef && numerical_symmetry > 0.5 && nnz < 65000\"\n") ==
        Names{"New/twice"});
}

TEST_CASE("a broken query, one that nothing meets, and a set of two kinds are errors") {
  const Workshop workshop;

  CHECK(workshop.error("query = \"rows > \"\n").starts_with("many.toml:4:9: 'rows > ': "));
  CHECK(workshop.error("query = \"row > 1\"\n").find("\"row\"") != std::string::npos);
  CHECK(workshop.error("query = \"rows = 30000\"\n") ==
        "many.toml:4:9: 'rows = 30000': an expression assigns nothing; values are compared by ==");
  CHECK(workshop.error("query = \"rows > 1e9\"\n").starts_with("many.toml:4:9: no matrix of "));
  CHECK(workshop.error("query = \"rows > 1\"\nmatrix = [\"wide\"]\n") ==
        "many.toml:2:1: [set] needs 'matrix' or 'query', and not both");
}

TEST_CASE(
    "a plan says how many matrices meet a query, how many the paper had and how many are here") {
  const Workshop workshop;
  write_text(workshop.folder / "data/wide.mtx",
             "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n");
  workshop.matrices(
      "query = \"rows > 10000\"\ncount = 1099\nsource = \"a paper, section 6\"\n"
      "beyond = \"the range of values\"\n");

  const Plan plan = make_plan(load_config(workshop.folder / "c.toml"));

  CHECK(plan.entries.size() == 4);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0] ==
        "@many: 4 matrices of 5 in the collection's index (revised 31-Oct-2026 18:12:37) meet "
        "'rows > 10000'; the paper had 1099 (a paper, section 6); the index cannot tell the range "
        "of values; 1 of them here");
}

TEST_CASE("a set of names that a paper counts is compared with that count as well") {
  const Workshop workshop;
  workshop.matrices("matrix = [\"wide\", \"poisson2d(nx=4)\"]\ncount = 3\nsource = \"s\"\n");

  CHECK(make_plan(load_config(workshop.folder / "c.toml")).notes ==
        Names{"@many: 2 matrices; the paper had 3 (s); 1 of them here"});
}

TEST_CASE("without the index a query is an error that says what to do, and stand-ins need none") {
  const Workshop workshop;
  const EnvironmentVariable none("TESSERA_COLLECTION_INDEX", "");
  const std::string lines = "query = \"rows > 1\"\nstand_in = [\"rmat(scale=4)\"]\n";

  const std::string error = workshop.error(lines);
  CHECK(error.find("@many is a query over the index of the SuiteSparse Matrix Collection, which is "
                   "not on this machine") != std::string::npos);
  CHECK(error.find("`tessera matrix fetch @many --dry-run`") != std::string::npos);
  CHECK(error.find("TESSERA_COLLECTION_INDEX") != std::string::npos);
  const Config config = load_config(workshop.folder / "c.toml", {}, {.data = true});
  CHECK(config.grid.at(0).choices.at(0).at("matrix").value == "rmat(scale=4)");
  CHECK(config.counted_sets.empty());
}

TEST_CASE("the papers' collections are sets with their condition or names, source and count") {
  const Workshop workshop;
  std::vector<CountedSet> counted;
  CHECK(matrices_of("@cutespmm_1099", counted) == Names{"wide", "New/twice", "Old/twice", "large"});
  CHECK(matrices_of("@tsparse_260", counted) == Names{"New/twice", "Old/twice"});
  CHECK(matrices_of("@acc_spmm_414", counted).size() == 414);

  REQUIRE(counted.size() == 3);
  CHECK(counted[0].found.find("the paper had 1099 (cuTeSpMM, section 6.1") != std::string::npos);
  CHECK(counted[1].found.find("the paper had 260 (tSparse, section 6.1") != std::string::npos);
  CHECK(counted[2].found.find("414 matrices; the paper had 414") != std::string::npos);
}

TEST_CASE("of the 414 names, those whose sizes are known are square with 10^6 nonzeros or more") {
  const std::string path = shared_path("anchors/suitesparse_tile_fingerprints.csv");
  if (path.empty()) return;
  std::vector<CountedSet> counted;
  const Names names = matrices_of("@acc_spmm_414", counted);

  std::ifstream file(path);
  int known = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, rows, cols, nnz;
    for (std::string* field : {&name, &rows, &cols, &nnz}) std::getline(fields, *field, ',');
    if (std::ranges::find(names, name) == names.end()) continue;
    CAPTURE(name);
    CHECK(rows == cols);
    CHECK(std::stoll(nnz) >= 1'000'000);
    ++known;
  }
  CHECK(known > 200);
}

}  // namespace
}  // namespace tessera
