// Parallel loops over index ranges.
//
// Threads are started per call and joined before it returns: no pool and no global state. It is not
// OpenMP because the thread sanitizer does not see OpenMP's barriers. A call costs some tens of
// microseconds, so give it work worth milliseconds.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// The number of threads that a parallel loop may use: that of set_num_threads, else
/// $TESSERA_THREADS, else the number of CPUs that this process may run on.
int num_threads();
void set_num_threads(int threads);  // 0 restores the default

/// Calls body(begin, end) on disjoint chunks that cover [0, n): chunk p is
/// [p * grain, min((p + 1) * grain, n)) at any number of threads, so a result collected per chunk
/// (index begin / grain) is reproducible. Rethrows the first exception after all threads have
/// stopped. Inside another parallel loop it runs on the calling thread alone.
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace tessera
