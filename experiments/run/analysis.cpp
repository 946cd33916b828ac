#include "experiments/run/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "formats/base/check.hpp"
#include "formats/base/extents.hpp"
#include "formats/condense.hpp"
#include "model/acc_spmm_balance.hpp"
#include "model/cutespmm.hpp"
#include "model/floor.hpp"
#include "model/smat.hpp"
#include "model/tca_spmm.hpp"
#include "model/tsparse_selection.hpp"

namespace tessera {
namespace {

constexpr double kDoesNotApply = std::numeric_limits<double>::quiet_NaN();

/// Collects figures under one heading after the other.
class Sheet {
 public:
  void group(std::string name) { group_ = std::move(name); }
  void add(std::string name, std::string meaning, ParamValue value) {
    figures_.push_back({group_, std::move(name), std::move(meaning), std::move(value)});
  }
  /// A figure that there is only where `applies`.
  template <class Value>
  void add_if(bool applies, std::string name, std::string meaning, Value value) {
    add(std::move(name), std::move(meaning),
        applies ? ParamValue(std::move(value)) : ParamValue(kDoesNotApply));
  }
  std::vector<NamedValue> take() { return std::move(figures_); }

 private:
  std::string group_;
  std::vector<NamedValue> figures_;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::vector<std::int64_t> active_cols(const CsrMatrix& matrix, int height) {
  const Condensed condensed = condense(matrix, height);
  std::vector<std::int64_t> cols(static_cast<std::size_t>(condensed.windows()));
  for (std::int64_t w = 0; w < condensed.windows(); ++w) cols[w] = condensed.active_cols(w);
  return cols;
}

/// Pieces `width` columns wide of each window.
std::vector<std::int64_t> pieces(const std::vector<std::int64_t>& active_cols, int width) {
  std::vector<std::int64_t> result;
  result.reserve(active_cols.size());
  for (const std::int64_t cols : active_cols) result.push_back(ceil_div(cols, width));
  return result;
}

double largest(const std::vector<double>& values) {
  return values.empty() ? kDoesNotApply : *std::ranges::max_element(values);
}

void add_traffic(const ModelCounts& c, std::int64_t n, Sheet& sheet) {
  sheet.group("cuTeSpMM: shared memory and synergy (sections 4 and 6.4)");
  const bool any = c.statistics.nnz > 0;
  const double alpha = c.statistics.synergy.alpha;
  const cutespmm::Product product{.nnz = c.statistics.nnz, .alpha = any ? alpha : 1, .n = n};
  const auto printed = cutespmm::printed_transactions(product);
  const auto exact = cutespmm::exact_transactions(product);
  const double intensity = cutespmm::operational_intensity(product, printed);
  const cutespmm::Synergy& synergy = cutespmm::synergy(alpha);
  sheet.add_if(any, "cutespmm_alpha", "density of a 16 x 4 brick", alpha);
  sheet.add("cutespmm_shared_a", "128-byte transactions of A as printed, eq. 1", printed.a);
  sheet.add("cutespmm_shared_a_exact", "the same with what a brick of mean density takes", exact.a);
  sheet.add("cutespmm_shared_b", "128-byte transactions of B, eq. 2", printed.b);
  sheet.add_if(any, "cutespmm_oi", "FLOP per transaction as printed, eq. 4: 512 alpha", intensity);
  sheet.add_if(any, "cutespmm_oi_exact", "FLOP per transaction by the exact count",
               cutespmm::operational_intensity(product, exact));
  sheet.add_if(any, "cutespmm_oi_per_byte", "FLOP per byte of shared memory: 4 alpha",
               cutespmm::per_byte(intensity));
  sheet.add("cutespmm_synergy", "class by alpha: low, medium from 12.5 %, high from 25 %",
            synergy.name);
  sheet.add("cutespmm_synergy_oi", "least FLOP per transaction of that class, by eq. 4",
            synergy.least_intensity);
  sheet.add("cutespmm_synergy_oi_printed", "what section 6.4 says in its place: half of it",
            synergy.printed_intensity);
}

void add_partitions(const ModelCounts& c, std::int64_t n, const Device& device, Sheet& sheet) {
  sheet.group("cuTeSpMM: splitting row panels (section 5)");
  const auto blocks = pieces(c.active_cols_16, cutespmm::kBlockCols);
  const auto panels = static_cast<std::int64_t>(blocks.size());
  const bool known = device.has("sm_count");
  const std::int64_t resident = known ? cutespmm::resident_thread_blocks(n, device) : 1;
  const std::int64_t waves =
      cutespmm::num_waves(panels * ceil_div(n, cutespmm::kThreadBlockCols), resident);
  double ratio = 0;
  std::int64_t parts = 0, split = 0;
  for (const cutespmm::Partition& p : cutespmm::partitions(blocks, waves)) {
    ratio = std::max(ratio, p.ratio);
    parts += p.parts;
    split += p.parts > 1;
  }
  sheet.add_if(known, "cutespmm_waves", "waves of thread blocks before splitting", waves);
  sheet.add_if(known, "cutespmm_partition_ratio",
               "largest num_loads / waves of a row panel, eq. 6 and 7", ratio);
  sheet.add_if(known, "cutespmm_split_panels", "row panels split into several parts", split);
  sheet.add_if(known, "cutespmm_parts", "row panels and parts of such after splitting", parts);
}

void add_smat(const ModelCounts& c, std::int64_t n, Sheet& sheet) {
  sheet.group("SMaT: T = T_e n_e + T_init");
  const MatrixStatistics& s = c.statistics;
  constexpr int kBlock = 16;
  const auto tiles = std::ranges::find_if(
      s.tiles, [](const TileCount& t) { return t.rows == kBlock && t.cols == kBlock; });
  const auto printed = smat::printed_bounds(s.rows, s.cols, s.nnz, kBlock, kBlock);
  const auto refined = smat::refined_bounds(c.active_cols_16, s.cols, kBlock);
  sheet.add("smat_blocks", "n_e: nonempty 16 x 16 blocks of BCSR", tiles->tiles);
  sheet.add("smat_blocks_least", "bound from below: ceil(nnz / 256)", printed.lower);
  sheet.add("smat_blocks_least_refined", "bound from below, by active columns of block rows",
            refined.lower);
  sheet.add("smat_blocks_most", "bound from above: min(nnz, all blocks)", printed.upper);
  sheet.add("smat_blocks_most_refined", "bound from above, by active columns of block rows",
            refined.upper);
  sheet.add("smat_mma_columns", "T_e in units of that of N = 8: ceil(N / 8)", smat::mma_columns(n));
}

void add_balance(const ModelCounts& c, std::int64_t n, const Device& device, Sheet& sheet) {
  sheet.group("Acc-SpMM: load balancing (section 3.5)");
  const auto blocks = pieces(c.active_cols_8, acc_balance::kTileCols);
  const double ibd = acc_balance::ibd(blocks);
  const bool known = device.has("tf32");
  const auto heaviest = [&](auto time) {
    const auto shares = acc_balance::window_shares(blocks);
    return largest(acc_balance::relative_weights(shares, n, acc_balance::rates(device), time));
  };
  sheet.add("acc_ibd", "mean |TC blocks of a row window - mean|, eq. 3", ibd);
  sheet.add("acc_balanced", "whether it rebalances: IBD > 8", acc_balance::is_imbalanced(ibd));
  sheet.add("acc_weight", "heaviest row window / mean, by eq. 4 as repaired",
            known ? heaviest(acc_balance::repaired_time) : kDoesNotApply);
  sheet.add("acc_weight_printed", "heaviest row window / mean, by eq. 4 as printed",
            known ? heaviest(acc_balance::printed_time) : kDoesNotApply);
}

void add_tca(const ModelCounts& c, std::int64_t n, const Device& device, Sheet& sheet) {
  sheet.group("TCA-SpMM: MMAs (section 4)");
  const std::int64_t nnz = c.statistics.nnz;
  const std::int64_t mma = tca::matrix_mma(c.row_lengths, n);
  const std::int64_t tiles = tca::condensed_tile_mma(c.active_cols_8, n);
  sheet.add("tca_mma", "MMAs (m16n8k8), eq. 2", mma);
  sheet.add("tca_mma_whole", "MMAs with every row in whole fragments, eq. 1",
            tca::whole_fragment_mma(c.row_lengths, n));
  sheet.add("tca_mma_approximate", "nnz N / (m k), eq. 1",
            tca::approximate_mma(static_cast<double>(nnz), static_cast<double>(n)));
  sheet.add("tca_useful", "share of its multiplications that are wanted, at most 1/8",
            tca::useful_fraction(nnz, n, mma));
  sheet.add("tca_cap_tflops", "an eighth of the device's FP16 rate, TFLOP/s",
            device.has("fp16") ? device.value("fp16", Ceilings::kDatasheet) / tca::MmaShape{}.n
                               : kDoesNotApply);
  sheet.add("tca_tile_mma", "MMAs of 8 x 8 condensed tiles instead", tiles);
  sheet.add_if(tiles > 0, "tca_over_tiles", "its MMAs / theirs: at least 1 for N in sixteens",
               static_cast<double>(mma) / static_cast<double>(tiles));
}

void add_tsparse(const ModelCounts& c, Sheet& sheet) {
  sheet.group("tSparse: is A A worth tensor cores (section 6.1)");
  const MatrixStatistics& s = c.statistics;
  const bool square = s.rows == s.cols;
  const bool counted = square && c.square.has_value();
  const SquareCount products = c.square.value_or(SquareCount{});
  const tsparse::Figures figures{s.rows, s.nnz, products.products, products.tile_products};
  sheet.add("tsparse_mean_row", "mean nonzeros of a row", figures.mean_row());
  sheet.add_if(counted, "tsparse_products_ratio", "products of elements per product of tiles",
               figures.products_per_tile_product());
  sheet.add_if(square, "tsparse_in_collection", "among what the criteria were fitted on",
               tsparse::is_in_collection(figures, s.tile_fill.mean));
  for (const tsparse::Criterion& criterion : tsparse::criteria())
    sheet.add_if(criterion.needs_products() ? counted : square, "tsparse_over_" + criterion.against,
                 fmt::format("{} (precision {}, recall {})", criterion.condition,
                             criterion.precision, criterion.recall),
                 criterion.holds(figures));
  const tsparse::Criterion relaxed = tsparse::relaxed_criterion();
  sheet.add_if(square, "tsparse_over_all_relaxed", relaxed.condition + ", GPUs not high-end",
               relaxed.holds(figures));
}

/// The least bytes that tell where the nonzeros of A are: of a byte each, a bitmap for each 8 x 8
/// TC block, or a column for each 16 x 16 block, and where a window starts.
double least_index_bytes(const MatrixStatistics& s) {
  const WindowCount& windows_8 = s.windows.front();
  const TileCount& blocks_16 = s.tiles.back();
  return static_cast<double>(std::min({s.nnz, 8 * windows_8.tc_blocks, 4 * blocks_16.tiles}) +
                             4 * ceil_div(s.rows, blocks_16.rows));
}

void add_floor(const ModelCounts& c, std::int64_t n, const Device& device, Sheet& sheet) {
  sheet.group("strict floor of a TF32 product, whatever the kernel");
  const bool known = device.has("tf32");
  const MatrixStatistics& s = c.statistics;
  std::vector<floor_model::Windows> windows;
  for (const WindowCount& w : s.windows) windows.push_back({w.height, w.active_cols});
  const floor_model::Floor floor =
      known ? floor_model::strict_floor({s.rows, s.nnz, c.used_cols, n, least_index_bytes(s)},
                                        windows, floor_model::rates(device))
            : floor_model::Floor{};
  sheet.add_if(known, "floor_us", "the largest of its four parts, us", floor.time_us);
  // A device file without a rate says nothing of its part.
  const auto part = [&](const char* name, const char* meaning, double us) {
    sheet.add_if(us > 0, name, meaning, us);
  };
  part("floor_memory_us", "A, rows of B and C once, us", floor.compulsory_us);
  part("floor_gather_us", "a row of B for each condensed column, us", floor.gather_us);
  part("floor_mma_us", "condensed columns on tensor cores, us", floor.mma_us);
  part("floor_launch_us", "from one kernel to the next, us", floor.launch_us);
  sheet.add_if(known, "floor_bound_by", "the one that decides", floor.bound_by);
  sheet.add_if(known, "floor_height", "rows of the windows that need least",
               std::int64_t{floor.height});
  sheet.add_if(known && floor.time_us > 0, "floor_gflops", "2 nnz N / that time, GFLOP/s",
               2e-3 * static_cast<double>(s.nnz) * static_cast<double>(n) / floor.time_us);
}

}  // namespace

ModelCounts count_for_models(const CsrMatrix& matrix, bool square) {
  ModelCounts counts{.statistics = statistics(matrix),
                     .active_cols_8 = active_cols(matrix, 8),
                     .active_cols_16 = active_cols(matrix, 16)};
  counts.row_lengths.resize(static_cast<std::size_t>(matrix.rows));
  for (std::int32_t row = 0; row < matrix.rows; ++row)
    counts.row_lengths[row] = matrix.row_length(row);
  std::vector<char> used(static_cast<std::size_t>(matrix.cols), 0);
  for (const std::int32_t col : matrix.col_indices) used[col] = 1;
  counts.used_cols = std::ranges::count(used, 1);
  if (square && matrix.rows == matrix.cols) counts.square = count_square(matrix);
  return counts;
}

std::vector<NamedValue> analyse(const ModelCounts& counts, std::int64_t n, const Device& device) {
  require(n > 0, "B has {} columns", n);
  const MatrixStatistics& a = counts.statistics;
  element_count(std::max(a.rows, a.cols), n);  // B and C fit a memory
  Sheet sheet;
  add_traffic(counts, n, sheet);
  add_partitions(counts, n, device, sheet);
  add_smat(counts, n, sheet);
  add_balance(counts, n, device, sheet);
  add_tca(counts, n, device, sheet);
  add_tsparse(counts, sheet);
  add_floor(counts, n, device, sheet);
  return sheet.take();
}

Figures applicable(const std::vector<NamedValue>& figures) {
  Figures named;
  for (const NamedValue& figure : figures) {
    const double* number = std::get_if<double>(&figure.value);
    if (number == nullptr || !std::isnan(*number)) named[figure.name] = figure.value;
  }
  return named;
}

}  // namespace tessera
