// Our order for preparation on a GPU: rows are matched in pairs, pairs in fours, fours in windows
// of eight and windows in pairs, each time those that have most columns in common; then rows change
// places between windows where that leaves fewer TC blocks. The order of the file is kept where it
// has no more TC blocks.
//
// It minimises what `best` minimises, but every step is a loop of independent iterations, where
// `best` places one row after another. So it runs on a GPU as well (matched.cu), and finds the same
// order there. A matching takes rounds: everyone proposes to the best of the six partners that it
// remembers, and a proposal that is the best for both sides is accepted (locally dominant edges,
// Preis 1999; in parallel Manne and Bisseling 2007). Those that are left search once more among
// themselves, and the rest is matched in order. Rows with nothing in common with others keep their
// order. Time: O(nnz reach). Memory: 22 bytes per nonzero and 156
// per row, and 8 per row for each thread; on a GPU 20 per nonzero more, for sorting.

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>
#include <vector>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/matched_options.hpp"
#include "reorder/matched_search.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// What a team shares, and counts of clusters.
struct Scratch {
  std::vector<matched::Key> shared;
  std::vector<std::uint32_t> counts;   // [clusters] 0 between items
  std::vector<std::int32_t> clusters;  // that have a count
};

/// A team of one thread.
class Alone {
 public:
  explicit Alone(Scratch& scratch) : scratch_(scratch) {}

  void* shared() const { return scratch_.shared.data(); }
  bool is_first() const { return true; }
  void sync() const {}
  void add(std::uint32_t* sum, std::uint32_t value) const { *sum += value; }
  matched::Key largest(matched::Key mine) const { return mine; }
  template <class Body>
  void for_each(std::uint32_t count, Body body) const {
    for (std::uint32_t i = 0; i < count; ++i) body(i);
  }
  template <class Prepare, class Body>
  void for_each_in_ranges(std::uint32_t count, Prepare prepare, Body body) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      const matched::Range range = prepare(i);
      for (std::uint32_t place = range.begin; place < range.end; place += matched::kTogether) {
        matched::Visit visits[matched::kTogether];
        for (std::uint32_t j = 0; j < matched::kTogether; ++j)
          visits[j] = {place + j < range.end ? place + j : matched::kNoPlace,
                       place + j == range.begin};
        body(visits);
      }
    }
  }
  template <class ForAll>
  bool count(std::int32_t clusters, std::uint32_t, std::uint32_t, int, const matched::Judge& judge,
             ForAll for_all, matched::BestKeys& best) const {
    auto& counts = scratch_.counts;
    if (counts.size() < static_cast<std::size_t>(clusters)) counts.resize(clusters);
    for_all([&](std::int32_t cluster) {
      if (counts[cluster]++ == 0) scratch_.clusters.push_back(cluster);
      return true;
    });
    for (const std::int32_t cluster : scratch_.clusters)
      best.add(judge.key(cluster, std::exchange(counts[cluster], 0)));
    scratch_.clusters.clear();
    return true;
  }
  void store_largest(const matched::BestKeys& best, int kept, matched::Key* found) const {
    std::copy_n(best.keys, kept, found);
  }
  void store_sum(std::uint32_t sum, std::uint32_t* to) const { *to = sum; }

 private:
  Scratch& scratch_;
};

class Threads {
 public:
  static void raise(matched::Key* largest, matched::Key value) {
    std::atomic_ref<matched::Key> shared(*largest);
    matched::Key before = shared.load(std::memory_order_relaxed);
    while (before < value && !shared.compare_exchange_weak(before, value)) {
    }
  }
};

class OnThreads {
 public:
  template <class T>
  using Array = std::vector<T>;

  explicit OnThreads(Watch& watch) : watch_(watch) {}

  template <class T>
  Array<T> array(std::int64_t size) const {
    return Array<T>(static_cast<std::size_t>(size));
  }
  bool stops() const { return watch_.stop(); }
  void phase(const char*) const {}

