// The search of the order `lsh_chains` and its parameters, for a CPU and a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "reorder/lsh_steps.hpp"
#include "reorder/minhash.hpp"
#include "reorder/row_joins.hpp"
#include "reorder/similarity_clusters.hpp"

namespace tessera::matched {

struct LshOptions {
  Banding banding;
  int reach = 8;
  std::int32_t chain_rows = 0;  // 0: as many as there are
  std::uint64_t seed = 1;
};

/// Those of lsh64 and dtc_lsh, but for the number of partners, which is fixed.
inline std::vector<ParamSpec> lsh_chains_params() {
  return {{"hashes", std::int64_t{64}, "largest number of MinHash functions", {}, 1, kMostHashes},
          {"threshold", 0.2, "Jaccard similarity above which bands should find pairs", {}, 0.01, 1},
          {"bands",
           std::int64_t{0},
           "number of bands, of hashes / bands functions each; 0: from the threshold",
           {},
           0,
           kMostHashes},
          {"reach",
           std::int64_t{8},
           "rows of a bucket that a row is compared with on each side",
           {},
           1,
           1024},
          {"cluster_rows",
           std::int64_t{0},
           "rows that a chain has at most; 0: no limit",
           {},
           0,
           0x1p30},
          {"seed", std::int64_t{1}, "seed of the hash functions", {}, 0},
          time_limit_param()};
}

/// Throws an Error when there are more bands than hashes.
inline LshOptions lsh_chains_options(const Params& params) {
  const auto hashes = static_cast<int>(params.integer("hashes"));
  const auto bands = static_cast<int>(params.integer("bands"));
  require(bands <= hashes, "bands = {} is more than hashes = {}", bands, hashes);
  return {.banding = bands > 0 ? Banding{bands, hashes / bands}
                               : banding(hashes, params.real("threshold")),
          .reach = static_cast<int>(params.integer("reach")),
          .chain_rows = static_cast<std::int32_t>(params.integer("cluster_rows")),
          .seed = static_cast<std::uint64_t>(params.integer("seed"))};
}

template <class Exec>
class LshSearch {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  LshSearch(Exec& exec, const Pattern& pattern, const LshOptions& options)
      : exec_(exec),
        pattern_(pattern),
        options_(options),
        joins_(exec, pattern.rows, options.chain_rows > 0 ? options.chain_rows : pattern.rows),
        partners_(exec.template array<Key>(std::int64_t{pattern.rows} * kPartners)),
        signatures_(exec.template array<Key>(std::int64_t{pattern.rows} * words())),
        keys_(
            exec.template array<std::uint32_t>(std::int64_t{pattern.rows} * options.banding.bands)),
        sorted_keys_(exec.template array<std::uint32_t>(pattern.rows)),
        rows_(exec.template array<std::int32_t>(pattern.rows)),
        sorted_rows_(exec.template array<std::uint32_t>(pattern.rows)) {}

  /// Finds the order; when the executor stops, the order so far.
  void run() {
    if (pattern_.nnz == 0) return;
    exec_.phase("sketch rows");
    exec_.for_teams(pattern_.rows,
                    SketchRow{pattern_, options_.seed, hashes(), options_.banding.bands,
                              signatures_.data(), keys_.data()});
    exec_.for_each(pattern_.rows, Count{rows_.data()});
    exec_.for_each(std::int64_t{pattern_.rows} * kPartners, NoPartners{partners_.data()});
    const auto* const rows = reinterpret_cast<const std::uint32_t*>(rows_.data());
    for (std::int64_t band = 0; band < options_.banding.bands && !exec_.stops(); ++band) {
      exec_.phase("sort rows by band");
      exec_.sort_pairs(keys_.data() + band * pattern_.rows, sorted_keys_.data(), rows,
                       sorted_rows_.data(), pattern_.rows, 32);
      exec_.phase("compare rows");
      exec_.for_each(pattern_.rows,
                     CompareInBand{sorted_keys_.data(), sorted_rows_.data(), pattern_.rows,
                                   options_.reach, words(), signatures_.data(), partners_.data()});
    }
    exec_.phase("judge partners");
    exec_.for_teams(pattern_.rows, JudgePartners{pattern_, partners_.data()});
    joins_.join(partners_.data());
  }

  static std::int64_t bytes(std::int64_t rows, std::int64_t, std::int64_t, const LshOptions& o) {
    return RowJoins<Exec>::bytes(rows) +
           (12 + 8 * kPartners + 4 * o.banding.bands + 8 * words_of(o)) * rows;
  }

  /// The old indices of the rows in their new order, [rows].
  Array<std::int32_t>& order() { return joins_.order(); }

 private:
  static int words_of(const LshOptions& o) {
    return SketchRow::words(o.banding.bands * o.banding.rows);
  }
  int hashes() const { return options_.banding.bands * options_.banding.rows; }
  int words() const { return words_of(options_); }

  Exec& exec_;
  const Pattern pattern_;
  const LshOptions options_;
  RowJoins<Exec> joins_;
  Array<Key> partners_;               // [rows * kPartners]
  Array<Key> signatures_;             // [rows * words]
  Array<std::uint32_t> keys_;         // [bands * rows]
  Array<std::uint32_t> sorted_keys_;  // [rows]
  Array<std::int32_t> rows_;          // [rows]
  Array<std::uint32_t> sorted_rows_;  // [rows]
};

}  // namespace tessera::matched
