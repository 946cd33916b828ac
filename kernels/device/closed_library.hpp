// A vendor's shared library, loaded when first asked for: the program starts on hosts without it,
// and only its header is needed to build.
#pragma once

#include <dlfcn.h>

#include <string>

#include "formats/base/check.hpp"

namespace tessera {

class ClosedLibrary {
 public:
  /// `file` as the loader finds it, or else in CUDA's usual folder. Throws Unsupported where it is
  /// in neither.
  explicit ClosedLibrary(std::string file) : file_(std::move(file)) {
    handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
      handle_ = dlopen(("/usr/local/cuda/lib64/" + file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    require<Unsupported>(handle_ != nullptr, "{} is not on this machine", file_);
  }

  /// The function of that name, which `function` is made to point to; Unsupported if there is none.
  template <class F>
  void load(F& function, const char* name) const {
    function = reinterpret_cast<F>(dlsym(handle_, name));
    require<Unsupported>(function != nullptr, "this machine's {} has no {}", file_, name);
  }

 private:
  std::string file_;
  void* handle_;  // never closed: a library that has started threads does not like it
};

}  // namespace tessera
