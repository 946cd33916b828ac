// A libtorch_cpu.so without content. The operators are linked against it, so that the loader takes
// the functions from the libtorch_cpu.so that Python has loaded.
#include "python/torch_operators/torch_abi.hpp"

#define TESSERA_DEFINE(result, name, parameters) \
  extern "C" __attribute__((visibility("default"))) result name parameters { return {}; }
TESSERA_TORCH_FUNCTIONS(TESSERA_DEFINE)
