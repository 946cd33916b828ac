// Which worker uses which GPU and which cores, so that matrices are read, put in order, packed and
// checked by some workers while another one measures.
//
// Several workers share a GPU. One of them at a time works on it; the others use the processor, on
// cores of their own, so that they do not disturb its timing.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// A place for a worker.
struct WorkerPlace {
  int gpu = -1;                 // of those that this process sees; -1 for all of them
  std::vector<int> cores = {};  // that it may run on; empty for all
};

/// The places of `gpus` GPUs on a machine with these cores, one of each GPU after the other. There
/// are at least two for each GPU, whose cores follow each other; where there are fewer cores than
/// places, none has cores of its own.
///
/// Without checks few workers keep a GPU busy. More would only cost: the driver makes one context
/// after the other, for all GPUs of a host, and takes 0.18 s for each (H200, driver 580).
std::vector<WorkerPlace> places_of_gpus(int gpus, const std::vector<int>& cores, bool checked);

/// The cores that this process may run on.
std::vector<int> own_cores();

/// What $CUDA_VISIBLE_DEVICES has to be for a process that sees only one GPU, given what it is here
/// ("" for all).
std::string visible_device(const std::string& visible, int gpu);

/// Makes this process, and those threads that it starts from now on, run in that place.
void go_to(const WorkerPlace& place);

}  // namespace tessera
