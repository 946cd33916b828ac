// The search of the order `affinity_chains` and its parameters, for a CPU and a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "reorder/matched_partners.hpp"
#include "reorder/matched_placement.hpp"
#include "reorder/row_joins.hpp"
#include "reorder/watch.hpp"

namespace tessera::matched {

struct AffinityOptions {
  std::uint32_t candidates = 32;
  int searches = 3;
};

inline std::vector<ParamSpec> affinity_params() {
  return {{"candidates",
           std::int64_t{32},
           "candidate rows that a column offers on each side of a row",
           {},
           1,
           1024},
          {"searches",
           std::int64_t{3},
           "searches for partners: of all rows, then of the ends of chains",
           {},
           1,
           16},
          time_limit_param()};
}

inline AffinityOptions affinity_options(const Params& params) {
  return {.candidates = static_cast<std::uint32_t>(params.integer("candidates")),
          .searches = static_cast<int>(params.integer("searches"))};
}

template <class Exec>
class AffinitySearch {
 public:
  template <class T>
  using Array = typename Exec::template Array<T>;

  AffinitySearch(Exec& exec, const Pattern& pattern, const AffinityOptions& options)
      : exec_(exec),
        pattern_(pattern),
        options_(options),
        placement_(exec, pattern),
        joins_(exec, pattern.rows, pattern.rows),
        file_order_(exec.template array<std::int32_t>(pattern.rows)),
        mates_(exec.template array<std::int32_t>(pattern.rows)),
        columns_(exec.template array<std::uint32_t>(pattern.rows)),
        offers_(exec.template array<std::uint32_t>(pattern.rows)),
        partners_(exec.template array<Key>(std::int64_t{pattern.rows} * kPartners)) {}

  /// Finds the order; when the executor stops, the order so far.
  void run() {
    if (pattern_.nnz == 0) return;
    exec_.for_each(pattern_.rows, Count{file_order_.data()});
    const Placed placed = placement_.put(file_order_.data());
    exec_.phase("count offers");
    exec_.for_teams(pattern_.rows, MeasureCluster{placed, 0, options_.candidates, columns_.data(),
                                                  offers_.data()});
    for (int search = 0; search < options_.searches && !exec_.stops(); ++search) {
      exec_.phase(search == 0 ? "partners of all rows" : "partners of ends");
      if (search > 0) joins_.mark_ends(mates_.data());
      exec_.for_teams(pattern_.rows, FindPartners{.placed = placed,
                                                  .source_level = 0,
                                                  .level = 0,
                                                  .clusters = pattern_.rows,
                                                  .reach = options_.candidates,
                                                  .offers = offers_.data(),
                                                  .columns = columns_.data(),
                                                  .mates = search == 0 ? nullptr : mates_.data(),
                                                  .shared_cols = nullptr,
                                                  .kept = kPartners,
                                                  .partners = partners_.data()});
      joins_.join(partners_.data());
    }
  }

  static std::int64_t bytes(std::int64_t rows, std::int64_t cols, std::int64_t nnz,
                            const AffinityOptions&) {
    return Placement<Exec>::bytes(rows, cols, nnz) + RowJoins<Exec>::bytes(rows) +
           (16 + 8 * kPartners) * rows;
  }

  /// The old indices of the rows in their new order, [rows].
  Array<std::int32_t>& order() { return joins_.order(); }

 private:
  Exec& exec_;
  const Pattern pattern_;
  const AffinityOptions options_;
  Placement<Exec> placement_;
  RowJoins<Exec> joins_;
  Array<std::int32_t> file_order_, mates_;  // [rows]
  Array<std::uint32_t> columns_, offers_;   // [rows]
  Array<Key> partners_;                     // [rows * kPartners]
};

}  // namespace tessera::matched
