// SpGEMM by rows, by merging or by tiles, ours: row_spgemm or merge_spgemm (FP32), or tile_spgemm
// (tensor cores, in the precision that the caller admits), whichever a model expects to be faster
// for this A and B. Merging is asked only where no row of A has more nonzeros than a warp has
// lanes: in pieces it took at least 1.5 times as long as by rows on every matrix measured.
//
// The model is registered from outside (PathModel in kernels/work.hpp): a kernel sees none. It goes
// by figures of A and B that are taken here, once for an upload. How many products of tiles are not
// empty, and what C has, would take as long as a product; they come from some of C's tile rows,
// one of each part, by their share in all products of tiles. How tile_spgemm cuts C into tasks is
// found as it does, but how unevenly, only of the tile rows with the most products. The device is a
// parameter, so that the choice, and with it every bit of C, is the same wherever the product is
// made or emulated.

#include "kernels/spgemm/mixed/mixed_spgemm.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/bitmap_tile.hpp"
#include "kernels/spgemm/merge/merge_spgemm.hpp"
#include "kernels/spgemm/tile/tile_spgemm.hpp"

namespace tessera {
namespace {

using tile_spgemm::kSide;
using tile_spgemm::multiply_bitmaps;
using tile_spgemm::tiles_across;

constexpr const char* kRows = "row_spgemm";
constexpr const char* kTiles = "tile_spgemm";
constexpr const char* kMerge = "merge_spgemm";
constexpr std::int64_t kLanes = 32;           // of a warp
constexpr std::int64_t kMostMerged = kLanes;  // nonzeros of a row of A, at once
constexpr const char* kModel = "mixed_spgemm";

/// The grid of a matrix's tiles.
struct Grid {
  explicit Grid(const CsrMatrix& matrix) {
    const auto format = Registry<Format>::instance().make(BitmapTile::kFormat);
    const auto packed = format->pack(matrix);
    const auto& tiles = packed_as<BitmapTile>(*packed);
    bitmaps = tiles.bitmap;
    cols = tiles.tile_col;
    begins.assign(static_cast<std::size_t>(tiles_across(matrix.rows)) + 1, 0);
    for (const std::int32_t row : tiles.tile_row) ++begins[row + 1];
    for (std::size_t row = 1; row < begins.size(); ++row) begins[row] += begins[row - 1];
  }

  std::int64_t rows() const { return std::ssize(begins) - 1; }
  std::int64_t count() const { return begins.back(); }
  std::int64_t row_length(std::int64_t row) const { return begins[row + 1] - begins[row]; }
  /// The tile columns of a tile row.
  std::span<const std::int32_t> row_cols(std::int64_t row) const {
    return std::span(cols).subspan(begins[row], row_length(row));
  }

  std::vector<std::uint64_t> bitmaps;  // [tiles]
  std::vector<std::int32_t> cols;      // [tiles]
  std::vector<std::int64_t> begins;    // [tile rows + 1] of tiles
};

/// The most nonzeros of a tile row that a thread sees when tile_spgemm makes tiles: all of its
/// share to mark tiles, and twice for each time that some are gathered.
std::int64_t longest_filling(const CsrMatrix& matrix, const Grid& tiles) {
  const auto share = [](std::int64_t count, std::int64_t of) { return (count + of - 1) / of; };
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < tiles.rows(); ++row) {
    const std::int64_t begin = row * kSide,
                       end = std::min<std::int64_t>(begin + kSide, matrix.rows);
    const std::int64_t nonzeros = matrix.row_offsets[end] - matrix.row_offsets[begin];
    const std::int64_t gathered = share(tiles.row_length(row), tile_spgemm::kTilesGathered);
    longest = std::max(longest, share(nonzeros, tile_spgemm::kThreads) * (1 + 2 * gathered));
  }
  return longest;
}

/// tile_spgemm's tasks: what is to do in all of them, and in the largest.
class Tasks {
 public:
  Tasks(const Grid& a, const Grid& b, const SparseProductFigures& of, std::int32_t rows_of_b,
        std::int32_t tile_cols)
      : a_(a),
        b_(b),
        most_pairs_(tile_spgemm::pairs_of_task(of.nonzeros_of_a, of.nonzeros_of_b, rows_of_b)),
        slices_left_(tile_spgemm::most_slices(a.rows(), tile_cols)) {}

