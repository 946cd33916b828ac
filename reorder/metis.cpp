// Orders by METIS (Karypis and Kumar 1998), on the pattern of A + A^T: multilevel k-way parts of a
// few rows, or nested dissection.
//
// kway minimises the edges between parts of `part_rows` rows (a multiple of the row window) and
// lists the parts by number; METIS numbers them by recursive bisection, so parts with near numbers
// are near. Parts are only approximately equal, so a window may straddle two. Smaller parts give
// fuller tiles and take longer: shuffled DD (1.7 M nonzeros) reaches MeanNNZTC 8.9 with 64 rows,
// 11.2 with 16 and 12.2 with 8, in 5, 6 and 19 s on a busy machine. METIS counts in 32 bits and
// seeds the C library's generator, hence one call at a time. Memory about 60 B per nonzero.

#include <metis.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/adjacency.hpp"

namespace tessera {
namespace {

/// The graph in METIS's integers, and one call to it at a time.
class MetisGraph {
 public:
  MetisGraph(const Adjacency& graph, std::int64_t seed)
      : vertices_(graph.size()),
        offsets_(graph.offsets.begin(), graph.offsets.end()),
        neighbours_(graph.neighbours.begin(), graph.neighbours.end()) {
    METIS_SetDefaultOptions(options_.data());
    options_[METIS_OPTION_NUMBERING] = 0;
    options_[METIS_OPTION_SEED] = static_cast<idx_t>(seed);
  }

  std::vector<idx_t> parts(idx_t count) {
    std::vector<idx_t> part(vertices_);
    idx_t constraints = 1, cut = 0;
    const std::lock_guard lock(one_at_a_time());
    check(METIS_PartGraphKway(&vertices_, &constraints, offsets_.data(), neighbours_.data(),
                              nullptr, nullptr, nullptr, &count, nullptr, nullptr, options_.data(),
                              &cut, part.data()));
    return part;
  }

  std::vector<idx_t> nested_dissection() {
    std::vector<idx_t> old_of_new(vertices_), new_of_old(vertices_);
    const std::lock_guard lock(one_at_a_time());
    check(METIS_NodeND(&vertices_, offsets_.data(), neighbours_.data(), nullptr, options_.data(),
                       old_of_new.data(), new_of_old.data()));
    return old_of_new;
  }

 private:
  static std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
  }

  static void check(int status) {
    if (status == METIS_ERROR_MEMORY) throw OutOfMemory("METIS ran out of memory");
    require(status == METIS_OK, "METIS failed with its status {}", status);
  }

  idx_t vertices_;
  std::vector<idx_t> offsets_;     // [vertices + 1]
  std::vector<idx_t> neighbours_;  // [offsets.back()]
  std::array<idx_t, METIS_NOPTIONS> options_{};
};

class Metis final : public Reordering {
 public:
  explicit Metis(const Params& params)
      : nested_dissection_(params.text("method") == "nd"),
        part_rows_(params.integer("part_rows")),
        seed_(params.integer("seed")),
        apply_(params.text("apply")) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    const Adjacency graph = symmetric_pattern(matrix, "metis");
    const auto edges = static_cast<std::int64_t>(graph.neighbours.size());
    require<Unsupported>(edges <= std::numeric_limits<idx_t>::max(),
                         "metis counts edges in {} bits, and A + A^T has {} of them",
                         8 * sizeof(idx_t), edges);
    std::vector<std::int32_t> order(matrix.rows);
    std::iota(order.begin(), order.end(), 0);
    if (edges == 0) return on_sides(std::move(order), apply_);
    MetisGraph metis(graph, seed_);
    if (nested_dissection_) {
      std::ranges::copy(metis.nested_dissection(), order.begin());
    } else if (const std::int64_t count = (matrix.rows + part_rows_ - 1) / part_rows_; count > 1) {
      const std::vector<idx_t> part = metis.parts(static_cast<idx_t>(count));
      std::ranges::stable_sort(order, {}, [&](std::int32_t row) { return part[row]; });
    }
    return on_sides(std::move(order), apply_);
  }

 private:
  bool nested_dissection_;
  std::int64_t part_rows_;
  std::int64_t seed_;
  std::string apply_;
};

const Register<Reordering> entry{{
    .name = "metis",
    .summary = "METIS on A + A^T: parts with few edges between them, or nested dissection",
    .params = {{"method", std::string("kway"), "k-way parts or nested dissection", {"kway", "nd"}},
               {"part_rows", std::int64_t{16}, "approximate rows of a part (kway)", {}, 2, 0x1p30},
               {"seed", std::int64_t{1}, "of METIS", {}, 0, 0x1p31 - 1},
               apply_to_both_sides()},
    .make = [](const Params& params) { return std::make_unique<Metis>(params); },
}};

}  // namespace
}  // namespace tessera
