#include "experiments/backends/restore.hpp"

#include <chrono>

#include "experiments/backends/time_summary.hpp"
#include "formats/base/parallel.hpp"

namespace tessera {
namespace {

constexpr std::size_t kRuns = 5;

}  // namespace

DenseMatrix restore_rows(DenseMatrix c, const Permutation& rows) {
  if (rows.is_identity()) return c;
  return permute_rows(c, rows.inverse());
}

RestorePart time_restoring(const DenseMatrix& c, const Permutation& rows) {
  if (rows.is_identity()) return {};
  const Permutation inverse = rows.inverse();
  std::vector<double> samples_us;
  for (std::size_t run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const DenseMatrix restored = permute_rows(c, inverse);
    samples_us.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  return {summarise(std::move(samples_us), 1), "cpu", num_threads()};
}

}  // namespace tessera
