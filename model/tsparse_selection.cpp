#include "model/tsparse_selection.hpp"

namespace tessera::tsparse {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::optional<double> share(int part, int whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / whole;
}

}  // namespace

double Figures::mean_row() const {
  return ratio(static_cast<double>(nnz), static_cast<double>(rows));
}

double Figures::products_per_tile_product() const {
  return ratio(static_cast<double>(products), static_cast<double>(tile_products));
}

bool Criterion::holds(const Figures& figures) const {
  if (above_nnz > 0 && figures.nnz <= above_nnz) return false;
  if (above_mean_row > 0 && figures.mean_row() <= above_mean_row) return false;
  const double products = figures.products_per_tile_product();
  if (above_products > 0 && products <= above_products) return false;
  return products >= at_least_products;
}

const std::vector<Criterion>& criteria() {
  static const std::vector<Criterion> table{
      {.against = "cusparse",
       .condition = "nnz > 200000",
       .above_nnz = 200'000,
       .predictions = 122,
       .matrices = 260,
       .precision = 0.75,
       .recall = 0.84},
      {.against = "cusp",
       .condition = "products >= tile products",
       .at_least_products = 1,
       .predictions = 260,
       .matrices = 260,
       .precision = 0.98,
       .recall = 1},
      {.against = "rmerge2",
       .condition = "mean row > 42 and nnz > 100000",
       .above_nnz = 100'000,
       .above_mean_row = 42,
       .predictions = 53,
       .matrices = 233,
       .precision = 0.92,
       .recall = 0.33},
      {.against = "nsparse",
       .condition = "mean row > 42 and nnz > 100000",
       .above_nnz = 100'000,
       .above_mean_row = 42,
       .predictions = 53,
       .matrices = 233,
       .precision = 0.75,
       .recall = 0.74},
      {.against = "ac_spgemm",
       .condition = "products > 9 tile products",
       .above_products = 9,
       .predictions = 120,
       .matrices = 233,
       .precision = 0.89,
       .recall = 0.86},
      {.against = "speck",
       .condition = "mean row > 42 and nnz > 300000",
       .above_nnz = 300'000,
       .above_mean_row = 42,
       .predictions = 45,
       .matrices = 234,
       .precision = 0.78,
       .recall = 0.8},
      {.against = "all",
       .condition = "mean row > 42 and nnz > 300000",
       .above_nnz = 300'000,
       .above_mean_row = 42,
       .predictions = 45,
       .matrices = 233,
       .precision = 0.76,
       .recall = 0.85},
  };
  return table;
}

Criterion relaxed_criterion() {
  return {.against = "all",
          .condition = "mean row > 21 and nnz > 300000",
          .above_nnz = 300'000,
          .above_mean_row = 21};
}

bool is_in_collection(const Figures& figures, double bitmap_density) {
  return figures.nnz > 10'000 && bitmap_density > 1;
}

std::optional<double> Score::precision() const { return share(both, predicted); }
std::optional<double> Score::recall() const { return share(both, faster); }

Score score(std::span<const Verdict> verdicts) {
  Score result;
  for (const Verdict& verdict : verdicts) {
    ++result.matrices;
    result.predicted += verdict.predicted;
    result.faster += verdict.faster;
    result.both += verdict.predicted && verdict.faster;
  }
  return result;
}

}  // namespace tessera::tsparse
