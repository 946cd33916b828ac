#include "model/mixed_spgemm.hpp"

#include <algorithm>
#include <limits>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera::mixed_model {
namespace {

double real(std::int64_t count) { return static_cast<double>(count); }

/// What a device does in a microsecond.
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
  double load_us;          // a load that the next one waits for
  double launch_us;
};

/// One stage: what it does, by kind.
struct Stage {
  const char* name;
  int launches = 0;
  double waits_us = 0;
  double l2_bytes = 0, read_bytes = 0, written_bytes = 0;
  double instructions = 0;
  double loads = 0;   // one after another
  double mma_us = 0;  // by rate
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

/// MMAs a pair of tiles at their measured rate, and what is issued with them.
struct Multiplying {
  double mma_us, pair;
};
Multiplying multiplying(const std::string& precision, const Device& device, const Effort& effort) {
  constexpr double kFlops = 2.0 * 16 * 8 * 8;  // of an MMA eight deep
  if (precision == "fp16")                     // two pairs in an MMA of twice the depth
    return {kFlops / (1e6 * device.value("fp16_mma")), effort.pair_in_fp16};
  const double mma_us = kFlops / (1e6 * device.value("tf32_mma"));
  if (precision == "tf32") return {mma_us, effort.pair_in_tf32};
  require(precision == "tf32x3", "tile_spgemm has no precision '{}'", precision);
  return {2 * mma_us, effort.pair_in_tf32x3};
}

class MixedModel final : public PathModel {
 public:
  PathTimes predict(const SparseProductFigures& figures, const std::string& precision,
                    const std::string& name) const override {
    const Device& device = find_device(name);
    return {.rows_us = predict_rows(figures, device).time_us,
            .tiles_us = precision == "fp32" ? std::numeric_limits<double>::infinity()
                                            : predict_tiles(figures, precision, device).time_us,
            .merge_us = predict_merge(figures, device).time_us};
  }
};

const Register<PathModel> entry{{
    .name = "mixed_spgemm",
    .summary = "launches, waits, bytes, MMAs, instructions and chains of loads, stage by stage",
    .make = [](const Params&) { return std::make_unique<MixedModel>(); },
}};

}  // namespace

Prediction predict_rows(const SparseProductFigures& f, const Device& device, const Effort& effort) {
  constexpr int kLaunches = 27, kWaits = 3;  // most of them for classes of tasks, in both phases
  constexpr double kNonzeroBytes = 8;        // column and value
  return add_up(
      {{.name = "rows",
        .launches = kLaunches,
        .waits_us = kWaits * effort.wait_of_rows_us,
        .l2_bytes = kNonzeroBytes * real(f.products),
        .read_bytes = kNonzeroBytes * real(f.nonzeros_of_a),
        .written_bytes = kNonzeroBytes * f.nonzeros_of_c,
        .instructions = effort.product * real(f.products) + effort.nonzero_of_c * f.nonzeros_of_c +
                        effort.nonzero_of_large_row * real(f.nonzeros_of_large_rows),
        .loads = effort.loads_of_nonzero * real(f.longest_row_of_a)}},
      Rates(device));
}

Prediction predict_merge(const SparseProductFigures& f, const Device& device,
                         const Effort& effort) {
  constexpr int kLaunches = 10, kPasses = 2;           // to count, and to multiply
  constexpr std::int64_t kRoomForProducts = 16 << 20;  // C is not waited for
  constexpr double kNonzeroBytes = 8;
  const int waits = f.products > kRoomForProducts ? 2 : 1;
  return add_up({{.name = "merge",
                  .launches = kLaunches,
                  .waits_us = waits * effort.wait_of_merge_us,
                  .l2_bytes = kPasses * kNonzeroBytes * real(f.products),
                  .read_bytes = kPasses * kNonzeroBytes * real(f.nonzeros_of_a),
                  .written_bytes = kNonzeroBytes * f.nonzeros_of_c,
                  .instructions = effort.merged_column * f.merged_columns}},
                Rates(device));
}

Prediction predict_tiles(const SparseProductFigures& f, const std::string& precision,
                         const Device& device, const Effort& effort) {
  constexpr double kNonzeroBytes = 8, kTileBytes = 16, kOffsetBytes = 8, kThreads = 128;
  constexpr double kPairsOfTile = 3;  // as the kernel shares out tiles of C among warps
  const bool is_fp16 = precision == "fp16";
  const int matrices = f.is_square ? 1 : 2;  // to make tiles of
  const double value_bytes = is_fp16 ? 2 : 4;
  const double all_nonzeros = real(f.nonzeros_of_a) + real(f.nonzeros_of_b);
  const double nonzeros = f.is_square ? real(f.nonzeros_of_a) : all_nonzeros;
  const double tiles = real(f.tiles_of_a) + (f.is_square ? 0 : real(f.tiles_of_b));
  const double tile_rows = real(f.tile_rows) + (f.is_square ? 0 : real(f.tile_rows_of_b));
  const double products = real(f.tile_products), long_products = real(f.long_tile_products);
  const double long_pairs = products > 0 ? f.pairs * long_products / products : 0;
  const Multiplying with = multiplying(precision, device, effort);
  return add_up(
      {{.name = "tiles",
        .launches = 1 + matrices + (is_fp16 ? matrices : 0),
        .waits_us = effort.start_us + (is_fp16 ? effort.scales_us : 0),
        .read_bytes = (2 * kNonzeroBytes + (is_fp16 ? sizeof(float) : 0)) * nonzeros,
        .written_bytes = kTileBytes * tiles + value_bytes * all_nonzeros,
        .instructions = effort.filled_tile_row * tile_rows + effort.filled_tile * tiles,
        .loads = effort.loads_of_filling * real(f.longest_filling)},
       {.name = "cells",
        .launches = 4,
        .l2_bytes = 2 * kTileBytes * products,  // for marks, and for cells
        .instructions = effort.counting_look * real(f.looks) +
                        effort.counting_tile * real(f.tiles_looked_at) +
                        effort.counted_product * products,
        .loads = effort.loads_of_counting * real(f.largest_task) / kThreads},
       {.name = "multiplication",
        .launches = 3 + (f.long_tile_products > 0 ? 1 : 0),
        .l2_bytes = kTileBytes * (3 * products + f.pairs),  // the same again, for lists, for sums
        .read_bytes = kOffsetBytes * real(f.rows),
        .written_bytes = kOffsetBytes * real(f.rows) + kNonzeroBytes * f.nonzeros_of_c,
        .instructions =
            effort.summing_look * real(f.looks) + effort.summing_tile * real(f.tiles_looked_at) +
            effort.long_pair * long_pairs + with.pair * (f.pairs + kPairsOfTile * f.tiles_of_c),
        .loads = effort.loads_of_summing * real(f.largest_task) / kThreads,
        .mma_us = with.mma_us * f.pairs}},
      Rates(device));
}

}  // namespace tessera::mixed_model
