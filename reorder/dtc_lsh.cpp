// TCA (tensor core unit and cache aware) reordering of DTC-SpMM (Fan et al., ASPLOS 2024): similar
// rows are merged into clusters of a row window's height, so that a window has few active columns;
// then similar clusters are merged into larger ones, so that the windows that run together read the
// same rows of B.
//
// Where the paper is silent this follows the public script: pairs by MinHash LSH (128 hashes,
// threshold 0.2) on both levels, clusters by similarity_clusters.hpp, of 16 rows and then of 128
// clusters; the columns of a cluster are the union of its rows' columns. Departures: those of
// minhash.hpp. The script's weighted MinHash of a pattern (all weights one) is plain MinHash. The
// similarity of rows is that of the rows of A, as in the paper, also for a directed A. Time: 56
// hashes per nonzero and level, in parallel, and merges in one thread. Memory: 12 B per kept pair,
// at most `partners` per row, then 4 B per column of a cluster.

#include <algorithm>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"
#include "reorder/similarity_clusters.hpp"

namespace tessera {
namespace {

/// The columns of the rows of each cluster.
struct Unions {
  std::vector<std::int64_t> offsets{0};  // [clusters + 1]
  std::vector<std::int32_t> cols;        // [offsets.back()]
};

Unions unite(const ColumnSets& rows, const Clusters& clusters) {
  constexpr std::int64_t kGrain = 1024;
  std::vector<Unions> pieces((clusters.size() + kGrain - 1) / kGrain);
  parallel_for(clusters.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto& [offsets, cols] = pieces[begin / kGrain];
    for (std::int64_t cluster = begin; cluster < end; ++cluster) {
      for (const std::int32_t row : clusters.of(static_cast<std::int32_t>(cluster)))
        cols.insert(cols.end(), rows.of(row).begin(), rows.of(row).end());
      const auto first = cols.begin() + offsets.back();
      std::sort(first, cols.end());
      cols.erase(std::unique(first, cols.end()), cols.end());
      offsets.push_back(std::ssize(cols));
    }
  });
  Unions unions;
  for (Unions& piece : pieces) {
    const std::int64_t before = unions.offsets.back();
    for (std::size_t i = 1; i < piece.offsets.size(); ++i)
      unions.offsets.push_back(before + piece.offsets[i]);
    unions.cols.insert(unions.cols.end(), piece.cols.begin(), piece.cols.end());
    piece = {};
  }
  return unions;
}

struct DtcLshOptions {
  LshChoices lsh;
  std::int32_t cluster_rows;
  std::int32_t cluster_clusters;
  std::int64_t levels;
  double time_limit;
};

class DtcLsh final : public Reordering {
 public:
  explicit DtcLsh(const DtcLshOptions& choices) : choices_(choices) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(choices_.time_limit);
    const ColumnSets rows{matrix.row_offsets, matrix.col_indices};
    watch.begin_part(0, 0.4);
    Clusters windows = cluster(rows, choices_.cluster_rows, watch);
    if (choices_.levels == 1 || watch.stop())
      return {Permutation(std::move(windows.sets)), std::nullopt};
    const Unions unions = unite(rows, windows);
    watch.begin_part(0.5, 0.9);
    const Clusters groups =
        cluster({unions.offsets, unions.cols}, choices_.cluster_clusters, watch);
    std::vector<std::int32_t> order;
    order.reserve(windows.sets.size());
    for (const std::int32_t window : groups.sets)
      order.insert(order.end(), windows.of(window).begin(), windows.of(window).end());
    return {Permutation(std::move(order)), std::nullopt};
  }

 private:
  Clusters cluster(const ColumnSets& sets, std::int32_t full, Watch& watch) const {
    return cluster_pairs(sets, similar_pairs(sets, choices_.lsh, watch), full, watch);
  }

  DtcLshOptions choices_;
};

std::vector<ParamSpec> params() {
  std::vector<ParamSpec> params = lsh_params(128, 8, 16);
  params.push_back(
      {"levels", std::int64_t{2}, "1: clusters of rows; 2: clusters of clusters too", {}, 1, 2});
  params.push_back({"cluster_clusters",
                    std::int64_t{128},
                    "clusters of rows at which a cluster of level 2 is full",
                    {},
                    1,
                    1 << 20});
  return params;
}

const Register<Reordering> entry{{
    .name = "dtc_lsh",
    .summary =
        "DTC-SpMM's TCA reordering: similar rows (MinHash) in windows, similar windows together",
    .params = params(),
    .make =
        [](const Params& p) {
          return std::make_unique<DtcLsh>(DtcLshOptions{
              .lsh = lsh_choices(p),
              .cluster_rows = static_cast<std::int32_t>(p.integer("cluster_rows")),
              .cluster_clusters = static_cast<std::int32_t>(p.integer("cluster_clusters")),
              .levels = p.integer("levels"),
              .time_limit = p.real("time_limit_s")});
        },
}};

}  // namespace
}  // namespace tessera