  template <class Step>
  void for_each(std::int64_t count, const Step& step) const {
    constexpr std::int64_t kGrain = 16384;
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) step(i);
    });
  }
  /// Rounds until one does nothing; `first` returns whether it did.
  template <class Start, class First, class Second>
  void for_rounds(std::int64_t count, int rounds, const Start& start, const First& first,
                  const Second& second) const {
    for_each(count, start);
    for (int round = 0; round < rounds; ++round) {
      std::atomic<bool> goes_on = false;
      for_each(count, [&](std::int64_t i) {
        if (first(Threads{}, round, i)) goes_on.store(true, std::memory_order_relaxed);
      });
      if (!goes_on) return;
      for_each(count, second);
    }
  }
  template <class Step>
  void for_teams(std::int64_t count, const Step& step) {
    constexpr std::int64_t kGrain = 256;
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      scratch_.use([&](Scratch& scratch) {
        if constexpr (requires { Step::kSharedBytes; })
          scratch.shared.resize(
              std::max(scratch.shared.size(), Step::kSharedBytes / sizeof(matched::Key)));
        const Alone team(scratch);
        for (std::int64_t i = begin; i < end; ++i) step(team, i);
      });
    });
  }
  /// sums[i] = the sum of the summands before i.
  template <class Summand>
  void running_sum(const Summand& summand, std::uint32_t* sums, std::int64_t count) const {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sums[i] = sum;
      sum += summand(i);
    }
  }
  template <class T>
  void copy(const T* from, T* to, std::int64_t count) const {
    std::copy_n(from, count, to);
  }

  /// The nonzeros by column, those of a column in their order. Threads count chunks of nonzeros, at
  /// most as many chunks as take four bytes per nonzero.
  void sort_by_column(const std::int32_t* cols, std::int64_t nnz, std::int32_t columns,
                      std::uint32_t* sorted) const {
    const std::int64_t chunks =
        std::clamp<std::int64_t>(nnz / std::max(1, columns), 1, std::max(1, num_threads()));
    const std::int64_t size = std::max<std::int64_t>(1, (nnz + chunks - 1) / chunks);
    std::vector<std::vector<std::uint32_t>> next(static_cast<std::size_t>(chunks));
    parallel_for(nnz, size, [&](std::int64_t begin, std::int64_t end) {
      auto& mine = next[begin / size];
      mine.assign(static_cast<std::size_t>(columns), 0);
      for (std::int64_t k = begin; k < end; ++k) ++mine[cols[k]];
    });
    std::uint32_t before = 0;
    for (std::int32_t col = 0; col < columns; ++col)
      for (auto& chunk : next)
        if (!chunk.empty()) before += std::exchange(chunk[col], before);
    parallel_for(nnz, size, [&](std::int64_t begin, std::int64_t end) {
      auto& mine = next[begin / size];
      for (std::int64_t k = begin; k < end; ++k)
        sorted[mine[cols[k]]++] = static_cast<std::uint32_t>(k);
    });
  }
  /// Sorts the holders of each column by their positions.
  void place_columns(std::int32_t columns, const matched::PlaceColumns& step) const {
    constexpr std::int64_t kGrain = 1024;
    parallel_for(columns, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::pair<std::int32_t, std::uint32_t>> holders;  // position, entry
      for (std::int64_t col = begin; col < end; ++col) {
        holders.clear();
        std::uint32_t place = step.col_offsets[col];
        for (std::uint32_t entry = place; entry < step.col_offsets[col + 1]; ++entry)
          holders.emplace_back(step.position(entry), entry);
        std::sort(holders.begin(), holders.end());
        for (const auto& holder : holders) step.put(holder.second, place++);
      }
    });
  }

 private:
  Watch& watch_;
  ScratchPool<Scratch> scratch_;
};

class Matched final : public Reordering {
 public:
  Matched(const matched::Options& options, double time_limit_s)
      : options_(options), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    matched::require_fits(matrix.rows, matrix.nnz());
    OnThreads threads(watch);
    matched::Search search(threads,
                           {matrix.rows, matrix.cols, matrix.nnz(), matrix.row_offsets.data(),
                            matrix.col_indices.data()},
                           options_);
    search.run();
    Permutation order(std::move(search.order()));
    const std::string chosen = order.is_identity() ? "natural" : "matched";
    return {std::move(order), std::nullopt, chosen};
  }

 private:
  matched::Options options_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "matched",
    .summary = "ours, also on the GPU: rows matched by common columns, or the order of the file",
    .params = matched::all_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<Matched>(matched::options_of(p), p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
