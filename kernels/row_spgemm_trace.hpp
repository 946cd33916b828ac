// The launches of row_spgemm that take its time, marks counted and sums made, a launch for each
// class of tasks: what their thread blocks do and, for the simulator, what their warps do.
//
// The analysis of rows, scans, sorting, allocation and the host's waits are left out. Launches of
// classes follow each other here, as the simulator has it; on a device they overlap.
#pragma once

#include "formats/base/matrix.hpp"
#include "kernels/work.hpp"

namespace tessera::row_spgemm {

/// The traces refer to A and B. Launches are named "counting" or "sums", and their class.
WorkDescription describe_work(const CsrMatrix& a, const CsrMatrix& b);

}  // namespace tessera::row_spgemm
