// An order and the cost of finding it: computed now, or read from the cache with the cost it had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/records/record.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

struct FoundOrder {
  Order order;
  double seconds = 0;                      // time to find it, without applying it
  int threads = 0;                         // CPU threads it could use
  std::optional<std::int64_t> peak_bytes;  // peak host memory beyond the matrix
  std::string peak_unknown;                // the reason when peak_bytes is not known
  bool from_cache = false;                 // the cost above is that of the run that computed it
  bool cut_short = false;                  // the watch ended the search: the best order until then
};

/// Runs the reordering and measures its time and memory.
FoundOrder compute_order(const Reordering& reordering, const CsrMatrix& matrix, Watch& watch);

/// The order from the cache, unless it is not there or `afresh` is true; then it is computed, and
/// stored unless it was cut short or took less time than reading it back would.
FoundOrder find_order(const CsrMatrix& matrix, const std::string& content_hash,
                      const Variant& reordering, Watch& watch, bool afresh = false);

/// Adds the order's cost to a record's preparation.
void add_order(const FoundOrder& found, PreparationPart& prep);

}  // namespace tessera
