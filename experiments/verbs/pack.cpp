// tessera pack: one packing, its footprint by array, and proof that it can be undone; with --gpu,
// built on the GPU as well, and held against the host's bytes.

#include <optional>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/run/describe.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// The results; `gpu` only with --gpu.
struct Found {
  std::string matrix;
  PackingResult host;
  std::string fault;  // of the round trip
  std::optional<PackingResult> gpu;

  bool right() const { return fault.empty() && (!gpu || gpu->fault.empty()); }
};

class PackVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "the matrix: a file, a generator or a name")->required();
    app.add_option("--format", format_, "format of the packed matrix (`tessera list formats`)")
        ->required();
    app.add_option("--set", sets_, "parameter of the format")
        ->allow_extra_args(false)
        ->takes("NAME=VALUE");
    app.add_option("--reorder", reordering_, "reordering applied first");
    app.add_flag("--gpu", gpu_, "also pack on this machine's GPU, and compare the bytes");
    app.add_flag("--json", json_, "print JSON");
    app.example("tessera pack 'rmat(scale=12)' --format bit_tcf",
                "bytes of each array, and proof that the packing can be undone");
  }

  int run() override {
    const BackendChoice gpu = gpu_ ? find_backend("pack_gpu") : BackendChoice{};
    if (!gpu.missing.empty()) {
      say_error(gpu.missing);
      return kMissing;
    }
    const Params params = Registry<Format>::instance().resolve(format_, given_params(sets_));
    const Point point{.task = Packing{{}, {format_, params}, false}};
    const auto format = Registry<Format>::instance().make(format_, params);
    Found found;
    const CsrMatrix matrix = ordered_matrix(found.matrix);
    const PackingInput packing{point, *format, matrix};
    found.host = find_backend("pack").backend->pack(packing);
    if (gpu.backend) found.gpu = gpu.backend->pack(packing);
    found.fault = round_trip_fault(*found.host.packed, matrix);
    if (json_)
      print_json(as_json(found));
    else
      tell(found);
    return found.right() ? kOk : kWrong;
  }

 private:
  /// Loads the matrix, and puts it in the order that was asked for.
  CsrMatrix ordered_matrix(std::string& name) const {
    const LoadedMatrix loaded = load_matrix(matrix_);
    name = loaded.source.name;
    const auto reordering = Registry<Reordering>::instance().make(reordering_);
    return apply(loaded.matrix, reordering->order(loaded.matrix));
  }

  Json as_json(const Found& found) const {
    Json json = describe_packed(*found.host.packed);
    json["matrix"] = found.matrix;
    json["format"] = format_;
    json["pack_s"] = 1e-6 * found.host.time_us;
    json["round_trip_exact"] = found.fault.empty();
    if (found.gpu) {
      json["pack_gpu_s"] = 1e-6 * found.gpu->time_us;
      json["host_bytes"] = found.gpu->fault.empty();
    }
    return json;
  }

  void tell(const Found& found) const {
    const PackedMatrix& packed = *found.host.packed;
    const FormatStats sizes = stats(packed);
    fmt::print("{} as {}: packed in {}, {}\n", found.matrix, format_, time_text(found.host.time_us),
               found.fault.empty() ? toned(Tone::kGood, "round trip exact")
                                   : toned(Tone::kError, "WRONG: " + found.fault));
    if (found.gpu)
      fmt::print("on the GPU in {}, {}\n", time_text(found.gpu->time_us),
                 found.gpu->fault.empty() ? toned(Tone::kGood, "the same bytes")
                                          : toned(Tone::kError, "WRONG: " + found.gpu->fault));
    fmt::print("{:20} {:>14} {:>14}\n", "array", "elements", "bytes");
    for (const ArrayInfo& array : packed.arrays())
      fmt::print("{:20} {:>14} {:>14}\n", array.name, array.elements, array.bytes);
    fmt::print("{:20} {:>14} {:>14}  ({:.2f} bytes per nonzero)\n", "footprint", "", sizes.bytes,
               packed.nnz() > 0
                   ? static_cast<double>(sizes.bytes) / static_cast<double>(packed.nnz())
                   : 0.0);
    if (sizes.tile.tiles > 0)
      fmt::print(
          "{} of {} x {}, {:.2f} nonzeros each, density {:.1f} %, {:.2f} stored zeros "
          "per nonzero\n",
          counted(sizes.tile.tiles, "tile"), sizes.tile.rows, sizes.tile.cols,
          sizes.mean_nnz_per_tile, 100 * sizes.tile_density, sizes.padding_ratio);
  }

  std::string matrix_, format_, reordering_ = "none";
  std::vector<std::string> sets_;
  bool gpu_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "pack",
    .summary = "pack one matrix: footprint by array, time, exact round trip",
    .make = [](const Params&) { return std::make_unique<PackVerb>(); },
}};

}  // namespace
}  // namespace tessera
