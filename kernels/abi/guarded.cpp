#include "kernels/abi/guarded.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "formats/base/stop.hpp"
#include "kernels/abi/device_error.hpp"

namespace tessera::abi {
namespace {

thread_local std::string last_error;

}  // namespace

void set_last_error(const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
}

tessera_status status_of_exception() noexcept {
  const auto told = [](tessera_status status, const char* text) {
    set_last_error(text);
    return status;
  };
  try {
    throw;
  } catch (const Stopped& stopped) {
    return told(TESSERA_STOPPED, stopped.what());
  } catch (const Unsupported& error) {
    return told(TESSERA_UNSUPPORTED, error.what());
  } catch (const OutOfMemory& error) {
    return told(TESSERA_OUT_OF_MEMORY, error.what());
  } catch (const Error& error) {
    return told(TESSERA_INVALID, error.what());
  } catch (const DeviceError& error) {
    return told(TESSERA_DEVICE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return told(TESSERA_OUT_OF_MEMORY, "this machine has too little memory for the call");
  } catch (const std::exception& error) {
    return told(TESSERA_INTERNAL, error.what());
  } catch (...) {
    return told(TESSERA_INTERNAL, "an exception of an unknown type");
  }
}

char* text_of(const nlohmann::json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace tessera::abi

const char* tessera_last_error() { return tessera::abi::last_error.c_str(); }
void tessera_free(char* text) { std::free(text); }
