// Backend "model": the time a described device would take, from the kernel's work description.

#include "experiments/backends/backend.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

class ModelBackend final : public Backend {
 public:
  std::string origin() const override { return "modelled"; }

  BackendResult run(const Multiplication& m) const override {
    BackendResult result;
    result.time_us = predict(m.point, m.kernel.work(m.a, m.b.cols), result.fields);
    return result;
  }

  SparseProductResult multiply(const SparseMultiplication& m) const override {
    SparseProductResult result;
    result.time_us = predict(m.point, m.kernel.work(m.a, m.b), result.fields);
    return result;
  }

 private:
  static double predict(const Point& point, const WorkDescription& work, Json& fields) {
    const auto model = Registry<Model>::instance().make(point.model.name, point.model.params);
    const Prediction prediction = model->predict(work, find_device(point.device));
    Json parts = Json::array();
    for (const PredictedPart& part : prediction.parts)
      parts.push_back({{"name", part.name}, {"time_us", part.time_us}, {"reason", part.reason}});
    fields["prediction"] = {
        {"time_us", prediction.time_us}, {"bound_by", prediction.bound_by}, {"parts", parts}};
    const ThreadBlockWork total = work.total();
    fields["work_description"] = {
        {"mma", total.mma},         {"fma", total.fma},
        {"a_bytes", total.a_bytes}, {"b_bytes", total.b_bytes},
        {"c_bytes", total.c_bytes}, {"thread_blocks", work.thread_blocks.size()}};
    return prediction.time_us;
  }
};

constexpr const char* kSummary = "the time an analytic model predicts for a described device";
const RegisterTraits<BackendTraits> traits{
    "model", kSummary, {.needs_device = true, .predicts = true}};
const Register<Backend> entry{{
    .name = "model",
    .summary = kSummary,
    .make = [](const Params&) { return std::make_unique<ModelBackend>(); },
}};

}  // namespace
}  // namespace tessera
