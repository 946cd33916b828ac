// A dense product on several GPUs, from its point to its record: load, reorder, cut into parts,
// run or predict, check. Backend "emulate" computes it on the CPU, "gpu" on this host's GPUs, and
// "model" and "simulate" predict its time on any number of a described device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/points/point.hpp"
#include "formats/base/matrix.hpp"
#include "kernels/spmm/distributed/split.hpp"

namespace tessera {

struct GpusRequest {
  int gpus = 2;
  std::string partition = "time";         // one of partition_choices()
  std::optional<Exchange> exchange = {};  // not given: chosen by expected time
};

/// "time", "nonzeros": contiguous rows alike in these; "metis": parts that need few of each other's
/// rows of B.
const std::vector<std::string>& partition_choices();

/// The record of the product, and C in the order of the file where one was computed. Beside the
/// parts of a record on one GPU it has "gpus", a list of each one's share, and "exchange": the way,
/// its reason, the bytes of all and the least bytes that could be (the connectivity bound).
struct GpusAttempt {
  Json record;
  DenseMatrix c;
};

/// `given_b` takes the place of a random B. Throws an Error for a point that is no dense product
/// with a named kernel, and for an unknown partition. Otherwise as PointRunner::run: what fails is
/// in the record.
GpusAttempt run_on_gpus(const Point& point, const GpusRequest& request,
                        std::optional<DenseMatrix> given_b = {});

}  // namespace tessera
