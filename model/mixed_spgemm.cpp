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
  double mma_us;
  Effort::Multiplication effort;
};
Multiplying multiplying(const std::string& precision, const Device& device, const Effort& effort) {
  constexpr double kFlops = 2.0 * 16 * 8 * 8;  // of an MMA eight deep
  if (precision == "fp16")                     // two pairs in an MMA of twice the depth
    return {kFlops / (1e6 * device.value("fp16_mma")), effort.fp16};
  const double mma_us = kFlops / (1e6 * device.value("tf32_mma"));
  if (precision == "tf32") return {mma_us, effort.tf32};
  require(precision == "tf32x3", "tile_spgemm has no precision '{}'", precision);
  return {2 * mma_us, effort.tf32x3};
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
                        effort.nonzero_of_a * real(f.nonzeros_of_a)}},
      Rates(device));
}

Prediction predict_merge(const SparseProductFigures& f, const Device& device,
                         const Effort& effort) {
  constexpr int kLaunches = 10, kWaits = 2, kPasses = 2;  // to count, and to multiply
  constexpr double kNonzeroBytes = 8;
  return add_up({{.name = "merge",
                  .launches = kLaunches,
                  .waits_us = kWaits * effort.wait_of_merge_us,
                  .l2_bytes = kPasses * kNonzeroBytes * real(f.products),
                  .read_bytes = kPasses * kNonzeroBytes * real(f.nonzeros_of_a),
                  .written_bytes = kNonzeroBytes * f.nonzeros_of_c,
                  .instructions = effort.merged_column * f.merged_columns}},
                Rates(device));
}

Prediction predict_tiles(const SparseProductFigures& f, const std::string& precision,
                         const Device& device, const Effort& effort) {
  constexpr double kNonzeroBytes = 8, kTileBytes = 16 + 4, kTileOfCBytes = 16 + 4 + 8 + 32,
                   kPairBytes = 8;
  // Of A by rows, of B by columns.
  const double nonzeros = real(f.nonzeros_of_a) + (f.is_square ? 0 : real(f.nonzeros_of_b));
  const double tiles = real(f.tiles_of_a) + (f.is_square ? 0 : real(f.tiles_of_b));
  const double written_tiles = real(f.tiles_of_a) + real(f.tiles_of_b);
  const Multiplying with = multiplying(precision, device, effort);
  return add_up(
      {{.name = "tiles",
        .launches = f.is_square ? 4 : 7,
        .read_bytes = 2 * kNonzeroBytes * nonzeros,
        .written_bytes =
            kTileBytes * written_tiles + 4 * (real(f.nonzeros_of_a) + real(f.nonzeros_of_b)),
        .instructions = effort.converted_nonzero * nonzeros + effort.converted_tile * tiles,
        .loads = effort.loads_of_nonzero * real(f.longest_warps) +
                 effort.loads_of_tile * real(f.longest_tile_rows)},
       {.name = "tasks",
        .launches = 3,
        .waits_us = effort.wait_of_tasks_us,
        .l2_bytes = 8 * real(f.tiles_of_a),
        .instructions =
            effort.tile_row_as_task * real(f.tile_rows) + effort.tile_as_task * real(f.tiles_of_a)},
       {.name = "tiles of C",
        .launches = 10,
        .waits_us = effort.wait_of_tiles_us,
        .l2_bytes = 4 * real(f.tile_products),
        .instructions = effort.counted_tile * f.tiles_of_c},
       {.name = "pairs",
        .launches = 6,
        .l2_bytes = kTileBytes * real(f.tile_products),
        .written_bytes = kPairBytes * f.pairs,
        .instructions =
            effort.tile_product * real(f.tile_products) + effort.listed_tile * f.tiles_of_c,
        .loads = effort.loads_of_tile_products * real(f.largest_tile_products) / 32},
       {.name = "cells",
        .launches = 4,
        .waits_us = effort.wait_of_cells_us,
        .l2_bytes = (kPairBytes + 2 * 8) * f.pairs,
        .written_bytes = (kTileOfCBytes - kTileBytes) * f.tiles_of_c,
        .instructions = effort.pair_in_cells * f.pairs + effort.tile_in_cells * f.tiles_of_c},
       {.name = "multiplication",
        .launches = 1,
        .l2_bytes = (kPairBytes + 2 * 16) * f.pairs,
        .written_bytes = kNonzeroBytes * f.nonzeros_of_c,
        .instructions = with.effort.pair * f.pairs + with.effort.tile_of_c * f.tiles_of_c,
        .mma_us = with.mma_us * f.pairs}},
      Rates(device));
}

}  // namespace tessera::mixed_model
