// The cache operators of a store to C: wb, cg, cs and wt (PTX ISA, "Cache Operators"; Acc-SpMM,
// table 1), in this order.
#pragma once

namespace tessera {

enum class Store { kWriteBack, kInL2, kStreaming, kWriteThrough };

}  // namespace tessera
