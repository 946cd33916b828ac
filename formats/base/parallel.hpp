// Parallel loops over index ranges.
//
// Threads are started per call and joined before it returns: no pool, no global state, nothing for
// a race detector to guess at (which is why this is not OpenMP: the tsan build could not see its
// barriers). A call costs some tens of microseconds, so give it work worth milliseconds.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// Threads a parallel loop may use: set_num_threads, else $TESSERA_THREADS, else the CPUs this
/// process is allowed to run on.
int num_threads();
void set_num_threads(int threads);  // 0 restores the default

/// Calls body(begin, end) on disjoint pieces that cover [0, n): piece p is
/// [p * grain, min((p + 1) * grain, n)), whatever the number of threads, so a result collected per
/// piece (index begin / grain) is reproducible. The first exception is rethrown after all threads
/// have stopped. Called from inside another parallel loop it runs on the calling thread alone.
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tessera
