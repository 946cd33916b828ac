#include "model/mixed_spgemm.hpp"

#include <algorithm>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera::mixed_model {
namespace {

/// The rates of a device, per microsecond.
struct Rates {
  explicit Rates(const Device& device)
      : l2(1e3 * device.value("l2_bandwidth")),
        read(1e3 * device.value("dram_bandwidth")),
        write(1e3 * device.value("dram_write_bandwidth")),
        issue(device.value("sm_count") * device.value("issue_rate") * device.value("clock")),
        load_us(device.value("l2_latency") / device.value("clock")),
        launch_us(device.value("launch_overhead")) {}

  double l2, read, write;  // bytes
  double issue;            // instructions of warps
  double load_us;          // time of a load on which the next one depends
  double launch_us;
};

/// The work of one stage, by kind.
struct Stage {
  const char* name;
  int launches = 0;
  double waits_us = 0;
  double l2_bytes = 0, read_bytes = 0, written_bytes = 0;
  double instructions = 0;
  double loads = 0;   // that depend on each other
  double mma_us = 0;  // at the measured rate
};

Prediction add_up(std::initializer_list<Stage> stages, const Rates& rates) {
  Prediction prediction;
  for (const Stage& s : stages) {
    const double launches = s.launches * rates.launch_us + s.waits_us;
    const double bytes =
        s.l2_bytes / rates.l2 + s.read_bytes / rates.read + s.written_bytes / rates.write;
    const double instructions = s.instructions / rates.issue, loads = s.loads * rates.load_us;
    const double time = launches + bytes + s.mma_us + instructions + loads;
    prediction.parts.push_back(
        {s.name, time,
         fmt::format("launches and waits {:.1f}, bytes {:.1f}, MMAs {:.1f}, instructions {:.1f}, "
                     "loads in a row {:.1f}",
                     launches, bytes, s.mma_us, instructions, loads)});
    prediction.time_us += time;
  }
  prediction.bound_by =
      std::ranges::max_element(prediction.parts, {}, &PredictedPart::time_us)->name;
  return prediction;
}

/// The time of the MMAs of a pair of tiles, at their measured rate, and the instructions issued
/// with them.
struct PairCost {
  double mma_us, instructions;
};
PairCost pair_cost(const std::string& precision, const Device& device, const Effort& effort) {
  constexpr double kFlops = 2.0 * 16 * 8 * 8;  // of an MMA eight deep
  if (precision == "fp16")                     // two pairs in an MMA of twice the depth
    return {kFlops / (1e6 * device.value("fp16_mma")), effort.pair_in_fp16};
  const double mma_us = kFlops / (1e6 * device.value("tf32_mma"));
  if (precision == "tf32") return {mma_us, effort.pair_in_tf32};
  require(precision == "tf32x3", "tile_spgemm has no precision '{}'", precision);
  return {2 * mma_us, effort.pair_in_tf32x3};
}

/// One of the predictions below as a registered cost model.
class KernelCost final : public CostModel {
 public:
  using Predict = Prediction (*)(const WorkCounts&, const Params&, const Device&);
  explicit KernelCost(Predict predict) : predict_(predict) {}

  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    const Prediction prediction = predict_(counts, params, find_device(device));
    const auto part =
        std::ranges::find(prediction.parts, prediction.bound_by, &PredictedPart::name);
    return {.origin = Origin::kModelled,
            .time_us = prediction.time_us,
            .bound_by = prediction.bound_by,
            .reason = fmt::format("{:.1f} us; the longest stage ({}) takes {:.1f} us: {}",
                                  prediction.time_us, part->name, part->time_us, part->reason)};
  }

 private:
  Predict predict_;
};

Entry<CostModel> entry_of(const char* kernel, KernelCost::Predict predict) {
  return {
      .name = kernel,
      .summary = "launches, waits, bytes, MMAs, instructions and chains of loads, stage by stage",
      .make = [predict](const Params&) { return std::make_unique<KernelCost>(predict); },
  };
}

const Register<CostModel> rows_entry{
    entry_of("row_spgemm", [](const WorkCounts& counts, const Params&, const Device& device) {
      return predict_rows(counts, device);
    })};
const Register<CostModel> merge_entry{
    entry_of("merge_spgemm", [](const WorkCounts& counts, const Params&, const Device& device) {
      return predict_merge(counts, device);
    })};
const Register<CostModel> tiles_entry{entry_of(
    "tile_spgemm", [](const WorkCounts& counts, const Params& params, const Device& device) {
      return predict_tiles(counts, params.text("precision"), device);
    })};

}  // namespace

