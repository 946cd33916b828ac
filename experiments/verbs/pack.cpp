// tessera pack: one packing, its footprint by array, and proof that it can be undone.

#include <chrono>

#include "experiments/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class PackVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "file, generator or name")->required();
    app.add_option("--format", format_, "see `tessera list formats`")->required();
    app.add_option("--set", sets_, "parameter of the format")->allow_extra_args(false);
    app.add_option("--reorder", reordering_, "reorder first");
    app.add_flag("--json", json_, "as JSON");
  }

  int run() override {
    const auto format = Registry<Format>::instance().make(format_, given_params(sets_));
    const auto reordering = Registry<Reordering>::instance().make(reordering_);
    const LoadedMatrix loaded = load_matrix(matrix_);
    const CsrMatrix matrix = apply(loaded.matrix, reordering->order(loaded.matrix));
    const auto start = std::chrono::steady_clock::now();
    const auto packed = format->pack(matrix);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const bool exact = packed->unpack() == matrix;
    if (json_)
      print_json(as_json(loaded.source.name, *packed, elapsed.count(), exact));
    else
      tell(loaded.source.name, *packed, elapsed.count(), exact);
    return exact ? kOk : kWrong;
  }

 private:
  Json as_json(const std::string& name, const PackedMatrix& packed, double seconds,
               bool exact) const {
    const FormatStats found = stats(packed);
    Json arrays = Json::array();
    for (const ArrayInfo& array : packed.arrays())
      arrays.push_back(
          {{"name", array.name}, {"elements", array.elements}, {"bytes", array.bytes}});
    return {{"matrix", name},
            {"format", format_},
            {"pack_s", seconds},
            {"round_trip_exact", exact},
            {"footprint_bytes", found.bytes},
            {"index_bytes", found.index_bytes},
            {"tiles", found.tile.tiles},
            {"mean_nnz_tc", found.mean_nnz_per_tile},
            {"tile_density", found.tile_density},
            {"padding_ratio", found.padding_ratio},
            {"arrays", arrays}};
  }

  void tell(const std::string& name, const PackedMatrix& packed, double seconds, bool exact) const {
    const FormatStats found = stats(packed);
    fmt::print("{} as {}: packed in {:.3f} s, round trip {}\n", name, format_, seconds,
               exact ? "exact" : "WRONG");
    fmt::print("{:20} {:>14} {:>14}\n", "array", "elements", "bytes");
    for (const ArrayInfo& array : packed.arrays())
      fmt::print("{:20} {:>14} {:>14}\n", array.name, array.elements, array.bytes);
    fmt::print("{:20} {:>14} {:>14}  ({:.2f} bytes per nonzero)\n", "footprint", "", found.bytes,
               packed.nnz() > 0
                   ? static_cast<double>(found.bytes) / static_cast<double>(packed.nnz())
                   : 0.0);
    if (found.tile.tiles > 0)
      fmt::print(
          "{} tiles of {} x {}, {:.2f} nonzeros each, density {:.1f} %, {:.2f} stored zeros "
          "per nonzero\n",
          found.tile.tiles, found.tile.rows, found.tile.cols, found.mean_nnz_per_tile,
          100 * found.tile_density, found.padding_ratio);
  }

  std::string matrix_, format_, reordering_ = "none";
  std::vector<std::string> sets_;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "pack",
    .summary = "one packing: footprint by array, time, exact round trip",
    .make = [](const Params&) { return std::make_unique<PackVerb>(); },
}};

}  // namespace
}  // namespace tessera
