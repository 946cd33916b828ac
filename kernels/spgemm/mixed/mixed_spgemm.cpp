// SpGEMM by rows, by merging or by tiles, ours: row_spgemm or merge_spgemm (FP32), or tile_spgemm
// (tensor cores, in the precision that the caller admits), whichever is predicted to be fastest for
// this A and B.
//
// Policy "model" of formats/base/choice.hpp: each kernel counts its work in A and B, from one
// sketch of the product, and the cost model registered under its name turns the counts into a time.
// This file names the kernels and sees neither their rooms nor any model. The device of the
// prediction is a parameter, so that the choice, and with it every bit of C, is the same wherever
// the product is made or emulated.

#include "kernels/spgemm/mixed/mixed_spgemm.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/shared/product_sketch.hpp"

namespace tessera {
namespace {

constexpr const char* kRows = "row_spgemm";
constexpr const char* kTiles = "tile_spgemm";
constexpr const char* kMerge = "merge_spgemm";
constexpr const char* kNoTilesInFp32 =
    "path = tiles needs a precision of tensor cores: fp16, tf32 or tf32x3";
constexpr const char* kNoOtherInFp64 = "only row_spgemm computes in FP64: path = rows or auto";
constexpr const char* kNoLimit = "only row_spgemm keeps to a workspace_limit: path = rows or auto";

const Registry<SpgemmKernel>& kernels() { return Registry<SpgemmKernel>::instance(); }

/// The parameters with which mixed_spgemm makes one of its kernels; empty when the precision that
/// the caller admits, or the limit of memory, leaves the kernel out.
std::optional<Params> params_of(const std::string& kernel, const Params& params) {
  const std::int64_t limit = params.integer("workspace_limit");
  const std::string& precision = params.text("precision");
  const bool is_wide = precision == "fp64";
  if (kernel == kRows)
    return kernels().resolve(kernel, {{"workspace_limit", limit},
                                      {"precision", std::string(is_wide ? "fp64" : "fp32")}});
  if (limit > 0 || is_wide) return std::nullopt;
  if (kernel != kTiles) return kernels().resolve(kernel, {});
  if (precision == "fp32") return std::nullopt;
  return kernels().resolve(kernel, {{"precision", precision}});
}

/// The admitted kernels that take A and B and that have a cost model.
std::vector<CountedKernel> count_all(const CsrMatrix& a, const CsrMatrix& b,
                                     const Params& admitted) {
  std::vector<CountedKernel> counted;
  std::optional<spgemm::ProductSketch> sketch;
  for (const char* kernel : {kMerge, kRows, kTiles}) {  // equal times: the first is chosen
    const std::optional<Params> params = params_of(kernel, admitted);
    if (!params || !Registry<CostModel>::instance().contains(kernel)) continue;
    if (!sketch) sketch.emplace(a, b);
    try {
      counted.push_back({kernel, *params, kernels().make(kernel, *params)->count_work(*sketch)});
    } catch (const Unsupported&) {  // the kernel does not take these operands
    }
  }
  return counted;
}

/// The fastest of the kernels by their cost models. Throws Unsupported when the device's file lacks
/// a rate.
Decision decide_by_model(const std::vector<CountedKernel>& counted, const std::string& device) {
  std::vector<Candidate> candidates;
  for (const CountedKernel& one : counted) candidates.push_back({.name = one.kernel});
  CostModelPolicy policy(counted, device);
  Decision decision = decide(candidates, policy);
  // Without one of the times, the choice would differ from that for a device with all rates.
  if (!decision.excluded.empty()) throw Unsupported(decision.excluded.front().reason);
  return decision;
}

/// The kernel that the parameter "path" names; empty for "auto".
std::string kernel_of_path(const std::string& path) {
  return path == "rows" ? kRows : path == "merge" ? kMerge : path == "tiles" ? kTiles : "";
}

class MixedSpgemm final : public SpgemmKernel {
 public:
  explicit MixedSpgemm(Params params) : params_(std::move(params)) {
    const std::string& path = params_.text("path");
    require(path != "tiles" || !is_fp32(), kNoTilesInFp32);
    require(!is_fp64() || path == "auto" || path == "rows", kNoOtherInFp64);
    require(params_.integer("workspace_limit") == 0 || path == "auto" || path == "rows", kNoLimit);
  }

  /// Changes with the version of each kernel that can be chosen.
  int version() const override {
    constexpr int kVersion = 4, kPlaces = 1000;
    const auto of = [](const char* kernel) { return kernels().make(kernel)->version(); };
    return ((kVersion * kPlaces + of(kRows)) * kPlaces + of(kTiles)) * kPlaces + of(kMerge);
  }

