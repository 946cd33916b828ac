// A vendor's shared library, loaded at its first use: the program starts on hosts without it, and
// building needs only its header.
#pragma once

#include <dlfcn.h>

#include <string>

#include "formats/base/check.hpp"

namespace tessera {

class ClosedLibrary {
 public:
  /// Loads `file` from the loader's search path or from CUDA's usual folder. Throws Unsupported
  /// when it is in neither.
  explicit ClosedLibrary(std::string file) : file_(std::move(file)) {
    handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
      handle_ = dlopen(("/usr/local/cuda/lib64/" + file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    require<Unsupported>(handle_ != nullptr, "{} is not on this machine", file_);
  }

  /// Points `function` to the library's function of that name. Throws Unsupported if there is none.
  template <class F>
  void load(F& function, const char* name) const {
    function = reinterpret_cast<F>(dlsym(handle_, name));
    require<Unsupported>(function != nullptr, "this machine's {} has no {}", file_, name);
  }

 private:
  std::string file_;
  void* handle_;  // never closed: a library may have threads running
};

}  // namespace tessera
