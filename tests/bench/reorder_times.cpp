// The times of reorderings on several numbers of threads, a line of a table for each matrix,
// reordering and number: the median of some runs, and whether the order is that of the first
// number.
//
//     tessera_reorder_times REORDERINGS THREADS MATRIX...     (lists with commas, such as 1,16)

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr std::size_t kMostRuns = 9;
constexpr double kMostSeconds = 0.5;  // for the runs of a line, after which no other one begins

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

void print_times(const CsrMatrix& a, const std::string& matrix, const std::string& name,
                 const std::vector<std::string>& threads) {
  const auto reordering = Registry<Reordering>::instance().make(name);
  std::optional<Permutation> first;
  for (const std::string& count : threads) {
    set_num_threads(std::stoi(count));
    std::vector<double> seconds;
    std::optional<Permutation> rows;
    for (double all = 0; seconds.size() < kMostRuns && all < kMostSeconds; all += seconds.back()) {
      const auto start = std::chrono::steady_clock::now();
      rows = reordering->order(a).rows;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      seconds.push_back(took.count());
    }
    if (!first) first = rows;
    std::ranges::sort(seconds);
    fmt::print("\"{}\",{},{},{},{:.6f},{:.6f},{},{}\n", matrix, a.nnz(), name, count,
               seconds[seconds.size() / 2], seconds.front(), seconds.size(),
               *rows == *first ? "same" : "DIFFERENT");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  try {
    require(argc >= 4, "usage: tessera_reorder_times REORDERINGS THREADS MATRIX...");
    fmt::print("matrix,nnz,reorder,threads,reorder_s,least_s,runs,order\n");
    for (int i = 3; i < argc; ++i) {
      const CsrMatrix a = load_matrix(argv[i], false).matrix;
      for (const std::string& name : split(argv[1])) print_times(a, argv[i], name, split(argv[2]));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_reorder_times: {}\n", error.what());
    return 1;
  }
}
