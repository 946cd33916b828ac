// The part of LibTorch's stable C interface that the operators use, and a tensor that owns its
// handle.
//
// The functions and their meaning are those of torch/csrc/inductor/aoti_torch/c/shim.h and
// torch/csrc/stable/c/shim.h, as of PyTorch 2.10; PyTorch keeps them from then on. Declared here,
// they make a library that needs neither torch nor its headers when it is built, and one build
// serves every later version. tests/python/torch_abi_test.py compares the declarations with the
// headers of an installed torch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
struct DeviceGuardOpaque;
using DeviceGuardHandle = DeviceGuardOpaque*;
struct TorchLibraryOpaque;
using TorchLibraryHandle = TorchLibraryOpaque*;
using AOTITorchError = std::int32_t;  // 0: success
using StableIValue = std::uint64_t;   // a handle, or the bits of an int64, double or bool
using ParallelFunc = void (*)(std::int64_t begin, std::int64_t end, void* context);

// Every function of torch that is called, as F(result, name, parameters). The stub that the library
// is linked against defines the same list.
#define TESSERA_TORCH_FUNCTIONS(F)                                                           \
  F(std::int32_t, aoti_torch_device_type_cpu, ())                                            \
  F(std::int32_t, aoti_torch_device_type_cuda, ())                                           \
  F(std::int32_t, aoti_torch_dtype_bfloat16, ())                                             \
  F(std::int32_t, aoti_torch_dtype_float16, ())                                              \
  F(std::int32_t, aoti_torch_dtype_float32, ())                                              \
  F(std::int32_t, aoti_torch_dtype_float64, ())                                              \
  F(std::int32_t, aoti_torch_memory_format_contiguous_format, ())                            \
  F(AOTITorchError, aoti_torch_delete_tensor_object, (AtenTensorHandle))                     \
  F(AOTITorchError, aoti_torch_get_data_ptr, (AtenTensorHandle, void**))                     \
  F(AOTITorchError, aoti_torch_get_dim, (AtenTensorHandle, std::int64_t*))                   \
  F(AOTITorchError, aoti_torch_get_sizes, (AtenTensorHandle, std::int64_t**))                \
  F(AOTITorchError, aoti_torch_get_strides, (AtenTensorHandle, std::int64_t**))              \
  F(AOTITorchError, aoti_torch_get_dtype, (AtenTensorHandle, std::int32_t*))                 \
  F(AOTITorchError, aoti_torch_get_device_type, (AtenTensorHandle, std::int32_t*))           \
  F(AOTITorchError, aoti_torch_get_device_index, (AtenTensorHandle, std::int32_t*))          \
  F(AOTITorchError, aoti_torch_is_contiguous, (AtenTensorHandle, bool*))                     \
  F(AOTITorchError, aoti_torch_new_tensor_handle, (AtenTensorHandle, AtenTensorHandle*))     \
  F(AOTITorchError, aoti_torch_empty_strided,                                                \
    (std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t,     \
     std::int32_t, AtenTensorHandle*))                                                       \
  F(AOTITorchError, aoti_torch_get_current_device_index, (std::int32_t*))                    \
  F(AOTITorchError, aoti_torch_create_device_guard, (std::int32_t, DeviceGuardHandle*))      \
  F(AOTITorchError, aoti_torch_delete_device_guard, (DeviceGuardHandle))                     \
  F(AOTITorchError, aoti_torch_library_init_fragment,                                        \
    (const char*, const char*, std::uint32_t, TorchLibraryHandle*))                          \
  F(AOTITorchError, aoti_torch_library_init_impl,                                            \
    (const char*, const char*, const char*, std::uint32_t, TorchLibraryHandle*))             \
  F(AOTITorchError, aoti_torch_library_def, (TorchLibraryHandle, const char*))               \
  F(AOTITorchError, torch_library_impl,                                                      \
    (TorchLibraryHandle, const char*, void (*)(StableIValue*, std::uint64_t, std::uint64_t), \
     std::uint64_t))                                                                         \
  F(AOTITorchError, torch_call_dispatcher,                                                   \
    (const char*, const char*, StableIValue*, std::uint64_t))                                \
  F(AOTITorchError, torch_get_num_threads, (std::uint32_t*))                                 \
  F(AOTITorchError, torch_parallel_for,                                                      \
    (std::int64_t, std::int64_t, std::int64_t, ParallelFunc, void*))

extern "C" {
#define TESSERA_DECLARE(result, name, parameters) result name parameters;
TESSERA_TORCH_FUNCTIONS(TESSERA_DECLARE)
#undef TESSERA_DECLARE
}

