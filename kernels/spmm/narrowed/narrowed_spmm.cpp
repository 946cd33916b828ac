#include "kernels/spmm/narrowed/narrowed_spmm.hpp"

#include <algorithm>

#include "formats/base/registry.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "kernels/spmm/narrowed/trace.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera::narrowed {
namespace {

class NarrowedKernel final : public SpmmKernel {
 public:
  NarrowedKernel(std::unique_ptr<SpmmKernel> narrow, std::unique_ptr<SpmmKernel> wide,
                 ScaleRows scale_rows)
      : narrow_(std::move(narrow)), wide_(std::move(wide)), scale_rows_(std::move(scale_rows)) {}

  std::string format() const override { return wide_->format(); }
  int version() const override { return 100 * narrow_->version() + wide_->version(); }

  Arithmetic arithmetic() const override {
    Arithmetic arithmetic = narrow_->arithmetic();
    arithmetic.storage = {};
    arithmetic.narrows = true;
    return arithmetic;
  }

  void set_gpu(const GpuLimits& gpu) override {
    gpu_ = gpu;
    narrow_->set_gpu(gpu);
    wide_->set_gpu(gpu);
  }

  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    std::vector<std::int64_t> terms = narrow_->terms_per_row(packed);
    std::ranges::transform(
        terms, wide_->terms_per_row(packed), terms.begin(),
        [](std::int64_t one, std::int64_t other) { return std::max(one, other); });
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation& generation) const override {
    const ScaledRows scaled = scale_rows_(packed);
    const NarrowedB narrowed = narrow(b);
    if (!narrowed.is_narrow) return wide_->emulate(packed, b, generation);
    DenseMatrix c =
        narrow_->emulate(scaled.packed ? *scaled.packed : packed, narrowed.b, generation);
    for (std::int64_t i = 0; i < std::ssize(scaled.scales); ++i)
      for (float& sum : c.row(i)) sum *= scaled.scales[i];
    for (std::int64_t i = 0; i < c.rows; ++i)
      for (std::int64_t j = 0; j < c.cols; ++j) c.at(i, j) *= narrowed.col_scales[j];
    return c;
  }

  /// That of a B which can be narrowed.
  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    WorkDescription work = narrow_->work(packed, n);
    add_launches(packed.cols(), n, gpu_.sms, work);
    return work;
  }

 private:
  std::unique_ptr<SpmmKernel> narrow_, wide_;
  ScaleRows scale_rows_;
  GpuLimits gpu_ = kH200Limits;
};

/// The parameters of a recipe, with its changes and others.
Params changed(const Recipe& recipe, const Params::Given& more) {
  Params::Given given(recipe.params.values().begin(), recipe.params.values().end());
  for (const auto* changes : {&recipe.changes, &more})
    for (const auto& [name, value] : *changes) given[name] = value;
  return Registry<SpmmKernel>::instance().resolve(recipe.kernel, given);
}

}  // namespace

Params Recipe::narrow() const {
  return changed(*this, {{"storage", std::string("fp16")}, {"storage_c", std::string("fp32")}});
}
Params Recipe::wide() const { return changed(*this, {}); }

std::unique_ptr<SpmmKernel> make_kernel(const Recipe& recipe) {
  const auto& kernels = Registry<SpmmKernel>::instance();
  return std::make_unique<NarrowedKernel>(kernels.make(recipe.kernel, recipe.narrow()),
                                          kernels.make(recipe.kernel, recipe.wide()),
                                          recipe.scale_rows);
}

}  // namespace tessera::narrowed
