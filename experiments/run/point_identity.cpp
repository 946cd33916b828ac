#include "experiments/run/point_identity.hpp"

#include "experiments/run/advice.hpp"
#include "formats/base/hash.hpp"
#include "formats/format.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/spgemm_kernel.hpp"
#include "kernels/spmm_kernel.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

template <class T>
std::int64_t version_of(const Variant& variant) {
  return make_registered<T>(variant)->version();
}

void add_versions(const DenseProduct& product, VersionsPart& versions) {
  if (product.kernel.name != kAuto) {
    versions.kernel = version_of<SpmmKernel>(product.kernel);
    return;
  }
  const Json choice = choice_versions();
  versions.advisor = choice.at("advisor_version").get<std::int64_t>();
  choice.at("kernel_versions").get_to(versions.kernels);
}

void add_versions(const SparseProduct& product, VersionsPart& versions) {
  versions.kernel = version_of<SpgemmKernel>(product.kernel);
}

void add_versions(const SampledProduct& product, VersionsPart& versions) {
  versions.kernel = version_of<SddmmKernel>(product.kernel);
}

void add_versions(const Packing& packing, VersionsPart& versions) {
  versions.format = version_of<Format>(packing.format);
}

void add_versions(const Ordering&, VersionsPart&) {}

}  // namespace

PointIdentity::PointIdentity(const Point& point) : params_(to_json(point)) {
  versions_.reorder = version_of<Reordering>(point.reorder);
  std::visit([&](const auto& task) { add_versions(task, versions_); }, point.task);
}

std::string PointIdentity::point_id(const std::string& content_hash) const {
  return hash_text(
      fmt::format("{}|{}|{}", params_.dump(), content_hash, to_json(versions_).dump()));
}

bool has_right_matrix(const Point& point) {
  const auto* product = std::get_if<SparseProduct>(&point.task);
  return product && product->right != kSelf && product->right != kTranspose;
}

bool has_mask_matrix(const Point& point) {
  const auto* product = std::get_if<SparseProduct>(&point.task);
  return product && !product->mask.empty() && product->mask != kSelf;
}

}  // namespace tessera
