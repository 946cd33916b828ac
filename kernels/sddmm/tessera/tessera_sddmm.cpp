// Our own SDDMM on tensor cores: row windows of 16 rows in mosaic, whose X a warp keeps in
// registers while it fetches every condensed column's row of Y once.
//
// S is computed TC block by TC block: 16 rows of X times the rows of Y of eight condensed columns,
// m16n8k8 in TF32 or m16n8k16 in FP16 and BF16. X and Y are both read along their rows, so a lane
// loads 16 bytes at a time straight into fragments: no shared memory, no barriers, no transposition
// (schedule.hpp has the order of the columns). As in our SpMM, a product is limited by the rows of
// Y that reach the SMs. The registers of a row of Y are loaded for the next TC block as soon as the
// MMAs of this one have read them, so that a warp always has a TC block's rows on the way.
//
// S needs no positions in memory: in a window the nonzeros of a row follow each other in the CSR
// order of S, so a task has the place of each row's first one and population counts of bitmaps give
// the rest. A row of more than 512 bytes (256 where FP32 operands are split into two parts) is
// multiplied in chunks; the sums of a task's TC blocks wait in shared memory between them. Elements
// of S are independent, so that long windows are cut into tasks without anything to combine.

#include "kernels/sddmm/tessera/tessera_sddmm.hpp"

#include <algorithm>
#include <bit>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/sddmm/shared/chained_dots.hpp"
#include "kernels/sddmm/tessera/trace.hpp"
#include "kernels/sddmm_kernel.hpp"

namespace tessera {

namespace tessera_sddmm {
namespace {

std::string precision_name(const Params& params, ElementType type) {
  return type == ElementType::kFp32 ? params.text("precision") : std::string(name_of(type));
}

/// The places in S of the rows of a window, of which more and more TC blocks are behind.
class RowPlaces {
 public:
  RowPlaces(const Mosaic& a, std::int64_t window) : a_(a) {
    const std::uint32_t begin = a.window_offset[window], end = a.window_offset[window + 1];
    std::uint32_t lengths[kWindowRows] = {};
    for (std::uint32_t tile = begin; tile < end; ++tile)
      for (int r = 0; r < kWindowRows; ++r) lengths[r] += nonzeros_of_row(a, tile, r);
    std::uint32_t at = a.tile_offset[begin];
    for (int r = 0; r < kWindowRows; ++r) {
      starts_[r] = at;
      at += lengths[r];
    }
  }

  void pass(std::uint32_t tile) {
    for (int r = 0; r < kWindowRows; ++r) starts_[r] += nonzeros_of_row(a_, tile, r);
  }
  void copy_to(Task& task) const { std::ranges::copy(starts_, task.starts); }