  /// The least exact arithmetic that is admitted.
  Arithmetic arithmetic() const override {
    const std::string& precision = params_.text("precision");
    if (is_fp32()) return kernels().make(kRows)->arithmetic();
    if (is_fp64()) return kernels().make(kRows, *params_of(kRows, params_))->arithmetic();
    return kernels().make(kTiles, {{"precision", precision}})->arithmetic();
  }
  Arithmetic arithmetic_of(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->arithmetic();
  }
  std::optional<SpgemmPath> path_of(const CsrMatrix& a, const CsrMatrix& b) const override {
    return mixed_spgemm::choose(a, b, params_).path;
  }
  std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->terms_per_row(a, b);
  }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override {
    return chosen(a, b)->emulate(a, b, generation);
  }
  CsrMatrix emulate_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask,
                           const Generation& generation) const override {
    if (const auto rows = mixed_spgemm::params_of_masked_rows(params_))
      return kernels().make(kRows, *rows)->emulate_masked(a, b, mask, generation);
    // The whole product comes first: the chosen kernel does not see the mask.
    return SpgemmKernel::emulate_masked(a, b, mask, generation);
  }
  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->work(a, b);
  }

 private:
  bool is_fp32() const { return params_.text("precision") == "fp32"; }
  bool is_fp64() const { return params_.text("precision") == "fp64"; }

  std::unique_ptr<SpgemmKernel> chosen(const CsrMatrix& a, const CsrMatrix& b) const {
    const mixed_spgemm::Choice choice = mixed_spgemm::choose(a, b, params_);
    return kernels().make(choice.path.kernel, choice.params);
  }

  Params params_;
};

const Register<SpgemmKernel> entry{{
    .name = "mixed_spgemm",
    .summary = "ours for any input: row_spgemm, merge_spgemm or tile_spgemm, whichever a cost "
               "model predicts to be fastest",
    .params =
        {{"precision",
          std::string("fp32"),
          "the least exact arithmetic that is admitted; fp32 leaves out tile_spgemm; fp64, with "
          "values in FP64, leaves row_spgemm alone",
          {"fp32", "fp64", "tf32x3", "tf32", "fp16"}},
         {"path",
          std::string("auto"),
          "the kernel to use: row_spgemm (rows), merge_spgemm (merge), tile_spgemm (tiles), or the "
          "one that the cost models predict to be fastest (auto)",
          {"auto", "rows", "merge", "tiles"}},
         {"masking",
          std::string("inside"),
          "under a mask: row_spgemm with the mask inside, unless the path is another; or the whole "
          "product by the path, and a filter after it",
          {"inside", "after"}},
         {"workspace_limit",
          std::int64_t{0},
          "memory of a product beside C in bytes, at most; leaves row_spgemm alone; 0: no limit",
          {},
          0},
         {"model_device", std::string("h200"),
          "the described device whose rates the cost models use"}},
    .make = [](const Params& params) { return std::make_unique<MixedSpgemm>(params); },
}};

}  // namespace

std::optional<Params> mixed_spgemm::params_of_masked_rows(const Params& params) {
  const std::string kernel = kernel_of_path(params.text("path"));
  if (params.text("masking") == "after" || (!kernel.empty() && kernel != kRows))
    return std::nullopt;
  return params_of(kRows, params);
}

mixed_spgemm::Choice mixed_spgemm::choose(const CsrMatrix& a, const CsrMatrix& b,
                                          const Params& params) {
  const std::string& path = params.text("path");
  const std::vector<CountedKernel> counted = count_all(a, b, params);
  const Decision decision = decide_by_model(counted, params.text("model_device"));
  Choice choice;
  for (const Rating& one : decision.ranked)
    choice.path.predicted_us[counted[one.candidate].kernel] = one.time_us;
  choice.path.kernel = kernel_of_path(path);
  choice.path.reason = fmt::format("path = {} names it", path);
  if (choice.path.kernel.empty()) {
    require<Unsupported>(!decision.ranked.empty(),
                         "mixed_spgemm has no cost model here: name the path");
    choice.path.kernel = counted[decision.chosen().candidate].kernel;
    choice.path.reason = decision.chosen().reason;
  }
  const std::optional<Params> params_of_kernel = params_of(choice.path.kernel, params);
  require(params.integer("workspace_limit") == 0 || choice.path.kernel == kRows, kNoLimit);
  require(params_of_kernel.has_value(), kNoTilesInFp32);
  choice.params = *params_of_kernel;
  return choice;
}

}  // namespace tessera
