// Which process uses which GPU, and which of its threads which cores, so that some of them read,
// order, pack and check matrices while another one measures.
//
// A GPU has one process, whose lanes are threads: each works on a point from its matrix to its
// record. One lane at a time uses the GPU; the others use the processor, on cores of their own, so
// that they do not disturb its timing. The driver makes one context after the other for all GPUs of
// a host and takes 0.18 s for each (H200, driver 580), and what a library or a kernel does at its
// first use is done once a process: a GPU that several processes share pays all of that for each.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Cores that a process or a thread may run on; empty for all.
using Cores = std::vector<int>;

/// A place for a worker.
struct WorkerPlace {
  int gpu = -1;  // of those that this process sees; -1 for all of them
  std::vector<Cores> lanes = std::vector<Cores>(1);  // one or more
};

/// The places of `gpus` GPUs on a machine with these cores, one for each. A GPU has two lanes at
/// least, and its cores follow each other; where there are fewer cores than lanes, none has cores
/// of its own.
std::vector<WorkerPlace> places_of_gpus(int gpus, const Cores& cores);

/// The cores that this process may run on.
Cores own_cores();

/// What $CUDA_VISIBLE_DEVICES has to be for a process that sees only one GPU, given what it is here
/// ("" for all).
std::string visible_device(const std::string& visible, int gpu);

/// Makes this process, and those threads that it starts from now on, see the GPU of that place and
/// run on the cores of all of its lanes. Parallel loops have as many threads as a lane has cores.
void go_to(const WorkerPlace& place);

/// Makes this thread, and those that it starts from now on, run on these cores.
void stay_on(const Cores& cores);

}  // namespace tessera
