// How a store of C leaves what it wrote in the caches: the cache operators wb, cg, cs and wt (PTX
// ISA, "Cache Operators"; Acc-SpMM, table 1).
#pragma once

namespace tessera {

enum class Store { kWriteBack, kInL2, kStreaming, kWriteThrough };

}  // namespace tessera
