// The derivative of C = A B for B as a node of torch's autograd in C++.
//
// It is what _autograd.py has in Python, without Python: forward and backward then take the host
// about as long as those of torch's own operators. A node needs torch's C++ interface, which is not
// stable: `python3 -m tessera.torch.build` compiles this file for the torch that is installed, and
// only that version loads it.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace {

using torch::autograd::variable_list;

/// The functions of libtessera_torch that a node calls (python/torch_operators/operators.cpp).
struct Operators {
  void* (*keep)(std::int64_t number, void** values, std::int64_t* stamp);
  std::int32_t (*holds)(const void* kept, std::int64_t stamp);
  void (*release)(void* kept);
};
Operators operators;

at::Tensor multiply(const at::Tensor& b, std::int64_t side) {
  static const auto found = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("tessera::_multiply", "")
                                .typed<at::Tensor(const at::Tensor&, std::int64_t)>();
  const at::AutoDispatchBelowADInplaceOrView below;
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

}  // namespace

/// Called once, when the library has been loaded.
extern "C" __attribute__((visibility("default"))) void tessera_gradients_use(
    const Operators* functions) {
  operators = *functions;
}
