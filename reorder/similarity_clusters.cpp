#include "reorder/similarity_clusters.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

struct LessSimilar {
  bool operator()(const SimilarPair& a, const SimilarPair& b) const {
    return std::tuple(a.similarity, b.first, b.second) <
           std::tuple(b.similarity, a.first, a.second);
  }
};

/// The pairs to be processed: the given sorted ones, and those queued again.
class PairQueue {
 public:
  explicit PairQueue(std::vector<SimilarPair> pairs) : sorted_(std::move(pairs)) {}

  bool empty() const { return next_ == sorted_.size() && again_.empty(); }
  void push(const SimilarPair& pair) { again_.push(pair); }
  SimilarPair take() {
    const bool from_sorted =
        next_ < sorted_.size() && (again_.empty() || LessSimilar()(again_.top(), sorted_[next_]));
    if (from_sorted) return sorted_[next_++];
    const SimilarPair pair = again_.top();
    again_.pop();
    return pair;
  }

 private:
  std::vector<SimilarPair> sorted_;
  std::size_t next_ = 0;
  std::priority_queue<SimilarPair, std::vector<SimilarPair>, LessSimilar> again_;
};

class Merging {
 public:
  Merging(const ColumnSets& sets, std::int32_t full)
      : sets_(sets), full_(full), root_(sets.size()), size_(sets.size(), 1) {
    std::iota(root_.begin(), root_.end(), 0);
  }

  void run(PairQueue pairs, Watch& watch) {
    bool stopped = watch.stop();
    for (std::int64_t taken = 1; !pairs.empty(); ++taken) {
      if ((taken & 1023) == 0) stopped = watch.stop();
      const SimilarPair pair = pairs.take();
      const std::int32_t a = root_of(pair.first), b = root_of(pair.second);
      if (a == b || size_[a] >= full_ || size_[b] >= full_) continue;
      if (a == pair.first && b == pair.second) {
        merge(a, b);
      } else if (!stopped) {
        pairs.push({jaccard_similarity(sets_.of(a), sets_.of(b)), std::min(a, b), std::max(a, b)});
      }
    }
  }

  Clusters clusters() {
    Clusters clusters;
    std::vector<std::int32_t> number(root_.size(), -1), place;
    for (std::int32_t set = 0; set < sets_.size(); ++set) {
      const std::int32_t root = root_of(set);
      if (number[root] >= 0) continue;
      number[root] = static_cast<std::int32_t>(place.size());
      place.push_back(size_[root]);
    }
    clusters.offsets.assign(1, 0);
    for (std::int32_t& size : place) {
      const std::int32_t first = clusters.offsets.back();
      clusters.offsets.push_back(first + std::exchange(size, first));
    }
    clusters.sets.resize(root_.size());
    for (std::int32_t set = 0; set < sets_.size(); ++set)
      clusters.sets[place[number[root_of(set)]]++] = set;
    return clusters;
  }

 private:
  std::int32_t root_of(std::int32_t set) {
    while (root_[set] != set) set = root_[set] = root_[root_[set]];
    return set;
  }

  void merge(std::int32_t a, std::int32_t b) {
    if (size_[a] < size_[b]) std::swap(a, b);
    root_[b] = a;
    size_[a] += size_[b];
  }

  const ColumnSets& sets_;
  std::int32_t full_;
  std::vector<std::int32_t> root_;  // [sets] towards the root of the cluster a set is in
  std::vector<std::int32_t> size_;  // [sets] of the cluster, valid for its root
};

}  // namespace

Clusters cluster_pairs(const ColumnSets& sets, std::vector<SimilarPair> pairs, std::int32_t full,
                       Watch& watch) {
  Merging merging(sets, full);
  merging.run(PairQueue(std::move(pairs)), watch);
  return merging.clusters();
}

std::vector<ParamSpec> lsh_params(std::int64_t hashes, std::int64_t partners,
                                  std::int64_t cluster_rows) {
  return {{"hashes", hashes, "largest number of MinHash functions", {}, 1, 4096},
          {"threshold", 0.2, "Jaccard similarity above which bands should find pairs", {}, 0.01, 1},
          {"bands",
           std::int64_t{0},
           "number of bands, of hashes / bands functions each; 0: from the threshold",
           {},
           0,
           4096},
          {"reach",
           std::int64_t{8},
           "rows of a bucket that a row is compared with on each side",
           {},
           1,
           1024},
          {"partners", partners, "number of most similar rows that a row keeps", {}, 1, 1024},
          {"cluster_rows", cluster_rows, "rows at which a cluster is full", {}, 1, 1 << 20},
          {"seed", std::int64_t{1}, "seed of the hash functions", {}, 0},
          time_limit_param()};
}

LshChoices lsh_choices(const Params& params) {
  const auto hashes = static_cast<int>(params.integer("hashes"));
  const auto bands = static_cast<int>(params.integer("bands"));
  require(bands <= hashes, "bands = {} is more than hashes = {}", bands, hashes);
  return {.banding = bands > 0 ? Banding{bands, hashes / bands}
                               : banding(hashes, params.real("threshold")),
          .reach = static_cast<int>(params.integer("reach")),
          .partners = static_cast<int>(params.integer("partners")),
          .seed = static_cast<std::uint64_t>(params.integer("seed"))};
}

}  // namespace tessera
