// Cost models of our own SpMM kernels, for a choice between them without timing: sums of bytes
// through the L2, TC blocks or nonzeros, and the longest task, with factors fitted to the times of
// 24 matrices at N = 32, 128 and 512 on one H200 (experiments/results/spmm, af890cf and 2d7d285).
//
// Where each matrix is left out of the fit in turn, the kernel so chosen takes 1.01 times the
// faster one's time in geometric mean with operands in FP32 and in FP16, and 1.34 times at most;
// the times themselves are off by 8 to 13 % in the mean and by 35 % at most. On another device the
// factors are scaled by its rates, which nothing has measured.

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/registry.hpp"
#include "model/device.hpp"

namespace tessera {
namespace {

/// The factors of an H200: microseconds in all, for a megabyte, and for a thousand TC blocks or
/// nonzeros of a chunk of columns.
struct TileFactors {
  double start, fetched, written, blocks, longest;
};
constexpr TileFactors kTilesFp32{2.436, 0.0967, 0.3485, 0.0867, 0.1124};
constexpr TileFactors kTiles16Bits{2.832, 0.0488, 0.355, 0.2038, 0.1194};

struct RowFactors {
  double start, loaded, fetched, written, nonzeros;
};
constexpr RowFactors kRowsFp32{3.104, 0.0599, 0.0902, 0.6395, 0.001773};
constexpr RowFactors kRows16Bits{3.845, 0.0347, 0.0631, 0.6874, 0.009978};

/// TC blocks of a task, at most, that the longest window still delays the end by.
constexpr double kLongestTask = 32;

/// The quantities of a product that the factors multiply.
struct Product {
  double n, rows, nonzeros, columns, blocks, longest;
  double bytes;   // of an element of B and C
  double chunks;  // of columns that are computed one after another

  Product(const WorkCounts& counts, double element_bytes)
      : n(counts.at("n")),
        rows(counts.at("rows")),
        nonzeros(counts.at("nonzeros")),
        columns(counts.at("condensed_columns")),
        blocks(counts.at("tc_blocks")),
        longest(std::min(counts.at("longest_window"), kLongestTask)),
        bytes(element_bytes),
        chunks(n > 64 ? std::ceil(n / 128) : 1) {}

  double megabytes(double of_rows) const { return bytes * n * of_rows / 1e6; }
};

/// The rates of a device over those of an H200.
struct Speed {
  double l2, issue;

  explicit Speed(const Device& device) {
    const Device& fitted = find_device("h200");
    const auto issue_of = [](const Device& of) { return of.value("sm_count") * of.value("clock"); };
    l2 = device.value("l2_bandwidth") / fitted.value("l2_bandwidth");
    issue = issue_of(device) / issue_of(fitted);
  }
};

bool has_16_bits(const Params& params) { return params.text("storage") != "fp32"; }

Rating rating(double time_us, double bytes_us) {
  return {.origin = Origin::kModelled,
          .time_us = time_us,
          .bound_by = 2 * bytes_us > time_us ? "L2" : "instructions and latency",
          .reason = fmt::format("{:.1f} us by a formula fitted on an H200", time_us)};
}

class TesseraSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    require<Unsupported>(params.text("precision") == "tf32_even" &&
                             params.integer("max_blocks") == 0 && params.integer("columns") == 0 &&
                             params.text("combine") == "ordered",
                         "the formula of tessera_spmm is fitted to its default parameters");
    const bool narrow = has_16_bits(params);
    const TileFactors& of = narrow ? kTiles16Bits : kTilesFp32;
    const Product product(counts, narrow ? 2 : 4);
    const Speed speed(find_device(device));
    const double bytes = (of.fetched * product.megabytes(product.columns) +
                          of.written * product.megabytes(product.rows)) /
                         speed.l2;
    const double blocks =
        (of.blocks * product.blocks * product.chunks / 1e3 + of.longest * product.longest) /
        speed.issue;
    return rating(of.start + bytes + blocks, bytes);
  }
};

class RowsSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    require<Unsupported>(params.integer("piece") == 0,
                         "the formula of rows_spmm is fitted to its default parameters");
    const bool narrow = has_16_bits(params);
    const RowFactors& of = narrow ? kRows16Bits : kRowsFp32;
    const Product product(counts, narrow ? 2 : 4);
    const Speed speed(find_device(device));
    // Neighbouring rows find each other's rows of B in the L1.
    const double bytes = (std::max(of.loaded * product.megabytes(product.nonzeros),
                                   of.fetched * product.megabytes(product.columns)) +
                          of.written * product.megabytes(product.rows)) /
                         speed.l2;
    const double nonzeros = of.nonzeros * product.nonzeros * product.chunks / 1e3 / speed.issue;
    return rating(of.start + bytes + nonzeros, bytes);
  }
};

template <class Cost>
Entry<CostModel> entry_of(const char* kernel) {
  return {.name = kernel,
          .summary = "bytes through the L2, instructions and the longest task, fitted on an H200",
          .make = [](const Params&) { return std::make_unique<Cost>(); }};
}

const Register<CostModel> tiles_entry{entry_of<TesseraSpmmCost>("tessera_spmm")};
const Register<CostModel> rows_entry{entry_of<RowsSpmmCost>("rows_spmm")};

}  // namespace
}  // namespace tessera
