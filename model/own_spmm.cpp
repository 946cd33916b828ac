// Cost models of our own SpMM kernels, for a choice between them without timing: sums of bytes
// through the L2 and the DRAM, rows of C, TC blocks or nonzeros, and the longest task. The factors
// are fitted to the times of 24 matrices at N = 32, 128 and 512 on one H200
// (notebooks/own_spmm_fit.py, experiments/results/spmm).
//
// Of tessera_spmm and rows_spmm the one so chosen takes 1.002 times the faster one's time in
// geometric mean and 1.06 times at most. Where each matrix is left out of the fit in turn, it
// takes 1.004 times and 1.14 times at most. The times themselves are off by 9 to 12 % in the mean
// and by 49 % at most, where warps of rows_spmm are wide; those of tall_spmm by 14 and 51 %.
// dense_spmm has a formula of its own. On another device the factors are scaled by its rates, which
// nothing has measured.

#include <algorithm>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/choice.hpp"
#include "formats/base/registry.hpp"
#include "model/device.hpp"

namespace tessera {
namespace {

/// The factors of an H200: microseconds in all, for a megabyte, for a thousand rows of C of a chunk
/// of columns, and for a thousand TC blocks or nonzeros of one.
struct TileFactors {
  double start, fetched, written, uncached, rows, blocks, longest;
};
constexpr TileFactors kTilesFp32{2.102, 0.1067, 0.1609, 0.09264, 0.01037, 0.08127, 0.09261};
constexpr TileFactors kTiles16Bits{2.955, 0.06395, 0.3243, 0.008792, 0.008185, 0.1791, 0.1169};

struct RowFactors {
  double start, loaded, fetched, written, uncached, rows, nonzeros;
};
constexpr RowFactors kRowsFp32{3.032, 0.05769, 0.1049, 0.2232, 0.08294, 1.43e-10, 0.001661};
constexpr RowFactors kRows16Bits{4.324, 0.04268, 0.08716, 0.4364, 0.05231, 0.016, 0.008465};

/// The same where units are rows: what they cost besides bytes was not told apart.
constexpr RowFactors kDirectFp32{0.5228, 0.05783, 0.09435, 0.3916, 0.006226, 0, 0};
constexpr RowFactors kDirect16Bits{4.999, 0.08047, 0.1317, 0.3561, 4.207e-07, 0, 0};

/// Megabytes of A, B and C that the L2 of an H200 keeps from one product to the next.
constexpr double kCachedMegabytes = 45;

/// TC blocks of a task, at most, that the longest window still delays the end by.
constexpr double kLongestTask = 32;

/// The quantities of a product that the factors multiply.
struct Product {
  double n, rows, cols, nonzeros, columns, blocks, longest, longest_row;
  double bytes;   // of an element of B and C
  double chunks;  // of columns that are computed one after another

  Product(const WorkCounts& counts, double element_bytes)
      : n(counts.at("n")),
        rows(counts.at("rows")),
        cols(counts.at("cols")),
        nonzeros(counts.at("nonzeros")),
        columns(counts.at("condensed_columns")),
        blocks(counts.at("tc_blocks")),
        longest(std::min(counts.at("longest_window"), kLongestTask)),
        longest_row(counts.at("longest_row")),
        bytes(element_bytes),
        chunks(n > 64 ? std::ceil(n / 128) : 1) {}

  double megabytes(double of_rows) const { return bytes * n * of_rows / 1e6; }
  double thousands(double of_chunk) const { return of_chunk * chunks / 1e3; }
  /// The same of rows_spmm, whose warps are wide for short rows (kernels/spmm/rows/schedule.hpp).
  double thousands_by_rows(double of_chunk) const {
    constexpr double kShortRow = 14, kWideRows = 3168;
    if (n <= 128 || nonzeros > kShortRow * rows || rows < kWideRows) return thousands(of_chunk);
    return of_chunk * std::ceil(n / (n <= 256 ? 256 : 512)) / 1e3;
  }
  /// True where units of rows_spmm are rows (the same header).
  bool is_direct() const {
    constexpr double kLongestRow = 64, kShortRow = 16, kStepNs = 550, kBytesOfNs = 9000;
    const double in_flight = bytes == 2 && n > 64 ? 1 : 2;
    return n > 16 && longest_row <= kLongestRow && nonzeros <= kShortRow * rows &&
           kStepNs * longest_row / in_flight <= nonzeros * n * bytes / kBytesOfNs;
  }
  /// Of A in CSR, B and C, without what the L2 keeps.
  double uncached_megabytes(double cached) const {
    const double a = (8 * nonzeros + 4 * rows) / 1e6;
    return std::max(a + megabytes(rows + cols) - cached, 0.0);
  }
};

/// The rates of a device over those of an H200.
struct Speed {
  double l2, l2_capacity, dram, issue;

