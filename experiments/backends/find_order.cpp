// Orders are found once per matrix, algorithm and parameters, and then come from the cache: a sweep
// over kernels, or the same experiment on another day, does not pay again. The identity has the
// content of the file, the complete call of the reordering and its version.
#include "experiments/backends/find_order.hpp"

#include <chrono>

#include "experiments/machine/peak_memory.hpp"
#include "formats/base/or_out_of_memory.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/cache_file.hpp"
#include "formats/io/order_cache.hpp"

namespace tessera {
namespace {

constexpr double kWorthKeeping = 0.005;  // seconds

/// The order that the cache has for this identity, unless it is one of another matrix.
std::optional<KeptOrder> kept_order(const OrderCache& cache, const std::string& identity,
                                    const CsrMatrix& matrix) {
  std::optional<KeptOrder> kept = cache.load(identity);
  if (!kept) return kept;
  const bool fits =
      kept->rows.size() == matrix.rows && (!kept->cols || kept->cols->size() == matrix.cols);
  if (fits) return kept;
  report_unused(cache.path(identity),
                fmt::format("it is no order of a matrix of {} x {}", matrix.rows, matrix.cols));
  return std::nullopt;
}

Order order_or_tell(const Reordering& reordering, const CsrMatrix& matrix, Watch& watch) {
  return or_out_of_memory([&] { return reordering.order(matrix, watch); },
                          [&] {
                            return fmt::format(
                                "this machine has too little memory to reorder a matrix of {} x {} "
                                "with {} nonzeros",
                                matrix.rows, matrix.cols, matrix.nnz());
                          });
}

}  // namespace

FoundOrder compute_order(const Reordering& reordering, const CsrMatrix& matrix, Watch& watch) {
  FoundOrder found;
  const PeakMemory memory;
  const auto start = std::chrono::steady_clock::now();
  found.order = order_or_tell(reordering, matrix, watch);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  found.peak_bytes = memory.bytes();
  found.peak_unknown = memory.problem();
  found.seconds = elapsed.count();
  found.threads = num_threads();
  found.cut_short = watch.stopped();
  return found;
}

FoundOrder find_order(const CsrMatrix& matrix, const std::string& content_hash,
                      const Variant& reordering, Watch& watch, bool afresh) {
  const auto variant = Registry<Reordering>::instance().make(reordering.name, reordering.params);
  const std::string identity = fmt::format("order of {} by {} version {}", content_hash,
                                           to_text(reordering), variant->version());
  const OrderCache cache;
  if (std::optional<KeptOrder> kept = afresh ? std::nullopt : kept_order(cache, identity, matrix))
    return {{std::move(kept->rows), std::move(kept->cols), std::move(kept->chosen)},
            kept->seconds,
            kept->threads,
            kept->peak_bytes,
            kept->peak_bytes ? "" : "it was not known when the order was computed",
            true,
            false};
  FoundOrder found = compute_order(*variant, matrix, watch);
  if (!found.cut_short && found.seconds >= kWorthKeeping)
    cache.store({found.order.rows, found.order.cols, found.order.chosen, found.seconds,
                 found.threads, found.peak_bytes},
                identity);
  return found;
}

void add_order(const FoundOrder& found, PreparationPart& prep) {
  prep.reorder_s = found.seconds;
  prep.reorder_threads = found.threads;
  prep.reorder_from_cache = found.from_cache;
  prep.reorder_cut_short = found.cut_short;
  prep.reorder_peak_bytes = found.peak_bytes;
  if (!found.peak_bytes) prep.reorder_peak_unknown = found.peak_unknown;
  if (!found.order.chosen.empty()) prep.reorder_chosen = found.order.chosen;
}

}  // namespace tessera
