// The launches of row_spgemm: rows described, analysed and cut into tasks; then, for each class of
// tasks, columns counted and sums made. What their thread blocks do and, for the simulator, what
// their warps do.
//
// Left out are allocation, what is cleared and copied in between, and that the host waits twice.
// Launches of classes follow each other here, as the simulator has it; on a device they overlap.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/work.hpp"

namespace tessera::row_spgemm {

/// The traces refer to A and B. Launches of tasks are named "counting" or "sums", and their class.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::row_spgemm
