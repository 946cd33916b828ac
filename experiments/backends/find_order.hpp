// An order and what finding it took: computed, or as it was when it was computed and kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/points/point.hpp"
#include "formats/io/source.hpp"
#include "reorder/reordering.hpp"

namespace tessera {

struct FoundOrder {
  Order order;
  double seconds = 0;                      // of finding it, not of putting the matrix into it
  int threads = 0;                         // that it could use
  std::optional<std::int64_t> peak_bytes;  // of memory beyond the matrix
  std::string peak_unknown;                // why there is no such number
  bool from_cache = false;                 // the above is of the run that computed it
  bool cut_short = false;                  // by the watch: the best order so far
};

/// Asks the reordering, with the clock running.
FoundOrder compute_order(const Reordering& reordering, const CsrMatrix& matrix, Watch& watch);

/// From the cache if it is there and `afresh` is not asked for; else computed, and kept unless it
/// was cut short or took less time than reading it back would.
FoundOrder find_order(const CsrMatrix& matrix, const std::string& content_hash,
                      const Variant& reordering, Watch& watch, bool afresh = false);

/// What a record's "prep" says of it: reorder_s, reorder_threads, ...
Json to_json(const FoundOrder& found);

}  // namespace tessera
