// TESSERA_HOST_DEVICE marks a function that host code and device code share: nvcc compiles it for
// both; for a C++ compiler the macro is empty.
#pragma once

#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