namespace tessera::torch_abi {

/// The version of torch whose rules the calls below follow: 2.10.0.
inline constexpr std::uint64_t kVersion = std::uint64_t{2} << 56 | std::uint64_t{10} << 48;

/// Throws where torch reports a failure; torch itself has printed the cause.
inline void check(AOTITorchError error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string("torch failed at ") + what);
}

class Tensor;

/// Calls an operator that takes tensors (their handles are taken over) and integers, and returns a
/// tensor.
template <class... Arguments>
Tensor call(const char* name, Arguments... arguments);

/// A tensor whose handle is deleted with it.
class Tensor {
 public:
  Tensor() = default;
  /// Takes over the handle.
  explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
  explicit Tensor(StableIValue value) : handle_(reinterpret_cast<AtenTensorHandle>(value)) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  /// A new tensor without values, row-major.
  static Tensor empty(std::span<const std::int64_t> sizes, std::int32_t dtype,
                      std::int32_t device_type, std::int32_t device_index) {
    constexpr std::size_t kMostDims = 8;
    if (sizes.size() > kMostDims) throw std::runtime_error("a tensor has more than 8 dimensions");
    std::array<std::int64_t, kMostDims> strides;
    std::int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i] > 0 ? sizes[i] : 1)
      strides[i] = stride;
    return empty(sizes, std::span(strides).first(sizes.size()), dtype, device_type, device_index);
  }

  /// The same with strides.
  static Tensor empty(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                      std::int32_t dtype, std::int32_t device_type, std::int32_t device_index) {
    AtenTensorHandle made = nullptr;
    check(aoti_torch_empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.data(),
                                   strides.data(), dtype, device_type, device_index, &made),
          "allocating a tensor");
    return Tensor(made);
  }

  AtenTensorHandle get() const { return handle_; }
  /// The handle as an argument or result, which takes it over.
  StableIValue release() { return reinterpret_cast<StableIValue>(std::exchange(handle_, nullptr)); }

  void* data() const {
    void* pointer = nullptr;
    check(aoti_torch_get_data_ptr(handle_, &pointer), "reading a tensor's address");
    return pointer;
  }
  std::span<const std::int64_t> sizes() const {
    std::int64_t dim = 0, *sizes = nullptr;
    check(aoti_torch_get_dim(handle_, &dim), "reading a tensor's dimension");
    check(aoti_torch_get_sizes(handle_, &sizes), "reading a tensor's sizes");
    return {sizes, static_cast<std::size_t>(dim)};
  }
  std::span<const std::int64_t> strides() const {
    std::int64_t* strides = nullptr;
    check(aoti_torch_get_strides(handle_, &strides), "reading a tensor's strides");
    return {strides, sizes().size()};
  }
  std::int32_t dtype() const { return get<std::int32_t>(aoti_torch_get_dtype); }
  std::int32_t device_type() const { return get<std::int32_t>(aoti_torch_get_device_type); }
  std::int32_t device_index() const { return get<std::int32_t>(aoti_torch_get_device_index); }
  bool is_contiguous() const { return get<bool>(aoti_torch_is_contiguous); }

  /// One more handle of the same tensor.
  Tensor share() const {
    AtenTensorHandle shared = nullptr;
    check(aoti_torch_new_tensor_handle(handle_, &shared), "sharing a tensor");
    return Tensor(shared);
  }
  /// This tensor when it is contiguous, else a contiguous copy of it.
  Tensor contiguous() &&;

 private:
  template <class Value>
  Value get(AOTITorchError (*read)(AtenTensorHandle, Value*)) const {
    Value value{};
    check(read(handle_, &value), "reading a property of a tensor");
    return value;
  }

  AtenTensorHandle handle_ = nullptr;
};

template <class... Arguments>
Tensor call(const char* name, Arguments... arguments) {
  std::array<StableIValue, sizeof...(Arguments)> stack = {arguments...};
  check(torch_call_dispatcher(name, "", stack.data(), kVersion), name);
  return Tensor(stack[0]);
}

inline Tensor Tensor::contiguous() && {
  if (is_contiguous()) return std::move(*this);
  const auto format = static_cast<std::uint32_t>(aoti_torch_memory_format_contiguous_format());
  return call("aten::contiguous", release(), StableIValue{format});
}

/// Calls body(begin, end) on parts of [0, count), on the threads of torch.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  const auto call = [](std::int64_t begin, std::int64_t end, void* context) {
    (*static_cast<const Body*>(context))(begin, end);
  };
  check(torch_parallel_for(0, count, grain, call, const_cast<Body*>(&body)), "running threads");
}

}  // namespace tessera::torch_abi
