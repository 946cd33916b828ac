// Backend "model": the time a described device would take, from the kernel's work description.

#include "experiments/backends/predicting_backend.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

class ModelBackend final : public PredictingBackend {
 public:
  std::string origin() const override { return "modelled"; }

 private:
  double predict(const Point& point, const WorkDescription& work,
                 BackendFindings& findings) const override {
    const auto model = make_registered<Model>(point.model);
    Prediction prediction = model->predict(work, find_device(point.device));
    findings.prediction = {prediction.time_us, prediction.bound_by, std::move(prediction.parts)};
    const ThreadBlockWork total = work.total();
    findings.work_description = {
        total.mma,     total.fma,     total.a_bytes,
        total.b_bytes, total.c_bytes, static_cast<std::int64_t>(work.thread_blocks.size())};
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
