// Every allocation of device memory and of pinned memory by this program: counted, and one of them
// fails on request.
//
// The linker puts these functions in the place of the runtime's (--wrap, CMakeLists.txt). Shared
// libraries, such as cuSPARSE, have a runtime of their own, and their allocations are not counted.
#pragma once

#include <cstdint>

namespace tessera {

/// Lets the k-th allocation from now on fail, as the runtime does without memory; 0 lets none fail.
void fail_allocation(std::int64_t k);

/// True when the allocation that fail_allocation() has named has not been asked for yet.
bool failure_is_due();

/// Allocations that have not been freed.
std::int64_t live_allocations();

}  // namespace tessera
