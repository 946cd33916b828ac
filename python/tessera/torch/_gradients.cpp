// The usual call of C = A B and its derivative for B, as a node of torch's autograd, in C++.
//
// It is what operator.py and _autograd.py have in Python, without Python and, where nothing else
// would happen on the way, without torch's dispatcher: a call then takes the host little more than
// C's memory and the launch. It needs torch's C++ interface, which is not stable, and that of
// Python: `python3 -m tessera.torch.build` compiles this file for those that are installed, and
// only these versions load it.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>
#include <torch/version.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>

/// torch's own, in libtorch_cuda, which a torch without CUDA lacks: the address is then null.
namespace at::detail {
__attribute__((weak)) TensorBase empty_cuda(IntArrayRef size, ScalarType dtype,
                                            std::optional<Device> device,
                                            std::optional<c10::MemoryFormat> format);
}

namespace {

using torch::autograd::variable_list;

/// The functions of libtessera_torch that are called here (python/torch_operators).
struct Operators {
  void* (*keep)(std::int64_t number, void** values, std::int64_t* stamp);
  std::int32_t (*holds)(const void* kept, std::int64_t stamp);
  void (*release)(void* kept);
  void* (*multiply)(void* b, std::int64_t side, char* error, std::int64_t error_size);
  std::int32_t (*multiply_plain)(const void* b, std::int64_t rows, std::int64_t n,
                                 std::int32_t dtype, std::int32_t device_index, std::int64_t side,
                                 void* (*new_c)(void* context, std::int64_t rows), void* context,
                                 char* error, std::int64_t error_size);
};
Operators operators;

/// Whether torch's dispatcher would call the operator of a CPU or GPU and nothing else but a
/// derivative: no mode or subclass in Python, transform, trace, autocast or profiler.
bool goes_straight(const at::Tensor& b) {
  constexpr c10::DispatchKeySet of_derivatives =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
  const auto of_thread = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet keys =
      ((b.key_set() | of_thread.included_) - of_thread.excluded_) - of_derivatives;
  return (keys == c10::DispatchKeySet(c10::DispatchKey::CUDA) ||
          keys == c10::DispatchKeySet(c10::DispatchKey::CPU)) &&
         !at::hasCallbacks() && !b._fw_grad(0).defined();
}

/// C of a product, made once the number of its rows is known.
struct NewC {
  const at::Tensor& b;
  at::Tensor c = {};
  std::exception_ptr failure = {};

  /// Where it begins; null: there is a failure.
  void* make(std::int64_t rows) noexcept {
    try {
      c = at::detail::empty_cuda({rows, b.size(1)}, b.scalar_type(), b.device(), std::nullopt);
      return c.mutable_data_ptr();
    } catch (...) {
      failure = std::current_exception();
      return nullptr;
    }
  }
};

/// The product of a B without gaps on a GPU, in memory that torch gives without its dispatcher;
/// undefined for any other.
at::Tensor multiply_plain(const at::Tensor& b, std::int64_t side) {
  if (at::detail::empty_cuda == nullptr || !b.is_cuda() || b.dim() != 2 || !b.is_contiguous())
    return {};
  const c10::DeviceGuard guard(b.device());
  NewC made{b};
  std::array<char, 4096> error;
  constexpr std::int32_t kDone = 0, kFailed = 2;
  const std::int32_t result = operators.multiply_plain(
      b.const_data_ptr(), b.size(0), b.size(1), static_cast<std::int32_t>(b.scalar_type()),
      b.device().index(), side,
      [](void* context, std::int64_t rows) { return static_cast<NewC*>(context)->make(rows); },
      &made, error.data(), std::ssize(error));
  if (made.failure) std::rethrow_exception(made.failure);
  if (result == kFailed) throw std::runtime_error(error.data());
  return result == kDone ? std::move(made.c) : at::Tensor();
}

/// A product without the dispatcher.
at::Tensor multiply_straight(const at::Tensor& b, std::int64_t side) {
  if (at::Tensor c = multiply_plain(b, side); c.defined()) return c;
  std::array<char, 4096> error;
  const std::unique_ptr<at::Tensor> c(static_cast<at::Tensor*>(  // what a handle is
      operators.multiply(new at::Tensor(b), side, error.data(), std::ssize(error))));
  if (c == nullptr) throw std::runtime_error(error.data());
  return std::move(*c);
}

at::Tensor multiply(const at::Tensor& b, std::int64_t side) {
  const at::AutoDispatchBelowADInplaceOrView below;
  if (goes_straight(b)) return multiply_straight(b, side);
  static const auto found = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("tessera::_multiply", "")
                                .typed<at::Tensor(const at::Tensor&, std::int64_t)>();
  return found.call(b, side);
}

at::Tensor multiply_with_gradient(const at::Tensor& b, std::int64_t side);

/// A product with values that are given, differentiable.
at::Tensor spmm(const at::Tensor& values, const at::Tensor& b, std::int64_t number,
                std::int64_t rows, bool transposed) {
  using Spmm = at::Tensor(const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t, bool,
                          std::int64_t);
  static const auto found =
      c10::Dispatcher::singleton().findSchemaOrThrow("tessera::spmm", "").typed<Spmm>();
  constexpr std::int64_t kAlwaysSet = 0;
  return found.call(values, b, number, rows, transposed, kAlwaysSet);
}

/// Keeps the operator of a product, and the values that it held.
class Kept {
 public:
  explicit Kept(std::int64_t number) {
    void* held = nullptr;
    operator_ = operators.keep(number, &held, &stamp_);
    TORCH_CHECK(operator_ != nullptr, "tessera: operator ", number,
                " does not exist any more, or holds no values");
    values_.reset(static_cast<at::Tensor*>(held));  // what a handle is
    version_ = values_->_version();
  }
  ~Kept() { operators.release(operator_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  const at::Tensor& values() const { return *values_; }
  bool changed() const { return values_->_version() != version_; }
  bool replaced() const { return operators.holds(operator_, stamp_) == 0; }

 private:
  void* operator_;
  std::int64_t stamp_ = 0;
  std::unique_ptr<at::Tensor> values_;
  std::int64_t version_ = 0;
};

struct MultiplyBackward final : torch::autograd::Node {
  std::int64_t side, rows;  // rows: of B
  Kept kept;

  MultiplyBackward(std::int64_t of_product, std::int64_t rows_of_b)
      : side(of_product), rows(rows_of_b), kept(std::abs(of_product)) {}

  std::string name() const override { return "TesseraMultiplyBackward"; }

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& gradient = gradients[0];
    if (!gradient.defined()) return {at::Tensor()};
    TORCH_CHECK(!kept.changed(),
                "tessera.torch: A's values have been changed in place since the product whose "
                "gradient is asked for");
    if (kept.replaced()) return {spmm(kept.values(), gradient, std::abs(side), rows, side > 0)};
    return {multiply_with_gradient(gradient, -side)};
  }
};

/// A node, which counts its owners itself from torch 2.13 on.
auto new_node(std::int64_t side, std::int64_t rows_of_b) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
  return c10::make_intrusive<MultiplyBackward>(side, rows_of_b);
#else
  return std::shared_ptr<MultiplyBackward>(new MultiplyBackward(side, rows_of_b),
                                           torch::autograd::deleteNode);
#endif
}

at::Tensor multiply_with_gradient(const at::Tensor& b, std::int64_t side) {
  if (!b.requires_grad() || !at::GradMode::is_enabled()) return multiply(b, side);
  TORCH_CHECK_NOT_IMPLEMENTED(!b._fw_grad(0).defined(),
                              "tessera.torch: products have no derivative in forward mode");
  at::Tensor c = multiply(b, side);
  const auto node = new_node(side, b.size(-2));
  node->set_next_edges(torch::autograd::collect_next_edges(b));
  torch::autograd::set_history(c, node);
  return c;
}

TORCH_LIBRARY_FRAGMENT(tessera, library) {
  library.def("_multiply_with_gradient(Tensor b, int side) -> Tensor");
}
TORCH_LIBRARY_IMPL(tessera, Autograd, library) {
  library.impl("_multiply_with_gradient", multiply_with_gradient);
}
TORCH_LIBRARY_IMPL(tessera, CompositeExplicitAutograd, library) {
  library.impl("_multiply_with_gradient", multiply);
}

/// The values that products are ready for, as SparseOperator keeps them: (store, values, version,
/// number of the operator), where store["values"] are the operator's values now.
struct Ready {
  PyObject *store, *values;
  std::int64_t version, number;

