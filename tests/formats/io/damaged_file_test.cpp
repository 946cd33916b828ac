// Valid matrix files of every format with bytes flipped, cut, inserted and spliced in at random:
// each loads a valid matrix or throws an Error that names it, and where the format carries
// checksums the matrix is the one that was written.
#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>
#include <optional>

#include "formats/base/random.hpp"
#include "tests/forged_files.hpp"

namespace tessera {
namespace {

std::string mutated(std::string text, const std::string& other, RandomSequence& random) {
  const int changes = 1 + static_cast<int>(random.below(4));
  for (int c = 0; c < changes && !text.empty(); ++c) {
    const std::size_t at = random.below(text.size());
    switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.bits());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, other.substr(random.below(other.size()), random.below(20)));
        break;
      default:
        text.erase(at, random.below(9));
        break;
    }
  }
  return text;
}

/// How many broken files were read all the same, and how many were refused.
struct Tally {
  int loaded = 0;
  int refused = 0;
};

/// Reads the bytes as a file of that name: a valid matrix or an Error, nothing else.
std::optional<CsrMatrix> read_broken(const std::string& path, const std::string& bytes,
                                     Tally& tally) {
  std::filesystem::remove(path);  // some file systems are slow to overwrite a file
  write_text(path, bytes);
  CAPTURE(bytes);
  try {
    CsrMatrix matrix = read_matrix(path);
    CHECK_NOTHROW(validate(matrix));
    ++tally.loaded;
    return matrix;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with(path));
    ++tally.refused;
    return std::nullopt;
  }
}

/// The bytes of `matrix` as a .npz file that is compressed.
std::string deflated(const CsrMatrix& matrix) {
  const TemporaryFolder folder;
  write_matrix(matrix, folder / "a.npz");
  return read_text(folder / "a.npz");
}

const std::string kCoordinates = kReal + "% c\n4 5 4\n1 1 1.5\n2 5 -2e3\n4 4 .25\n3 1 7\n";

Arrays good_graph() {
  return {{"src_li", npy<std::int64_t>("<i8", {0, 1, 2})},
          {"dst_li", npy<std::int64_t>("<i8", {2, 0, 1})},
          {"num_nodes", npy<std::int64_t>("<i8", {3})}};
}

TEST_CASE("flipped, cut and spliced files load a valid matrix or throw an Error") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> seeds = {
      {"a.mtx", kCoordinates},
      {"a.mtx", kSymmetric + "4 4 3\n1 1 1\n3 2 8\n4 1 2.5\n"},
      {"a.mtx", kArray + "2 3\n1\n2\n3\n4\n5\n6\n"},
      {"a.txt", "# c\n# Nodes: 6 Edges: 4\n0\t1\n1\t5\n2\t2\n5\t0\n"},
      {"a.smtx", "3, 4, 5\n0 2 3 5\n0 3 1 2 3\n"},
      {"a.graph", "% c\n4 3 11\n1 2 5 3 6\n1 1 5\n1 1 6 4 7\n1 3 7\n"},
      {"a.tar", tar_of({{"x/x.mtx", kCoordinates}})},
  };
  RandomSequence random(20);
  Tally tally;
  for (const auto& [name, text] : seeds) {
    CHECK(read_broken(folder / name, text, tally).has_value());
    for (int round = 0; round < 400; ++round) {
      const std::string& other = seeds[random.below(seeds.size())].second;
      read_broken(folder / name, mutated(text, other, random), tally);
    }
  }
  CHECK(tally.loaded > 100);  // both ends are reached
  CHECK(tally.refused > 1000);
}

TEST_CASE("a damaged file with checksums gives its own matrix or an Error") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> seeds = {
      {"a.mtx.gz", gzipped(kCoordinates)},
      {"a.tar.gz", gzipped(tar_of({{"x/x.mtx", kCoordinates}}))},
      {"a.npz", zip_of(good_csr())},
      {"a.npz", deflated(random_sparse(9, 9, 0.3, 21))},
      {"a.npz", zip_of(good_graph())},
  };
  RandomSequence random(22);
  Tally tally;
  for (const auto& [name, text] : seeds) {
    const auto whole = read_broken(folder / name, text, tally);
    REQUIRE(whole.has_value());
    for (int round = 0; round < 400; ++round) {
      const std::string& other = seeds[random.below(seeds.size())].second;
      const auto damaged = read_broken(folder / name, mutated(text, other, random), tally);
      CHECK((!damaged || *damaged == *whole));
    }
  }
  CHECK(tally.loaded > 20);
  CHECK(tally.refused > 1000);
}

TEST_CASE("arrays damaged before they are zipped load a valid matrix or throw an Error") {
  const TemporaryFolder folder;
  RandomSequence random(23);
  Tally tally;
  for (const Arrays& arrays : {good_csr(), good_graph()}) {
    for (int round = 0; round < 600; ++round) {
      Arrays damaged = arrays;
      auto array = std::next(damaged.begin(), static_cast<int>(random.below(damaged.size())));
      array->second = mutated(array->second, arrays.begin()->second, random);
      read_broken(folder / "a.npz", zip_of(damaged), tally);
    }
  }
  CHECK(tally.loaded > 20);
  CHECK(tally.refused > 500);
}

}  // namespace
}  // namespace tessera
