#include "formats/statistics/named_statistics.hpp"

#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// Collects named figures under headings.
class Listing {
 public:
  void group(std::string name) { group_ = std::move(name); }
  void add(std::string name, std::string meaning, ParamValue value) {
    values_.push_back({group_, std::move(name), std::move(meaning), std::move(value)});
  }
  std::vector<NamedValue> take() { return std::move(values_); }

 private:
  std::string group_;
  std::vector<NamedValue> values_;
};

void add_rows(const MatrixStatistics& s, Listing& list) {
  list.group("size and rows");
  list.add("rows", "rows of A", std::int64_t{s.rows});
  list.add("cols", "columns of A", std::int64_t{s.cols});
  list.add("nnz", "nonzeros of A", s.nnz);
  list.add("row_length_min", "nonzeros of the shortest row", s.row_length.min);
  list.add("row_length_max", "nonzeros of the longest row", s.row_length.max);
  list.add("row_length_mean", "mean nonzeros of a row", s.row_length.mean);
  list.add("row_length_stddev", "standard deviation of a row's nonzeros", s.row_length.stddev);
  list.add("row_length_cv", "standard deviation / mean of a row's nonzeros", s.row_length.cv());
  list.add("empty_rows", "rows without a nonzero", s.empty_rows);
  list.add("bandwidth", "largest |i - j| of a nonzero", s.bandwidth);
  list.add("profile", "sum over rows of i - first column, where positive", s.profile);
  list.add("symmetric_pattern", "A and its transpose have one pattern", s.symmetric_pattern);
}

void add_tiles(const TileCount& t, Listing& list) {
  const std::string size = fmt::format("{}x{}", t.rows, t.cols);
  const std::string per_row = "tiles_per_block_row_";
  list.group("tiles of a regular grid (BCSR, bitmap tiles)");
  list.add("tiles_" + size, "nonempty tiles, not condensed", t.tiles);
  list.add(per_row + "mean_" + size, "mean tiles of a block row", t.per_block_row.mean);
  list.add(per_row + "stddev_" + size, "standard deviation of a block row's tiles",
           t.per_block_row.stddev);
  list.add(per_row + "cv_" + size, "standard deviation / mean of a block row's tiles",
           t.per_block_row.cv());
  list.add(per_row + "max_" + size, "tiles of the fullest block row", t.per_block_row.max);
  list.add(per_row + "histogram_" + size, "block rows by their tiles, tiles:block rows",
           to_text(t.per_block_row_histogram));
}

void add_windows(const WindowCount& w, Listing& list) {
  const std::string size = fmt::format("{}x8", w.height);
  list.group("condensed row windows (TC blocks)");
  list.add(fmt::format("active_cols_{}", w.height), "active columns of all windows this high",
           w.active_cols);
  list.add("tc_blocks_" + size, "condensed tiles", w.tc_blocks);
  list.add("mean_nnz_tc_" + size, "nonzeros of a condensed tile: MeanNNZTC", w.mean_nnz_tc);
  list.add("ibd_" + size, "IBD of Acc-SpMM: mean |TC blocks of a window - mean|", w.ibd);
}

}  // namespace

std::vector<NamedValue> named_values(const MatrixStatistics& s) {
  Listing list;
  add_rows(s, list);
  for (const TileCount& t : s.tiles) add_tiles(t, list);
  list.add("tile_nnz_median_8x8", "median nonzeros of an 8 x 8 tile", s.tile_fill.median);
  list.add("tile_nnz_mean_8x8", "mean nonzeros of an 8 x 8 tile", s.tile_fill.mean);
  list.add("tile_nnz_stddev_8x8", "standard deviation of an 8 x 8 tile's nonzeros",
           s.tile_fill.stddev);
  for (const WindowCount& w : s.windows) add_windows(w, list);
  list.group("TCU-Synergy (cuTeSpMM)");
  list.add("bricks", "nonempty 16 x 4 bricks of condensed columns", s.synergy.bricks);
  list.add("synergy_alpha", "density of a brick", s.synergy.alpha);
  list.add("synergy", "low, medium from 12.5 %, high from 25 %", s.synergy.level);
  list.group("bytes of packed forms, by closed form");
  for (const PredictedFootprint& f : s.footprints) {
    list.add("predicted_index_bytes_" + f.format, "index of " + f.format, f.index_bytes);
    list.add("predicted_bytes_" + f.format, "index and values of " + f.format, f.bytes);
  }
  return list.take();
}

std::vector<NamedValue> named_values(const SquareCount& square) {
  Listing list;
  list.group("A times A (tSparse)");
  list.add("square_products", "products of A A", square.products);
  list.add("square_nnz", "elements of A A", square.nnz);
  list.add("square_tile_products", "pairs of 8 x 8 tiles of A with a product between them",
           square.tile_products);
  list.add("square_tiles", "nonempty 8 x 8 tiles of A A", square.tiles);
  return list.take();
}

}  // namespace tessera