  explicit Ready(PyObject* tuple)
      : store(PyTuple_GET_ITEM(tuple, 0)),
        values(PyTuple_GET_ITEM(tuple, 1)),
        version(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 2))),
        number(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 3))) {}

  /// Whether they are the operator's, unchanged, and want no gradient.
  bool is_now() const {
    static PyObject* const name = PyUnicode_InternFromString("values");
    if (number == 0 || PyDict_GetItemWithError(store, name) != values) return false;
    const at::Tensor& tensor = THPVariable_Unpack(values);
    return tensor._version() == version && !tensor.requires_grad();
  }
};

/// Lets other threads of Python run.
class OthersRun {
 public:
  OthersRun() = default;
  ~OthersRun() { PyEval_RestoreThread(own_); }
  OthersRun(const OthersRun&) = delete;
  OthersRun& operator=(const OthersRun&) = delete;

 private:
  PyThreadState* own_ = PyEval_SaveThread();
};

// multiply(b, ready, transposed) -> C, or None where the call is not the usual one
PyObject* usual_multiply(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(count == 3 && PyTuple_Check(given[1]) && PyTuple_GET_SIZE(given[1]) == 4,
              "multiply takes b, ready and transposed");
  if (!THPVariable_CheckExact(given[0]) || at::impl::torch_function_mode_enabled()) Py_RETURN_NONE;
  const at::Tensor& b = THPVariable_Unpack(given[0]);
  const Ready ready(given[1]);
  if (!ready.is_now() || b.dim() < 2 || b.scalar_type() == at::kDouble || !goes_straight(b))
    Py_RETURN_NONE;
  const std::int64_t side = given[2] == Py_True ? -ready.number : ready.number;
  at::Tensor c;
  {
    const OthersRun others_run;
    c = multiply_with_gradient(b, side);
  }
  return THPVariable_Wrap(std::move(c));
  END_HANDLE_TH_ERRORS
}

PyMethodDef functions_in_python[] = {
    {"multiply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(usual_multiply)),
     METH_FASTCALL, nullptr},
    {}};
PyModuleDef module_in_python = {PyModuleDef_HEAD_INIT, "_gradients", nullptr, -1,
                                functions_in_python};

}  // namespace

/// Called once, when the library has been loaded.
extern "C" __attribute__((visibility("default"))) void tessera_gradients_use(
    const Operators* functions) {
  operators = *functions;
}

PyMODINIT_FUNC PyInit__gradients() { return PyModule_Create(&module_in_python); }
