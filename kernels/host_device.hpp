// Marks a function that host code and device code share: nvcc compiles it for both, a C++ compiler
// sees nothing.
#pragma once

#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
