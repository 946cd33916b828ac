// Backend "model": the time a described device would take, from the kernel's work description.

#include "experiments/backend.hpp"
#include "formats/base/registry.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

class ModelBackend final : public Backend {
 public:
  std::string origin() const override { return "modelled"; }

  BackendResult run(const Multiplication& m) const override {
    const auto model = Registry<Model>::instance().make(m.point.model.name, m.point.model.params);
    const WorkDescription work = m.kernel.work(m.a, m.point.n);
    const Prediction prediction = model->predict(work, find_device(m.point.device));

    BackendResult result;
    result.time_us = prediction.time_us;
    Json parts = Json::array();
    for (const PredictedPart& part : prediction.parts)
      parts.push_back({{"name", part.name}, {"time_us", part.time_us}, {"reason", part.reason}});
    result.fields["prediction"] = {
        {"time_us", prediction.time_us}, {"bound_by", prediction.bound_by}, {"parts", parts}};
    const ThreadBlockWork total = work.total();
    result.fields["work_description"] = {
        {"mma", total.mma},         {"fma", total.fma},
        {"a_bytes", total.a_bytes}, {"b_bytes", total.b_bytes},
        {"c_bytes", total.c_bytes}, {"thread_blocks", work.thread_blocks.size()}};
    return result;
  }
};

const Register<Backend> entry{{
    .name = "model",
    .summary = "the time an analytic model predicts for a described device",
    .make = [](const Params&) { return std::make_unique<ModelBackend>(); },
}};

}  // namespace
}  // namespace tessera