 private:
  const Mosaic& a_;
  std::uint32_t starts_[kWindowRows];
};

}  // namespace

std::uint32_t nonzeros_of_row(const Mosaic& a, std::uint32_t tile, int row) {
  const auto& words = a.bitmaps[tile].words;
  const int shift = 32 * (row / 8);
  return static_cast<std::uint32_t>(
      std::popcount(row_bits(static_cast<std::uint32_t>(words[0] >> shift),
                             static_cast<std::uint32_t>(words[1] >> shift), row % 8)));
}

TesseraSddmmOptions::TesseraSddmmOptions(const Params& params)
    : SddmmOptions(params),
      precision_(find_precision(precision_name(params, storage.b))),
      max_tiles_(params.integer("max_tiles")) {}

std::vector<Task> TesseraSddmmOptions::tasks(const Mosaic& a, std::int64_t k) const {
  const std::int64_t limit = schedule(k).most_tiles();
  // A window that is little longer than a warp's share stays whole.
  const std::int64_t of_warp = 3 * a.num_tiles() / (2 * kWarpsOfGpu);
  const std::int64_t most = max_tiles_ > 0 ? std::min(max_tiles_, limit)
                                           : std::clamp<std::int64_t>(of_warp, kLeastTiles, limit);
  const auto parts_of = [&](std::int64_t window) {
    const std::int64_t tiles = a.window_offset[window + 1] - a.window_offset[window];
    return (tiles + most - 1) / most;
  };
  std::vector<std::int64_t> first_task(static_cast<std::size_t>(a.num_windows()) + 1, 0);
  for (std::int64_t w = 0; w < a.num_windows(); ++w)
    first_task[w + 1] = first_task[w] + parts_of(w);
  std::vector<Task> tasks(static_cast<std::size_t>(first_task.back()));
  parallel_for(a.num_windows(), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const std::int64_t parts = first_task[w + 1] - first_task[w];
      if (parts == 0) continue;
      const std::int64_t first = a.window_offset[w], tiles = a.window_offset[w + 1] - first;
      RowPlaces places(a, w);
      for (std::int64_t part = 0; part < parts; ++part) {
        Task& task = tasks[first_task[w] + part];
        task = {.window = static_cast<std::uint32_t>(w),
                .first = static_cast<std::uint32_t>(first + tiles * part / parts),
                .last = static_cast<std::uint32_t>(first + tiles * (part + 1) / parts),
                .unused = 0,
                .starts = {}};
        places.copy_to(task);
        for (std::uint32_t tile = task.first; tile < task.last; ++tile) places.pass(tile);
      }
    }
  });
  return tasks;
}

std::vector<ParamSpec> params() {
  std::vector<ParamSpec> specs{
      {"precision",
       std::string("tf32_even"),
       "how FP32 operands are multiplied on tensor cores; FP16 and BF16 are multiplied as they are",
       {"tf32_even", "tf32x3"}},
      {"max_tiles",
       std::int64_t{0},
       "TC blocks of a task, of which longer windows are several; 0: 4 to 32, by the matrix",
       {},
       0,
       kWindowTiles}};
  std::ranges::copy(sddmm::option_params(), std::back_inserter(specs));
  return specs;
}

}  // namespace tessera_sddmm

namespace {

using tessera_sddmm::kMmasPerStep;
using tessera_sddmm::TesseraSddmmOptions;

class TesseraSddmm final : public SddmmKernel {
 public:
  explicit TesseraSddmm(TesseraSddmmOptions options) : options_(std::move(options)) {}

  std::string format() const override { return Mosaic::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision().conversion),
            .mma_depth = options_.depth(),
            .input_error = options_.precision().input_error,
            .mmas_per_chunk = static_cast<int>(options_.precision().mmas.size()),
            .storage = options_.storage};
  }
  bool scales_by_a() const override { return options_.scales_by_a; }
  std::int64_t terms(std::int64_t k) const override {
    const std::int64_t of_step = kMmasPerStep * std::int64_t{options_.depth()};
    return kMmasPerStep * ((k + of_step - 1) / of_step);
  }

  std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x, const DenseMatrix& y,
                             const Generation& generation) const override {
    require_sddmm_shapes(packed, x, y);
    const auto order = [&](std::int64_t mma, int slot) {
      return tessera_sddmm::column_of(mma / kMmasPerStep, static_cast<int>(mma % kMmasPerStep),
                                      slot, options_.bytes());
    };
    const sddmm::ChainOrder chain{.mmas = options_.schedule(x.cols).all_steps() * kMmasPerStep,
                                  .depth = options_.depth(),
                                  .column_of = order};
    return sddmm::chained_dots(packed.unpack(), x, y, options_, options_.precision(), generation,
                               chain);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t k) const override {
    return tessera_sddmm::describe_work(packed_as<Mosaic>(packed), options_, k);
  }

 private:
  TesseraSddmmOptions options_;
};

const Register<SddmmKernel> entry{{
    .name = "tessera_sddmm",
    .summary = "mosaic of 16-row windows on tensor cores, X in registers, a warp a window (ours)",
    .params = tessera_sddmm::params(),
    .make =
        [](const Params& params) {
          return std::make_unique<TesseraSddmm>(TesseraSddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