  explicit Speed(const Device& device) {
    const Device& fitted = find_device("h200");
    const auto issue_of = [](const Device& of) { return of.value("sm_count") * of.value("clock"); };
    const auto over_fitted = [&](const char* name) {
      return device.value(name) / fitted.value(name);
    };
    l2 = over_fitted("l2_bandwidth");
    l2_capacity = over_fitted("l2_capacity");
    dram = over_fitted("dram_bandwidth");
    issue = issue_of(device) / issue_of(fitted);
  }
};

/// The time of what comes from the DRAM.
double uncached(double factor, const Product& product, const Speed& speed) {
  return factor * product.uncached_megabytes(kCachedMegabytes * speed.l2_capacity) / speed.dram;
}

/// Factors of the launch that narrows B (kernels/spmm/narrowed): microseconds in all, with the
/// launch that ends at once, and for a megabyte that it reads or writes.
struct NarrowingFactors {
  double start, moved;
};
constexpr NarrowingFactors kNarrowing{6, 0.3};
constexpr double kNarrowedBytes = 6;  // of an element of B: four read, two written

bool narrows(const Params& params) { return params.text("precision") == "fp16_scaled"; }
bool has_16_bits(const Params& params) {
  return params.text("storage") != "fp32" || narrows(params);
}

/// The time to narrow B, where the kernel does so.
double narrowing(const Params& params, const Product& product, const Speed& speed) {
  if (!narrows(params)) return 0;
  return kNarrowing.start +
         kNarrowing.moved * kNarrowedBytes * product.n * product.cols / 1e6 / speed.dram;
}

/// Megabytes of C, which is in FP32 where B is narrowed.
double written_megabytes(const Params& params, const Product& product) {
  return product.megabytes(product.rows) * (narrows(params) ? 2 : 1);
}

Rating rating(double time_us, double bytes_us) {
  return {.origin = Origin::kModelled,
          .time_us = time_us,
          .bound_by = 2 * bytes_us > time_us ? "bytes" : "instructions and latency",
          .reason = fmt::format("{:.1f} us by a formula fitted on an H200", time_us)};
}

class TesseraSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    require<Unsupported>((params.text("precision") == "tf32_even" || narrows(params)) &&
                             params.integer("max_blocks") == 0 && params.integer("columns") == 0 &&
                             params.text("combine") == "ordered",
                         "the formula of tessera_spmm is fitted to its default parameters");
    const bool narrow = has_16_bits(params);
    const TileFactors& of = narrow ? kTiles16Bits : kTilesFp32;
    const Product product(counts, narrow ? 2 : 4);
    const Speed speed(find_device(device));
    const double bytes = (of.fetched * product.megabytes(product.columns) +
                          of.written * written_megabytes(params, product)) /
                             speed.l2 +
                         uncached(of.uncached, product, speed);
    const double issued =
        (of.blocks * product.thousands(product.blocks) + of.longest * product.longest +
         of.rows * product.thousands(product.rows)) /
        speed.issue;
    return rating(of.start + bytes + issued + narrowing(params, product, speed), bytes);
  }
};

class RowsSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    require<Unsupported>(params.integer("piece") == 0 && params.integer("columns") == 0 &&
                             params.integer("lanes") == 0 && params.text("offsets") == "auto" &&
                             params.text("nonzeros") == "auto",
                         "the formula of rows_spmm is fitted to its default parameters");
    const bool narrow = has_16_bits(params);
    const Product product(counts, narrow ? 2 : 4);
    const RowFactors& of = product.is_direct() ? (narrow ? kDirect16Bits : kDirectFp32)
                                               : (narrow ? kRows16Bits : kRowsFp32);
    const Speed speed(find_device(device));
    // Neighbouring rows find each other's rows of B in the L1.
    const double bytes = (std::max(of.loaded * product.megabytes(product.nonzeros),
                                   of.fetched * product.megabytes(product.columns)) +
                          of.written * written_megabytes(params, product)) /
                             speed.l2 +
                         uncached(of.uncached, product, speed);
    const double issued = (of.nonzeros * product.thousands_by_rows(product.nonzeros) +
                           of.rows * product.thousands_by_rows(product.rows)) /
                          speed.issue;
    return rating(of.start + bytes + issued + narrowing(params, product, speed), bytes);
  }
};

/// Factors of dense_spmm: microseconds in all, and for a megabyte of operands that multiprocessors
/// load. Two matrices at three widths are all that they rest on: 512 x 2048 with 30 % nonzeros and
/// 2048 x 512 with 10 %, whose times they give within 17 %.
struct DenseFactors {
  double start, loaded, uncached;
};
constexpr DenseFactors kDense{5.2, 0.095, 0.25};
constexpr double kDenseTile = 64;  // rows and columns of C whose operands are loaded together

class DenseSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    const Product product(counts, params.text("storage") != "fp32" ? 2 : 4);
    const Speed speed(find_device(device));
    const double rows = std::ceil(product.rows / kDenseTile) * kDenseTile;
    const double depth = product.cols * product.bytes / 1e6;  // of a row of A, in megabytes
    const double loaded = depth * (rows * std::ceil(product.n / kDenseTile) +
                                   product.n * std::ceil(product.rows / kDenseTile));
    const double all = depth * rows + product.megabytes(product.rows + product.cols);
    const double bytes =
        kDense.loaded * loaded / speed.l2 +
        kDense.uncached * std::max(all - kCachedMegabytes * speed.l2_capacity, 0.0) / speed.dram;
    return rating(kDense.start + bytes, bytes);
  }
};

/// Factors of tall_spmm: microseconds in all, for a megabyte that is written or comes from the
/// DRAM, and for a thousand tiles and a million nonzeros of a chunk of columns. The time of a tile
/// is that of its traffic in shared memory, whatever B's width up to 128 columns.
struct TallFactors {
  double start, written, uncached, tiles, nonzeros;
};
constexpr TallFactors kTall{4.604, 0.1066, 0.00473, 2.876, 2.23};

class TallSpmmCost final : public CostModel {
 public:
  Rating rate(const WorkCounts& counts, const Params& params,
              const std::string& device) const override {
    const bool has_fp32 = params.text("storage") == "fp32";
    require<Unsupported>((!has_fp32 || narrows(params)) && params.integer("max_tiles") == 0,
                         "the formula of tall_spmm is fitted to its default parameters");
    const Product product(counts, 2);
    const Speed speed(find_device(device));
    const double chunks = std::ceil(product.n / 128);
    const double written = product.megabytes(product.rows) * (has_fp32 ? 2 : 1);
    const double bytes =
        kTall.written * written / speed.l2 + uncached(kTall.uncached, product, speed);
    const double issued =
        chunks *
        (kTall.tiles * counts.at("tall_tiles") / 1e3 + kTall.nonzeros * product.nonzeros / 1e6) /
        speed.issue;
    return rating(kTall.start + bytes + issued + (has_fp32 ? narrowing(params, product, speed) : 0),
                  bytes);
  }
};

template <class Cost>
Entry<CostModel> entry_of(const char* kernel) {
  return {.name = kernel,
          .summary = "bytes, instructions and the longest task, fitted on an H200",
          .make = [](const Params&) { return std::make_unique<Cost>(); }};
}

const Register<CostModel> tiles_entry{entry_of<TesseraSpmmCost>("tessera_spmm")};
const Register<CostModel> rows_entry{entry_of<RowsSpmmCost>("rows_spmm")};
const Register<CostModel> tall_entry{entry_of<TallSpmmCost>("tall_spmm")};
const Register<CostModel> dense_entry{entry_of<DenseSpmmCost>("dense_spmm")};

}  // namespace
}  // namespace tessera
