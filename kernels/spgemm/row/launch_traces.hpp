// The traces of row_spgemm's launches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/spgemm/row/accesses.hpp"
#include "kernels/spgemm/row/walk.hpp"

namespace tessera::row_spgemm::tracing {

using AnalysisPtr = std::shared_ptr<const ProductAnalysis>;
using TracePtr = std::shared_ptr<const LaunchTrace>;

/// describe_rows_of_b(), and measure_rows_of_b(), which makes no words.
TracePtr trace_description(AnalysisPtr product, const DeviceArrays& at);
TracePtr trace_measure(AnalysisPtr product, const DeviceArrays& at);
/// analyse_rows().
TracePtr trace_analysis(AnalysisPtr product, const DeviceArrays& at);
/// cut_rows().
TracePtr trace_cut(AnalysisPtr product, const DeviceArrays& at);
/// sort_by_marks(), or sort_by_sums(), which skips small tasks. places
/// [tasks]: the index of each task among the sorted ones.
TracePtr trace_sort(AnalysisPtr product, bool is_sum, std::vector<std::int64_t> places,
                    const DeviceArrays& at);
/// place_tasks(), with places as above.
TracePtr trace_place(AnalysisPtr product, std::vector<std::int64_t> places, const DeviceArrays& at);
/// gather_offsets().
TracePtr trace_gather(AnalysisPtr product, const DeviceArrays& at);

/// The trace of a launch over the tasks of one class, or of its part of a joint one, and the
/// barriers of each thread block, summed over its warps. [thread blocks]
struct ClassTrace {
  TracePtr trace;
  std::vector<std::int64_t> barriers;
};
/// count_columns() or make_sums().
ClassTrace trace_groups(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at);
/// count_small() or make_small_sums().
ClassTrace trace_small(AnalysisPtr product, ClassLaunch launch, const DeviceArrays& at);

/// The trace of a launch whose thread blocks are those of others, one after another.
struct PartOfLaunch {
  std::int64_t thread_blocks;
  TracePtr trace;
};
TracePtr trace_jointly(std::vector<PartOfLaunch> parts);

}  // namespace tessera::row_spgemm::tracing
