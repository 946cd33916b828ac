// The library itself in the C interface: version, threads, stop flag, GPU, the program.

#include "experiments/backends/backend.hpp"
#include "experiments/verbs/program.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/stop.hpp"
#include "kernels/abi/guarded.hpp"

using namespace tessera;
using abi::guarded;

int32_t tessera_abi_version() { return TESSERA_ABI_VERSION; }

const char* tessera_version() {
  static const std::string kText = version_text();
  return kText.c_str();
}

tessera_status tessera_set_threads(int32_t threads) {
  return guarded([&] {
    require(threads >= 0, "{} threads: it takes 1 or more, or 0 for the default", threads);
    set_num_threads(threads);
  });
}

void tessera_set_stop(const volatile int32_t* flag) { set_stop_flag(flag); }

int32_t tessera_has_gpu() {
  std::string reason;
  const tessera_status status = guarded([&] { reason = find_backend("gpu").missing; });
  if (status == TESSERA_OK && reason.empty()) return 1;
  if (status == TESSERA_OK) abi::set_last_error(reason.c_str());
  return 0;
}

int32_t tessera_main(int32_t argc, char** argv) { return program_main(argc, argv); }
