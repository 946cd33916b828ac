#include "experiments/run/foresight.hpp"

#include <algorithm>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/missing_backend.hpp"
#include "experiments/run/point_identity.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/check.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

constexpr const char* kTiny = "poisson2d(nx=4, ny=4)";
constexpr std::int64_t kFewColumns = 32;

}  // namespace

std::optional<Skip> Foresight::skip_of(const Point& point) {
  if (auto skip = absent_matrix(point)) return skip;
  if (const std::string& why = missing_backend(point.backend); !why.empty())
    return Skip{{"backend", point.backend}, point.backend, why};
  return kernel_skip(point);
}

SkipCount Foresight::skips_of(const Plan& plan) {
  SkipCount count;
  for (const PlanEntry* entry : distinct_requests(plan))
    if (const auto skip = skip_of(entry->point)) count.add(*skip);
  return count;
}

std::optional<Skip> Foresight::absent_matrix(const Point& point) {
  const auto skip_of_matrix = [&](const std::string& name) {
    const auto [known, is_new] = matrices_.try_emplace(name);
    if (is_new) {
      try {
        find_matrix(name);
      } catch (const MatrixAbsent& error) {
        known->second = Skip{{kAbsentMatrix, error.matrix()}, point.backend, error.what()};
      } catch (const Error&) {
        // A wrong name is no absent matrix: its points fail, which is not foreseen here.
      }
    }
    return known->second;
  };
  auto skip = skip_of_matrix(point.matrix);
  if (!skip && has_right_matrix(point)) skip = skip_of_matrix(sparse_product(point).right);
  if (!skip && has_mask_matrix(point)) skip = skip_of_matrix(sparse_product(point).mask);
  return skip;
}

std::size_t Foresight::PointHash::operator()(const Point& point) const {
  return std::hash<std::string>()(point.backend + " " + task_text(point));
}

std::optional<Skip> Foresight::kernel_skip(Point point) {
  const BackendTraits& backend = backend_traits(point.backend);
  if (backend.activity != Activity::kMultiply || backend.needs_gpu) return std::nullopt;
  point.matrix = kTiny;
  static const Variant none{"none", Registry<Reordering>::instance().resolve("none", {})};
  point.reorder = none;
  point.check.enabled = false;
  if (auto* dense = std::get_if<DenseProduct>(&point.task)) {
    if (dense->kernel.name == kAuto) return std::nullopt;
    dense->n = std::min(dense->n, kFewColumns);
  } else if (auto* sampled = std::get_if<SampledProduct>(&point.task)) {
    sampled->n = std::min(sampled->n, kFewColumns);
  } else {
    auto& sparse = std::get<SparseProduct>(point.task);
    if (sparse.right != kTranspose) sparse.right = kSelf;
    if (!sparse.mask.empty()) sparse.mask = kSelf;
  }
  const auto [known, is_new] = kernels_.try_emplace(point);
  if (is_new) {
    const Record record = PointRunner().run(point).record;
    if (record.status == "skipped")
      known->second = Skip{*record.skip, point.backend, record.reason.value_or("")};
  }
  return known->second;
}

}  // namespace tessera
