// The functions of NCCL that a product on several GPUs calls, loaded from the shared library at
// their first use. Its header is not needed: the few types below are NCCL's binary interface, which
// has been the same since its version 2.7 (NCCL user guide, "Types" and "Point To Point").
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/device/closed_library.hpp"

namespace tessera::nccl {

struct UniqueId {
  char bytes[128];
};
using Comm = struct OpaqueComm*;
using Result = int;

constexpr Result kSuccess = 0;
constexpr int kBytes = 0;  // the type ncclInt8

class Library {
 public:
  /// Throws Unsupported where the library, or a function of it, is not on this machine.
  static const Library& instance();

  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*init_rank)(Comm*, int size, UniqueId, int rank);
  Result (*destroy)(Comm);
  Result (*abort)(Comm);
  Result (*async_error)(Comm, Result*);
  const char* (*error_string)(Result);
  const char* (*last_error)(Comm);
  Result (*group_start)();
  Result (*group_end)();
  Result (*send)(const void*, std::size_t, int type, int peer, Comm, cudaStream_t);
  Result (*receive)(void*, std::size_t, int type, int peer, Comm, cudaStream_t);
  Result (*broadcast)(const void*, void*, std::size_t, int type, int root, Comm, cudaStream_t);

  /// "2.28.9".
  std::string version() const;

 private:
  Library();

  ClosedLibrary file_;
};

/// Throws std::runtime_error with NCCL's own text unless the result is a success.
void check(Result result, const char* doing, Comm comm = nullptr);

}  // namespace tessera::nccl
