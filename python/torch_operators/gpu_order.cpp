#include "python/torch_operators/gpu_order.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace tessera::torch_operators {
namespace {

/// A function of a library that is already loaded. Throws where there is none.
template <class Function>
Function* find_function(const char* library, const char* name) {
  void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void* found = loaded == nullptr ? nullptr : dlsym(loaded, name);
  if (found == nullptr)
    throw std::runtime_error(std::string(library) + " with the function " + name +
                             " is not loaded: this torch has no CUDA");
  return reinterpret_cast<Function*>(found);
}

/// The functions of CUDA's driver, by their declarations in cuda.h.
struct Driver {
  static constexpr const char* kLibrary = "libcuda.so.1";
  int (*is_capturing)(void* stream,
                      int* status) = find_function<int(void*, int*)>(kLibrary,
                                                                     "cuStreamIsCapturing");
  int (*create_event)(void** event,
                      unsigned flags) = find_function<int(void**, unsigned)>(kLibrary,
                                                                             "cuEventCreate");
  int (*destroy_event)(void* event) = find_function<int(void*)>(kLibrary, "cuEventDestroy_v2");
  int (*record)(void* event, void* stream) = find_function<int(void*, void*)>(kLibrary,
                                                                              "cuEventRecord");
  int (*wait)(void* stream, void* event,
              unsigned flags) = find_function<int(void*, void*, unsigned)>(kLibrary,
                                                                           "cuStreamWaitEvent");
  int (*synchronize)(void* stream) = find_function<int(void*)>(kLibrary, "cuStreamSynchronize");
  int (*get_context)(void** context) = find_function<int(void**)>(kLibrary, "cuCtxGetCurrent");
  int (*set_context)(void* context) = find_function<int(void*)>(kLibrary, "cuCtxSetCurrent");
  int (*retain)(void** context,
                int device) = find_function<int(void**, int)>(kLibrary, "cuDevicePrimaryCtxRetain");

  /// Gives this thread a context where the runtime has not done so yet, as in a thread of autograd
  /// that has only used memory from torch's cache.
  static const Driver& instance() {
    static const Driver driver;
    void* context = nullptr;
    if (driver.get_context(&context) == 0 && context == nullptr) {
      std::int32_t device = 0;
      torch_abi::check(aoti_torch_get_current_device_index(&device), "getting the current device");
      if (driver.retain(&context, device) == 0) driver.set_context(context);
    }
    return driver;
  }
};

void check_driver(int error, const char* what) {
  if (error != 0)
    throw std::runtime_error("CUDA's driver failed with error " + std::to_string(error) + " at " +
                             what);
}

}  // namespace

void* current_stream(std::int32_t device_index) {
  static const auto get = find_function<AOTITorchError(std::int32_t, void**)>(
      "libtorch_cuda.so", "aoti_torch_get_current_cuda_stream");
  void* stream = nullptr;
  torch_abi::check(get(device_index, &stream), "getting the current stream");
  return stream;
}

bool is_capturing(void* stream) {
  int status = 0;
  check_driver(Driver::instance().is_capturing(stream, &status), "asking for a capture");
  return status != 0;
}

void follow(LastUse& last, void* stream) {
  if (last.used && last.stream == stream && !last.captured) return;
  const bool captures = is_capturing(stream);
  last.captured |= captures;
  if (last.used && last.stream != stream && !captures && !is_capturing(last.stream)) {
    const Driver& driver = Driver::instance();
    constexpr unsigned kWithoutTiming = 2;
    void* event = nullptr;
    check_driver(driver.create_event(&event, kWithoutTiming), "creating an event");
    const int recorded = driver.record(event, last.stream);
    const int waits = recorded == 0 ? driver.wait(stream, event, 0) : recorded;
    driver.destroy_event(event);  // the driver keeps it until it has passed
    check_driver(waits, "waiting for the last product of another stream");
  }
  last.used = true;
  last.stream = stream;
}

void wait_for(const LastUse& last) {
  if (last.used) Driver::instance().synchronize(last.stream);
}

DeviceGuard::DeviceGuard(std::int32_t device_index) {
  std::int32_t current = 0;
  torch_abi::check(aoti_torch_get_current_device_index(&current), "getting the current device");
  if (current != device_index)
    torch_abi::check(aoti_torch_create_device_guard(device_index, &guard_),
                     "changing the current device");
}

DeviceGuard::~DeviceGuard() {
  if (guard_ != nullptr) aoti_torch_delete_device_guard(guard_);
}

}  // namespace tessera::torch_operators
