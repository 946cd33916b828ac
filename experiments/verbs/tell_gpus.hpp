// What `tessera multiply --gpus` prints beside what it prints of one GPU.
#pragma once

#include "experiments/points/point.hpp"

namespace tessera {

/// Prints the exchange and each GPU's share of a record that has them (run_on_gpus()).
void tell_gpus(const Json& record);

}  // namespace tessera
