// NCCL by its binary interface. A call that fails throws with the text that NCCL has for it.
#include <cstdlib>
#include <stdexcept>

#include "kernels/spmm/distributed/nccl_library.hpp"

namespace tessera::nccl {

const Library& Library::instance() {
  static const Library library;
  return library;
}

Library::Library() : file_("libnccl.so.2") {
  // NVLink multicast needs a fabric manager's leave, which shared hosts do not give; collectives
  // without it are as fast between two GPUs. NCCL reads this before its first communicator.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  file_.load(get_version, "ncclGetVersion");
  file_.load(get_unique_id, "ncclGetUniqueId");
  file_.load(init_rank, "ncclCommInitRank");
  file_.load(destroy, "ncclCommDestroy");
  file_.load(abort, "ncclCommAbort");
  file_.load(async_error, "ncclCommGetAsyncError");
  file_.load(error_string, "ncclGetErrorString");
  file_.load(last_error, "ncclGetLastError");
  file_.load(group_start, "ncclGroupStart");
  file_.load(group_end, "ncclGroupEnd");
  file_.load(send, "ncclSend");
  file_.load(receive, "ncclRecv");
  file_.load(broadcast, "ncclBroadcast");
}

std::string Library::version() const {
  int number = 0;
  check(get_version(&number), "asking for its version");
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

void check(Result result, const char* doing, Comm comm) {
  if (result == kSuccess) return;
  const Library& library = Library::instance();
  throw std::runtime_error(fmt::format("NCCL error while {}: {} ({})", doing,
                                       library.error_string(result), library.last_error(comm)));
}

}  // namespace tessera::nccl
