// The launches of row_spgemm: it describes the rows of B, analyses the rows of A and cuts them into
// tasks; then, for each class of tasks, it counts columns and makes sums. This is the work of their
// thread blocks and, for the simulator, the trace of their warps.
//
// Hubs are traced in slices, as the device takes them in limited memory: sorting their products
// (hubs.cuh) has no trace, and a predicted time is longer than that of the device with it. Whether
// the tasks of all classes have one launch is decided as on an H200.
//
// The allocations are those from a pool. Clearing and copies are not included.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/work.hpp"

namespace tessera::row_spgemm {

/// The work of A B, without lists of products. A and B have to outlive it, because its traces refer
/// to them. A launch over tasks is named "counting" or "sums", with its class. Throws an Error
/// where the shapes do not fit.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::row_spgemm
