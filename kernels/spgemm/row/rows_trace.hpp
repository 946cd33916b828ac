// The traces of row_spgemm's launches over rows, and over the tasks of all classes.
#pragma once

#include <memory>
#include <vector>

#include "kernels/spgemm/row/accesses.hpp"
#include "kernels/spgemm/row/work.hpp"

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
/// sort_tasks() for the first phase; for the second it skips small tasks. places [tasks]: where
/// each task comes to be.
TracePtr trace_sort(AnalysisPtr product, bool is_sum, std::vector<std::int64_t> places,
                    const DeviceArrays& at);
/// gather_offsets().
TracePtr trace_gather(AnalysisPtr product, const DeviceArrays& at);

}  // namespace tessera::row_spgemm::tracing
