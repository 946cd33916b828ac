// The cost of each point, by which shards are balanced (submission.hpp).
#include "experiments/cluster/submission.hpp"
#include "formats/base/check.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

double columns_of(const Point& point) {
  if (const auto* dense = std::get_if<DenseProduct>(&point.task))
    return static_cast<double>(dense->n);
  if (const auto* sampled = std::get_if<SampledProduct>(&point.task))
    return static_cast<double>(sampled->n);
  return 1;
}

/// The nonzeros of a matrix that an earlier load left in the cache; 0 when there is none.
std::int64_t cached_nonzeros(const std::string& matrix) {
  try {
    const std::string content = known_content_hash(find_matrix(matrix));
    if (content.empty()) return 0;
    const std::optional<CsrMatrix> cached = MatrixCache().load(content);
    return cached ? cached->nnz() : 0;
  } catch (const Error&) {
    return 0;  // it is not on this machine
  }
}

/// A sum over some, and how many they are.
struct Mean {
  double sum = 0, weight = 0;

  void add(double value, double of) {
    sum += value;
    weight += of;
  }
  double value(double otherwise) const { return weight > 0 ? sum / weight : otherwise; }
};

/// Nonzeros of every matrix of the plan, found or estimated; at least 1.
std::map<std::string, double> estimate_nonzeros(const Plan& plan, const RecordedPoints& recorded) {
  std::map<std::string, double> known, file_cost;
  for (const PlanEntry& entry : plan.entries) {
    const std::string& matrix = entry.point.matrix;
    if (known.contains(matrix)) continue;
    const auto counted = recorded.nonzeros.find(matrix);
    known[matrix] = static_cast<double>(
        counted != recorded.nonzeros.end() ? counted->second : cached_nonzeros(matrix));
    // Of a plan: the bytes of the file, or their mean, for each column.
    const auto* dense = std::get_if<DenseProduct>(&entry.point.task);
    file_cost[matrix] = entry.cost / (dense != nullptr ? columns_of(entry.point) : 1);
  }
  Mean nonzeros_per_cost;
  for (const auto& [matrix, nonzeros] : known)
    if (nonzeros > 0) nonzeros_per_cost.add(nonzeros, file_cost[matrix]);
  for (auto& [matrix, nonzeros] : known)
    if (nonzeros <= 0) nonzeros = std::max(1.0, file_cost[matrix] * nonzeros_per_cost.value(1));
  return known;
}

}  // namespace

std::string predict_costs(Plan& plan, const RecordedPoints& recorded) {
  const std::map<std::string, double> nonzeros = estimate_nonzeros(plan, recorded);
  std::map<std::string, Mean> seconds_per_work;  // by backend
  Mean of_all;
  for (PlanEntry& entry : plan.entries) {
    entry.cost = nonzeros.at(entry.point.matrix) * columns_of(entry.point);
    const auto attempt = recorded.by_request.find(entry.hash);
    if (attempt == recorded.by_request.end() || attempt->second.seconds <= 0) continue;
    seconds_per_work[entry.point.backend].add(attempt->second.seconds, entry.cost);
    of_all.add(attempt->second.seconds, entry.cost);
  }
  if (of_all.weight == 0) return "nonzeros times columns";
  for (PlanEntry& entry : plan.entries) {
    const auto attempt = recorded.by_request.find(entry.hash);
    const bool is_known = attempt != recorded.by_request.end() && attempt->second.seconds > 0;
    entry.cost = is_known
                     ? attempt->second.seconds
                     : entry.cost * seconds_per_work[entry.point.backend].value(of_all.value(0));
  }
  return "the seconds of earlier records";
}

}  // namespace tessera