  void count(SparseProductFigures& figures) {
    for (std::int64_t row = 0; row < a_.rows(); ++row) add_row(row, figures);
    constexpr std::int64_t kMostProducts = 1'000'000;
    std::ranges::stable_sort(cut_, std::greater{}, &CutRow::products);
    std::int64_t counted = 0;
    for (const CutRow& row : cut_) {
      counted += row.products;
      if (counted > kMostProducts) break;
      figures.largest_task = std::max(figures.largest_task, largest_slice(row));
    }
  }

 private:
  struct CutRow {
    std::int64_t row, products;
    std::int32_t first_col, cols_of_slice, slices;
  };

  void add_row(std::int64_t row, SparseProductFigures& figures) {
    std::int64_t products = 0;
    std::int32_t first_col = INT_MAX, end_col = 0;
    for (const std::int32_t of_b : a_.row_cols(row)) {
      const auto cols = b_.row_cols(of_b);
      if (cols.empty()) continue;
      products += std::ssize(cols);
      first_col = std::min(first_col, cols.front());
      end_col = std::max(end_col, cols.back() + 1);
    }
    if (products == 0) return;
    const auto tiles = static_cast<std::int32_t>(a_.row_length(row));
    constexpr std::int32_t kSlot = tile_spgemm::kColsOfSlot;
    first_col = first_col / kSlot * kSlot;
    const std::int32_t slots = (end_col - first_col + kSlot - 1) / kSlot;
    std::int32_t width = tile_spgemm::slots_of_slice(slots, products, most_pairs_);
    const auto slices_of = [&](std::int32_t slice) { return (slots + slice - 1) / slice; };
    if (width < slots) {
      slices_left_ -= slices_of(width) - 1;
      if (slices_left_ < 0) width = slots;
    }
    const std::int32_t slices = slices_of(width),
                       at_once = tile_spgemm::slots_at_once(slots, products, tiles);
    const std::int64_t looks = std::int64_t{slices} * ((width + at_once - 1) / at_once);
    if (slices > 1) cut_.push_back({row, products, first_col, width * kSlot, slices});
    figures.tile_products += products;
    if (tiles > tile_spgemm::kShortRow) figures.long_tile_products += products;
    figures.looks += looks;
    figures.tiles_looked_at += looks * tiles;
    figures.largest_task = std::max(figures.largest_task, (products + slices - 1) / slices);
  }

  std::int64_t largest_slice(const CutRow& cut) const {
    std::vector<std::int64_t> products(static_cast<std::size_t>(cut.slices), 0);
    for (const std::int32_t of_b : a_.row_cols(cut.row))
      for (const std::int32_t col : b_.row_cols(of_b))
        ++products[(col - cut.first_col) / cut.cols_of_slice];
    return std::ranges::max(products);
  }

  const Grid& a_;
  const Grid& b_;
  long long most_pairs_;
  std::int64_t slices_left_;
  std::vector<CutRow> cut_;
};

/// What some tile rows of C have.
class Sample {
 public:
  Sample(const Grid& a, const Grid& b, std::int32_t tile_cols)
      : a_(a), b_(b), cells_(static_cast<std::size_t>(tile_cols), 0) {}

  void add_row(std::int64_t row) {
    for (std::int64_t t = a_.begins[row]; t < a_.begins[row + 1]; ++t) {
      const std::int32_t of_b = a_.cols[t];
      for (std::int64_t u = b_.begins[of_b]; u < b_.begins[of_b + 1]; ++u)
        add_product(a_.bitmaps[t], b_.bitmaps[u], b_.cols[u]);
    }
    for (const std::int32_t col : touched_)
      nonzeros += std::popcount(std::exchange(cells_[col], 0));
    tiles += std::ssize(touched_);
    touched_.clear();
  }

  std::int64_t products = 0, pairs = 0, tiles = 0, nonzeros = 0;

 private:
  void add_product(std::uint64_t a, std::uint64_t b, std::int32_t col) {
    ++products;
    const std::uint64_t cells = multiply_bitmaps(a, b);
    if (cells == 0) return;
    ++pairs;
    if (cells_[col] == 0) touched_.push_back(col);
    cells_[col] |= cells;
  }