Prediction predict_rows(const WorkCounts& counts, const Device& device, const Effort& effort) {
  constexpr int kLaunches = 27,
                kWaits = 3;            // most launches are for classes of tasks, in two phases
  constexpr double kNonzeroBytes = 8;  // column and value
  // A hub's product is written with its key, goes through three passes of a sort, is compared with
  // its neighbour, and its factors are gathered and read: all from and to the L2. Not fitted.
  constexpr int kLaunchesOfHubs = 12;
  constexpr double kHubProductBytes = 8 + 4 + 3 * 16 + 8 + 4 + 8 + 8 + 8;
  const double products = counts.at("products"), nonzeros_of_c = counts.at("nonzeros_of_c");
  const double hub_products = counts.at("hub_products");
  const double wide = products > 0 ? nonzeros_of_c * counts.at("wide_products") / products : 0;
  return add_up(
      {{.name = "rows",
        .launches = kLaunches + (hub_products > 0 ? kLaunchesOfHubs : 0),
        .waits_us = kWaits * effort.wait_of_rows_us,
        .l2_bytes = kNonzeroBytes * products + kHubProductBytes * hub_products,
        .read_bytes = kNonzeroBytes * counts.at("nonzeros_of_a"),
        .written_bytes = kNonzeroBytes * nonzeros_of_c,
        .instructions = effort.product * products + effort.nonzero_of_c * (nonzeros_of_c - wide) +
                        effort.nonzero_of_wide_row * wide +
                        effort.nonzero_of_large_row * counts.at("nonzeros_of_large_rows"),
        .loads = effort.loads_of_nonzero * counts.at("longest_row_of_a")}},
      Rates(device));
}

Prediction predict_merge(const WorkCounts& counts, const Device& device, const Effort& effort) {
  constexpr int kLaunches = 10, kPasses = 2;     // one pass counts, the other multiplies
  constexpr double kRoomForProducts = 16 << 20;  // up to here the host does not wait for C's size
  constexpr double kNonzeroBytes = 8;
  const double products = counts.at("products");
  const int waits = products > kRoomForProducts ? 2 : 1;
  return add_up({{.name = "merge",
                  .launches = kLaunches,
                  .waits_us = waits * effort.wait_of_merge_us,
                  .l2_bytes = kPasses * kNonzeroBytes * products,
                  .read_bytes = kPasses * kNonzeroBytes * counts.at("nonzeros_of_a"),
                  .written_bytes = kNonzeroBytes * counts.at("nonzeros_of_c"),
                  .instructions = effort.merged_column * counts.at("merged_columns")}},
                Rates(device));
}

Prediction predict_tiles(const WorkCounts& counts, const std::string& precision,
                         const Device& device, const Effort& effort) {
  constexpr double kNonzeroBytes = 8, kTileBytes = 16, kOffsetBytes = 8, kThreads = 128;
  constexpr double kPairsOfTile = 3;  // as the kernel shares out tiles of C among warps
  const bool is_fp16 = precision == "fp16";
  const int matrices = static_cast<int>(counts.at("tiled_matrices"));
  const double value_bytes = is_fp16 ? 2 : 4;
  const double tiles = counts.at("tiles"), rows = counts.at("rows");
  const double products = counts.at("tile_products"), pairs = counts.at("pairs");
  const double long_products = counts.at("long_tile_products");
  const double long_pairs = products > 0 ? pairs * long_products / products : 0;
  const double scans = counts.at("scans"), tiles_scanned = counts.at("tiles_scanned");
  const double largest_task = counts.at("largest_task");
  const PairCost pair = pair_cost(precision, device, effort);
  return add_up(
      {{.name = "tiles",
        .launches = 1 + matrices + (is_fp16 ? matrices : 0),
        .waits_us = effort.start_us + (is_fp16 ? effort.scales_us : 0),
        .read_bytes =
            (2 * kNonzeroBytes + (is_fp16 ? sizeof(float) : 0)) * counts.at("tiled_nonzeros"),
        .written_bytes = kTileBytes * tiles + value_bytes * counts.at("operand_nonzeros"),
        .instructions =
            effort.filled_tile_row * counts.at("tiled_rows") + effort.filled_tile * tiles,
        .loads = effort.loads_of_filling * counts.at("longest_filling")},
       {.name = "cells",
        .launches = 4,
        .l2_bytes = 2 * kTileBytes * products,  // once for marks, once for cells
        .instructions = effort.counting_scan * scans + effort.counting_tile * tiles_scanned +
                        effort.counted_product * products,
        .loads = effort.loads_of_counting * largest_task / kThreads},
       {.name = "multiplication",
        .launches = 3 + (long_products > 0 ? 1 : 0),
        .l2_bytes = kTileBytes * (3 * products + pairs),  // for marks, cells, lists and sums
        .read_bytes = kOffsetBytes * rows,
        .written_bytes = kOffsetBytes * rows + kNonzeroBytes * counts.at("nonzeros_of_c"),
        .instructions = effort.summing_scan * scans + effort.summing_tile * tiles_scanned +
                        effort.long_pair * long_pairs +
                        pair.instructions * (pairs + kPairsOfTile * counts.at("tiles_of_c")),
        .loads = effort.loads_of_summing * largest_task / kThreads,
        .mma_us = pair.mma_us * pairs}},
      Rates(device));
}

}  // namespace tessera::mixed_model
