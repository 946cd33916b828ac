// The roofline (Williams, Waterman and Patterson 2009) with one roof per level: the time of a
// launch is that of its slowest part when everything else overlaps with it.
//
// It is the baseline of every other model: it counts bytes and operations and ignores latency,
// balance and occupancy, so a real kernel is slower. DRAM moves each operand once (not at all when
// it is warm and fits in L2); L2 delivers what the thread blocks request, without deducting L1
// hits. Back-to-back launches overlap with the work before them, so their cost is one more part,
// not an addend.
#include <algorithm>
#include <cassert>

#include "formats/base/registry.hpp"
#include "model/model.hpp"

namespace tessera {
namespace {

class Roofline final : public Model {
 public:
  Roofline(Ceilings ceilings, bool warm) : ceilings_(ceilings), warm_(warm) {}

  Prediction predict(const WorkDescription& work, const Device& device) const override {
    const ThreadBlockWork total = work.total();
    const auto compulsory =
        static_cast<double>(work.footprint_bytes + work.b_rows_bytes + work.c_bytes);
    const auto requested = static_cast<double>(total.a_bytes + total.b_bytes + total.c_bytes);

    Prediction prediction;
    const auto moves = [&](const char* name, double bytes, const char* bandwidth) {
      const double gbps = device.value(bandwidth, ceilings_);
      add(prediction, name, bytes / (1e3 * gbps),
          fmt::format("{:.2f} MB at {:.0f} GB/s", bytes / 1e6, gbps));
    };
    const auto computes = [&](const char* name, double operations, const std::string& rate) {
      const double tflops = device.value(rate, ceilings_);
      add(prediction, name, operations / (1e6 * tflops),
          fmt::format("{:.2f} GFLOP at {:.1f} TFLOP/s", operations / 1e9, tflops));
    };

    const bool in_l2 =
        warm_ && device.has("l2_bandwidth") && compulsory <= device.value("l2_capacity", ceilings_);
    if (!in_l2) moves("DRAM", compulsory, "dram_bandwidth");
    if (device.has("l2_bandwidth")) moves("L2", requested, "l2_bandwidth");
    if (total.mma > 0) {
      assert(!work.mma_type.empty() && work.flops_per_mma > 0);
      // Without a rate of mma.sync, the peak of the type counts.
      const std::string through_mma = work.mma_type + "_mma";
      const bool known = ceilings_ == Ceilings::kMeasured && device.has(through_mma);
      computes("tensor cores", static_cast<double>(total.mma) * work.flops_per_mma,
               known ? through_mma : work.mma_type);
    }
    if (total.fma > 0) computes("CUDA cores", 2.0 * static_cast<double>(total.fma), "fp32");

    if (device.has("launch_overhead")) {
      const double us = device.value("launch_overhead", ceilings_);
      add(prediction, "launch", us, fmt::format("{:.1f} us from one kernel to the next", us));
    }
    const auto slowest = std::ranges::max_element(prediction.parts, {}, &PredictedPart::time_us);
    prediction.time_us = slowest->time_us;
    prediction.bound_by = slowest->name;
    return prediction;
  }

 private:
  static void add(Prediction& prediction, const char* name, double time_us, std::string reason) {
    prediction.parts.push_back({name, time_us, std::move(reason)});
  }

  Ceilings ceilings_;
  bool warm_;
};

const Register<Model> entry{{
    .name = "roofline",
    .summary = "the slowest of DRAM, L2, tensor cores, CUDA cores and launch",
    .params = {{"ceilings",
                std::string("measured"),
                "preferred rates where a device has both",
                {"measured", "datasheet"}},
               {"warm", true, "operands that fit in L2 are in it at the start"}},
    .make =
        [](const Params& params) {
          return std::make_unique<Roofline>(
              params.text("ceilings") == "measured" ? Ceilings::kMeasured : Ceilings::kDatasheet,
              params.flag("warm"));
        },
}};

}  // namespace
}  // namespace tessera
