#include "reorder/window_pairs.hpp"

#include <algorithm>
#include <tuple>

#include "formats/base/parallel.hpp"
#include "formats/base/parallel_sort.hpp"
#include "formats/base/scratch_pool.hpp"
#include "reorder/inverted.hpp"
#include "reorder/window_columns.hpp"
#include "reorder/window_scores.hpp"

namespace tessera {
namespace {

struct Offer {
  std::int32_t a, b;  // windows, a < b
  std::int32_t gain;

  auto rank() const { return std::tuple(-gain, a, b); }
};

/// The pairs of windows that would save most, for each window at most rule.partners of them.
std::vector<Offer> find_offers(const RowPattern& pattern, const Windows& windows,
                               const PairRule& rule, Watch& watch) {
  const std::vector<std::int32_t> columns = count_window_columns(pattern, windows);
  const Inverted holders = windows_of_columns(pattern, windows);
  // Saved blocks count most; common columns that save no block still help the caches.
  constexpr std::int64_t kBlock = 10;
  const auto gain = [&](std::int32_t a, std::int32_t b, std::int32_t common) {
    const std::int32_t both = columns[a] + columns[b] - common;
    const std::int64_t saved = tc_blocks(columns[a]) + tc_blocks(columns[b]) - tc_blocks(both);
    return static_cast<std::int32_t>(kBlock * saved) + common;
  };
  constexpr std::int64_t kGrain = 16;  // windows with hubs take many times as long as others
  std::vector<std::vector<Offer>> found((windows.whole() + kGrain - 1) / kGrain);
  struct Scratch {
    WindowScores scores;
    SeenColumns seen;
  };
  ScratchPool<Scratch> pool;
  parallel_for(windows.whole(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (watch.stop()) return;
    std::vector<Offer> mine;
    pool.use([&](Scratch& scratch) {
      WindowScores& scores = scratch.scores;
      scores.resize(windows.count());
      for (auto window = static_cast<std::int32_t>(begin); window < end; ++window) {
        for_each_column(pattern, windows.rows(window), scratch.seen, [&](std::int32_t col) {
          for (const std::int32_t other : nearest(holders.of(col), window, rule.candidates))
            scores.count(other);
        });
        scores.remove(window);
        mine.clear();
        scores.for_all([&](std::int32_t other, std::int32_t common) {
          if (other < windows.whole())
            mine.push_back(
                {std::min(window, other), std::max(window, other), gain(window, other, common)});
        });
        const auto most = std::min<std::ptrdiff_t>(rule.partners, std::ssize(mine));
        std::ranges::partial_sort(mine, mine.begin() + most, {}, &Offer::rank);
        auto& kept = found[begin / kGrain];
        kept.insert(kept.end(), mine.begin(), mine.begin() + most);
      }
    });
  });
  std::vector<Offer> offers;
  std::size_t size = 0;
  for (const auto& piece : found) size += piece.size();
  offers.reserve(size);
  for (auto& piece : found) {
    offers.insert(offers.end(), piece.begin(), piece.end());
    std::vector<Offer>().swap(piece);
  }
  return offers;
}

}  // namespace

std::vector<std::int32_t> pair_windows(const RowPattern& pattern,
                                       const std::vector<std::int32_t>& order, const PairRule& rule,
                                       Watch& watch) {
  const Windows windows{order, rule.window_rows};
  std::vector<Offer> offers = find_offers(pattern, windows, rule, watch);
  parallel_sort(offers, [](const Offer& p, const Offer& q) { return p.rank() < q.rank(); });
  constexpr std::int32_t kAlone = -1;
  std::vector<std::int32_t> mate(windows.whole(), kAlone);
  for (const Offer& offer : offers) {
    if (mate[offer.a] != kAlone || mate[offer.b] != kAlone) continue;
    mate[offer.a] = offer.b;
    mate[offer.b] = offer.a;
  }

  std::vector<std::int32_t> paired;
  paired.reserve(order.size());
  const auto append = [&](std::int32_t window) {
    const auto rows = windows.rows(window);
    paired.insert(paired.end(), rows.begin(), rows.end());
  };
  for (std::int32_t window = 0; window < windows.whole(); ++window) {
    if (mate[window] < window) continue;  // alone, or the second of its pair
    append(window);
    append(mate[window]);
  }
  for (std::int32_t window = 0; window < windows.count(); ++window)
    if (window >= windows.whole() || mate[window] == kAlone) append(window);
  return paired;
}

}  // namespace tessera