  const Grid& a_;
  const Grid& b_;
  std::vector<std::uint64_t> cells_;  // [tile columns of C]
  std::vector<std::int32_t> touched_;
};

void estimate(const Grid& a, const Grid& b, std::int32_t tile_cols, SparseProductFigures& figures) {
  constexpr std::int64_t kMostRows = 1024, kLeastRows = 16, kProducts = 4'000'000;
  constexpr double kGolden = 0.6180339887498949;
  if (figures.tile_products == 0) return;
  const double share = static_cast<double>(kProducts) / static_cast<double>(figures.tile_products);
  const auto wanted = static_cast<std::int64_t>(std::min(share, 1.0) *
                                                static_cast<double>(std::min(a.rows(), kMostRows)));
  const std::int64_t rows = std::min(std::max(wanted, kLeastRows), a.rows());
  Sample sample(a, b, tile_cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    // Somewhere in each part: matrices are periodic, too.
    const std::int64_t begin = i * a.rows() / rows, end = (i + 1) * a.rows() / rows;
    const double place = std::fmod(kGolden * static_cast<double>(i), 1.0);
    sample.add_row(begin + static_cast<std::int64_t>(place * static_cast<double>(end - begin)));
  }
  if (sample.products == 0)  // the rows that have any lie between
    for (std::int64_t row = 0; row < a.rows() && sample.products == 0; ++row) sample.add_row(row);
  const double scale =
      static_cast<double>(figures.tile_products) / static_cast<double>(sample.products);
  figures.pairs = scale * static_cast<double>(sample.pairs);
  figures.tiles_of_c = scale * static_cast<double>(sample.tiles);
  figures.nonzeros_of_c = scale * static_cast<double>(sample.nonzeros);
}

/// The path of a parameter "path", or that of the least prediction.
std::string path_by(const std::string& wanted, const std::map<std::string, double>& predicted_us) {
  if (wanted == "rows") return kRows;
  if (wanted == "merge") return kMerge;
  if (wanted == "tiles") return kTiles;
  require<Unsupported>(!predicted_us.empty(), "mixed_spgemm has no model here: name the path");
  return std::ranges::min_element(predicted_us, {}, &std::pair<const std::string, double>::second)
      ->first;
}

/// Whether tile_spgemm takes these values.
bool has_tiles(const CsrMatrix& a, const CsrMatrix& b, const Params& params) {
  try {
    tile_spgemm::check_operands(a, b, tile_spgemm::read_arithmetic(params));
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}

class MixedSpgemm final : public SpgemmKernel {
 public:
  explicit MixedSpgemm(Params params) : params_(std::move(params)) {
    require(params_.text("path") != "tiles" || !is_fp32(),
            "path = tiles needs a precision of tensor cores: fp16, tf32 or tf32x3");
  }

  int version() const override {
    constexpr int kVersion = 3, kPlaces = 1000;
    const auto of = [](const char* kernel) {
      return Registry<SpgemmKernel>::instance().make(kernel)->version();
    };
    return ((kVersion * kPlaces + of(kRows)) * kPlaces + of(kTiles)) * kPlaces + of(kMerge);
  }

  /// The least exact that is admitted.
  Arithmetic arithmetic() const override {
    if (is_fp32()) return Registry<SpgemmKernel>::instance().make(kRows)->arithmetic();
    return Registry<SpgemmKernel>::instance()
        .make(kTiles, {{"precision", params_.text("precision")}})
        ->arithmetic();
  }
  Arithmetic arithmetic_of(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->arithmetic();
  }
  std::optional<SpgemmPath> path_of(const CsrMatrix& a, const CsrMatrix& b) const override {
    return mixed_spgemm::choose(a, b, params_).path;
  }
  std::vector<std::int64_t> terms_per_row(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->terms_per_row(a, b);
  }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b,
                    const Generation& generation) const override {
    return chosen(a, b)->emulate(a, b, generation);
  }
  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    return chosen(a, b)->work(a, b);
  }

 private:
  bool is_fp32() const { return params_.text("precision") == "fp32"; }

  std::unique_ptr<SpgemmKernel> chosen(const CsrMatrix& a, const CsrMatrix& b) const {
    const mixed_spgemm::Choice choice = mixed_spgemm::choose(a, b, params_);
    return Registry<SpgemmKernel>::instance().make(choice.path.kernel, choice.params);
  }

  Params params_;
};

const Register<SpgemmKernel> entry{{
    .name = "mixed_spgemm",
    .summary = "ours for any input: row_spgemm, merge_spgemm or tile_spgemm, whichever a model "
               "expects to be "
               "fastest",
    .params =
        {{"precision",
          std::string("fp32"),
          "the least exact that will do: fp32 leaves out tile_spgemm",
          {"fp32", "tf32x3", "tf32", "fp16"}},
         {"path", std::string("auto"), "auto: by the model", {"auto", "rows", "merge", "tiles"}},
         {"model_device", std::string("h200"), "whose rates the model goes by"}},
    .make = [](const Params& params) { return std::make_unique<MixedSpgemm>(params); },
}};

}  // namespace

SparseProductFigures mixed_spgemm::figures(const CsrMatrix& a, const CsrMatrix& b) {
  require(a.cols == b.rows, "A has {} columns and B {} rows", a.cols, b.rows);
  const bool is_square = &a == &b;
  const Grid tiles_of_a(a);
  std::optional<Grid> of_b;
  if (!is_square) of_b.emplace(b);
  const Grid& tiles_of_b = is_square ? tiles_of_a : *of_b;

  SparseProductFigures figures;
  figures.rows = a.rows;
  figures.tile_rows = tiles_of_a.rows();
  figures.tile_rows_of_b = tiles_of_b.rows();
  figures.nonzeros_of_a = a.nnz();
  figures.nonzeros_of_b = b.nnz();
  double lanes = 0;  // of every product
  for (std::int32_t row = 0; row < a.rows; ++row) {
    std::int64_t of_row = 0;
    for (const std::int32_t col : a.row_cols(row)) of_row += b.row_length(col);
    const std::int64_t nonzeros = a.row_length(row);
    figures.products += of_row;
    figures.longest_row_of_a = std::max(figures.longest_row_of_a, nonzeros);
    if (of_row > kLanes) figures.nonzeros_of_large_rows += nonzeros;
    lanes += static_cast<double>(of_row) *
             merge_spgemm::width_of_class(merge_spgemm::width_class_for(nonzeros));
  }
  figures.tiles_of_a = tiles_of_a.count();
  figures.tiles_of_b = tiles_of_b.count();
  figures.is_square = is_square;
  figures.longest_filling =
      longest_filling(a, tiles_of_a) + (is_square ? 0 : longest_filling(b, tiles_of_b));
  Tasks(tiles_of_a, tiles_of_b, figures, b.rows, tiles_across(b.cols)).count(figures);
  estimate(tiles_of_a, tiles_of_b, tiles_across(b.cols), figures);
  if (figures.products > 0)
    figures.merged_columns =
        figures.nonzeros_of_c * lanes / static_cast<double>(figures.products) / kMostMerged;
  return figures;
}

mixed_spgemm::Choice mixed_spgemm::choose(const CsrMatrix& a, const CsrMatrix& b,
                                          const Params& params) {
  const auto& kernels = Registry<SpgemmKernel>::instance();
  const std::string &precision = params.text("precision"), &wanted = params.text("path");
  const Params of_tiles = kernels.resolve(
      kTiles, precision == "fp32" ? Params::Given{} : Params::Given{{"precision", precision}});
  Choice choice;
  if (const auto& models = Registry<PathModel>::instance(); models.contains(kModel)) {
    const SparseProductFigures of = figures(a, b);
    const PathTimes times =
        models.make(kModel)->predict(of, precision, params.text("model_device"));
    choice.path.predicted_us = {{kRows, times.rows_us}};
    if (of.longest_row_of_a <= kMostMerged) choice.path.predicted_us[kMerge] = times.merge_us;
    if (precision != "fp32" && has_tiles(a, b, of_tiles))
      choice.path.predicted_us[kTiles] = times.tiles_us;
  }
  choice.path.kernel = path_by(wanted, choice.path.predicted_us);
  choice.params = choice.path.kernel == kTiles ? of_tiles : kernels.resolve(choice.path.kernel, {});
  return choice;
}

}  // namespace tessera
