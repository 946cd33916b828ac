// The operators of torch.ops.tessera: their schemas and their implementations on CPU and CUDA.
//
// A call goes from torch's dispatcher to the plan without Python, without a search among matrices,
// and with no other allocation than that of C. Operators whose names begin with _ have no
// derivative; python/tessera/torch registers derivatives for the others.
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "python/torch_operators/cpu_product.hpp"
#include "python/torch_operators/gpu_order.hpp"
#include "python/torch_operators/operators.hpp"
#include "python/torch_operators/torch_abi.hpp"

namespace tessera::torch_operators {

std::int64_t add(std::shared_ptr<Operator> made);

namespace {

using torch_abi::check;
using torch_abi::Tensor;

struct Types {
  std::int32_t fp16 = aoti_torch_dtype_float16(), bf16 = aoti_torch_dtype_bfloat16(),
               fp32 = aoti_torch_dtype_float32(), fp64 = aoti_torch_dtype_float64(),
               cuda = aoti_torch_device_type_cuda(), cpu = aoti_torch_device_type_cpu();
};
const Types& types() {
  static const Types made;
  return made;
}

/// The arguments of a call, in their order; tensors are taken over.
class Arguments {
 public:
  explicit Arguments(StableIValue* stack) : stack_(stack) {}
  Tensor tensor() { return Tensor(*stack_++); }
  std::int64_t integer() { return std::bit_cast<std::int64_t>(*stack_++); }
  bool boolean() { return (*stack_++ & 0xff) != 0; }
  double real() { return std::bit_cast<double>(*stack_++); }

 private:
  StableIValue* stack_;
};

std::string shape_of(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "a scalar" : text;
}

/// Throws the parts as one message, tensors by their shapes, which are read for it alone.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (condition) [[likely]]
    return;
  std::string message = "tessera: ";
  const auto append = [&](const auto& part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::is_integral_v<Part>)
      message += std::to_string(part);
    else if constexpr (std::is_same_v<Part, Tensor>)
      message += shape_of(part);
    else
      message += part;
  };
  (append(parts), ...);
  throw std::runtime_error(message);
}

void require_device(const char* name, const Tensor& tensor, const Operator& op) {
  require(tensor.device_type() == op.device_type &&
              (op.device_type == types().cpu || tensor.device_index() == op.device_index),
          name, " is on another device than A: move one of them, for instance by A.to(", name,
          ".device)");
}

/// The type of B and C among libtessera's. Throws for any other type.
tessera_type type_of(const char* name, std::int32_t dtype) {
  if (dtype == types().fp32) return TESSERA_FP32;
  if (dtype == types().fp16) return TESSERA_FP16;
  if (dtype == types().bf16) return TESSERA_BF16;
  require(dtype == types().fp64, name, " has to be of float32, float16, bfloat16 or float64");
  return TESSERA_FP64;
}

/// A plan that `find` finds, made when there is none yet. The lock is held before and afterwards,
/// and not while Python makes a plan.
template <class Find>
auto ready(std::unique_lock<std::mutex>& lock, std::int64_t number, Request request, std::int64_t n,
           tessera_type type, void* stream, const Find& find) {
  auto* plan = find();
  if (plan != nullptr) return plan;
  lock.unlock();
  require(!is_capturing(stream), "a CUDA graph is being captured, and there is no plan for B of ",
          n, " columns yet: run the same product once before the capture");
  ask_for_plan(number, request, n, type);
  lock.lock();
  plan = find();
  require(plan != nullptr, "no plan was made");
  return plan;
}

/// Throws unless the values fit A and a B of the type.
void check_values(const Tensor& values, const Operator& op, tessera_type type) {
  require_device("values", values, op);
  const bool wide = type == TESSERA_FP64;
  require(values.dtype() == (wide ? types().fp64 : types().fp32), "values have to be of ",
          wide ? "float64" : "float32", " for this B");
  require(values.sizes().size() == 1 && values.sizes()[0] == op.nnz, "values are ", values,
          ", but A has ", op.nnz, " nonzeros");
}

/// Whether the matrices of a batch [..., K, N] lie side by side in memory, which then has the shape
/// [K, ..., N]: they are one matrix of all their columns.
bool lie_side_by_side(const Tensor& batch) {
  const std::span<const std::int64_t> sizes = batch.sizes(), strides = batch.strides();
  const std::size_t dims = sizes.size();
  if (dims < 3 || strides[dims - 1] != 1) return false;
  std::int64_t stride = sizes[dims - 1];
  for (std::size_t i = dims - 2; i-- > 0; stride *= sizes[i])
    if (strides[i] != stride) return false;
  return strides[dims - 2] == stride;
}

/// How C of a batch may lie in memory.
enum class Layout {
  kRowMajor,
  kAsB,  // side by side where B does
};

/// A product C = alpha A B + beta C of matrices B and C that begin at an address, without gaps.
struct Multiplication {
  std::shared_ptr<Operator> op;
  std::int64_t number;
  bool transposed;
  tessera_type type;
  Stamp stamp = kUnknown;
  Tensor values = {};         // none: those that the operator holds, and their stamp
  std::int64_t inner, outer;  // rows of B and of C
  std::int64_t n = 0, batches = 1;

  Multiplication(std::int64_t operator_number, bool of_transpose, std::int32_t dtype)
      : op(find(operator_number)),
        number(operator_number),
        transposed(of_transpose),
        type(type_of("B", dtype)),
        inner(transposed ? op->rows : op->cols),
        outer(transposed ? op->cols : op->rows) {}

  void run(const void* b, void* c, double alpha, double beta) {
    if (n == 0 || outer == 0 || batches == 0) return;
    if (op->device_type == types().cpu) return run_on_cpu(b, c, alpha, beta);
    const DeviceGuard guard(op->device_index);
    run_on_gpu(b, c, alpha, beta);
  }

  /// Of matrices that have elements, on the current device.
  void run_on_gpu(const void* b, void* c, double alpha, double beta) {
    if (values.get() == nullptr) require_values(true);
    require(type != TESSERA_FP64, "out cannot be of float64 on a GPU");
    void* stream = current_stream(op->device_index);
    std::unique_lock lock(op->mutex);
    const Request request = transposed ? Request::kTransposedProduct : Request::kProduct;
    Plan* plan = ready(lock, number, request, n, type, stream,
                       [&] { return op->product(transposed, n, type); });
    follow(plan->last, stream);
    plan->last.number = ++op->uses;
    const Tensor& of_a = ready_values();
    if (plan->stamp != stamp || stamp <= 0) set_values(of_a, *plan, stream);
    check_tessera(tessera_spmm_plan_run_batch(plan->plan, batches, b, n, inner * n, c, n, outer * n,
                                              static_cast<float>(alpha), static_cast<float>(beta),
                                              stream));
  }

 private:
  /// The values that the operator holds, unless the call has some. The caller holds the lock, and
  /// as long as it does so the reference is valid.
  const Tensor& ready_values() {
    if (values.get() != nullptr) return values;
    require_values(op->values.get() != nullptr);
    stamp = op->stamp;
    return op->values;
  }
  void require_values(bool are_there) const {
    require(are_there && type != TESSERA_FP64, "A holds no values for this B");
  }

  /// The pattern, and values that stay when the operator gets others.
  torch_cpu::Pattern pattern() {
    std::unique_lock lock(op->mutex);
    if (values.get() == nullptr) values = ready_values().share();
    const Side& side = op->sides[transposed];
    if (!side.made) {
      lock.unlock();
      ask_for_plan(number, Request::kTransposedProduct, 0, type);
      lock.lock();
    }
    return side.pattern;
  }

  void run_on_cpu(const void* b, void* c, double alpha, double beta) {
    const torch_cpu::Pattern of_a = pattern();
    const auto each = [&]<class Real>(const Real* of_b, Real* of_c) {
      const auto* of_values = static_cast<const Real*>(values.data());
      for (std::int64_t i = 0; i < batches; ++i)
        torch_cpu::spmm(of_a, of_values, of_b + i * inner * n, n, of_c + i * outer * n, alpha,
                        beta);
    };
    if (type == TESSERA_FP64) return each(static_cast<const double*>(b), static_cast<double*>(c));
    if (type == TESSERA_FP32) return each(static_cast<const float*>(b), static_cast<float*>(c));
    const bool bf16 = type == TESSERA_BF16;
    std::vector<float> wide_b(batches * inner * n), wide_c(batches * outer * n);
    auto* narrow_c = static_cast<std::uint16_t*>(c);
    torch_cpu::to_float(static_cast<const std::uint16_t*>(b), bf16, std::ssize(wide_b),
                        wide_b.data());
    if (beta != 0) torch_cpu::to_float(narrow_c, bf16, std::ssize(wide_c), wide_c.data());
    each(wide_b.data(), wide_c.data());
    torch_cpu::from_float(wide_c.data(), bf16, std::ssize(wide_c), narrow_c);
  }

  /// Sets the values unless the plan has them. After a graph that sets values, which happens when
  /// it is replayed, nobody knows which ones the plan has.
  void set_values(const Tensor& of_a, Plan& plan, void* stream) {
    const bool captures = is_capturing(stream);
    plan.sets_values_in_graph |= captures;
    if (plan.stamp == stamp && stamp != kUnknown && !plan.sets_values_in_graph) return;
    Tensor in_order;
    if (transposed)
      in_order = torch_abi::call("aten::index_select", of_a.share().release(), StableIValue{0},
                                 op->sides[1].value_indices.share().release());
    const auto* from = static_cast<const float*>((transposed ? in_order : of_a).data());
    check_tessera(tessera_spmm_plan_set_values(plan.plan, from, stream));
    plan.stamp = plan.sets_values_in_graph ? kUnknown : stamp;
  }
};

/// The same of tensors, checked.
struct Product : Multiplication {
  Tensor b;
  bool side_by_side;  // with n columns of all, and one batch

  /// With values of the call.
  Product(Tensor given_values, Tensor given_b, std::int64_t operator_number, bool of_transpose,
          Stamp values_stamp, Layout layout)
      : Product(std::move(given_b), operator_number, of_transpose, layout) {
    values = std::move(given_values).contiguous();
    stamp = values_stamp;
    check_values(values, *op, type);
  }

  /// With those that the operator holds.
  Product(Tensor given_b, std::int64_t operator_number, bool of_transpose, Layout layout)
      : Multiplication(operator_number, of_transpose, given_b.dtype()),
        b(std::move(given_b)),
        side_by_side(layout == Layout::kAsB && lie_side_by_side(b)) {
    if (!side_by_side) b = std::move(b).contiguous();
    const std::span<const std::int64_t> sizes = b.sizes();
    require(sizes.size() >= 2 && sizes[sizes.size() - 2] == inner, "B is ", b, ", but it needs ",
            inner, " rows to be multiplied by A, which is ", outer, " x ", inner);
    n = sizes.back();
    batches = std::accumulate(sizes.begin(), sizes.end() - 2, std::int64_t{1}, std::multiplies{});
    if (side_by_side) n *= std::exchange(batches, 1);
    require_device("B", b, *op);
  }

  Tensor new_c() const {
    const std::span<const std::int64_t> of_b = b.sizes();
    if (of_b.size() == 2)
      return Tensor::empty(std::array{outer, n}, b.dtype(), op->device_type, op->device_index);
    std::vector<std::int64_t> sizes(of_b.begin(), of_b.end());
    sizes[sizes.size() - 2] = outer;
    if (side_by_side)
      return Tensor::empty(sizes, b.strides(), b.dtype(), op->device_type, op->device_index);
    return Tensor::empty(sizes, b.dtype(), op->device_type, op->device_index);
  }

  void run(const Tensor& c, double alpha, double beta) {
    Multiplication::run(b.data(), c.data(), alpha, beta);
  }
};

/// The product in a new tensor.
Tensor result_of(Product& product) {
  Tensor c = product.new_c();
  if (product.op->nnz == 0) return torch_abi::call("aten::zero_", c.release());
  product.run(c, 1, 0);
  return c;
}

// spmm(Tensor values, Tensor b, int number, int rows, bool transposed, int stamp) -> Tensor
template <Layout layout>
void spmm(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor values = given.tensor(), b = given.tensor();
  const std::int64_t number = given.integer();
  const std::int64_t rows = given.integer();
  const bool transposed = given.boolean();
  Product product(std::move(values), std::move(b), number, transposed, given.integer(), layout);
  require(rows == product.outer, "the operator has ", product.outer, " rows, not ", rows);
  if (product.type == TESSERA_FP64 && product.op->device_type == types().cuda) {
    stack[0] = torch_abi::call("tessera::_spmm_fp64", product.values.release(), product.b.release(),
                               std::bit_cast<StableIValue>(number), StableIValue{transposed})
                   .release();
    return;
  }
  stack[0] = result_of(product).release();
}

// _multiply(Tensor b, int side) -> Tensor
// side: the operator's number for A, and its negative for A^T. With the values that the operator
// holds: a third of the arguments, each of which costs the host a tenth of a microsecond.
void multiply(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor b = given.tensor();
  const std::int64_t side = given.integer();
  Product product(std::move(b), std::abs(side), side < 0, Layout::kAsB);
  stack[0] = result_of(product).release();
}

// _hold_values(Tensor values, int number, int stamp) -> ()
void hold_values(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor values = given.tensor();
  const std::shared_ptr<Operator> op = find(given.integer());
  check_values(values, *op, TESSERA_FP32);
  require(values.is_contiguous(), "values have gaps");
  const std::lock_guard lock(op->mutex);
  std::swap(op->values, values);
  op->stamp = given.integer();
}

// _spmm_out(Tensor values, Tensor b, Tensor(a!) c, int number, bool transposed, int stamp,
//           float alpha, float beta) -> ()
void spmm_out(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor values = given.tensor(), b = given.tensor(), c = given.tensor();
  const std::int64_t number = given.integer();
  const bool transposed = given.boolean();
  Product product(std::move(values), std::move(b), number, transposed, given.integer(),
                  Layout::kRowMajor);
  require_device("out", c, *product.op);
  require(c.is_contiguous() && c.dtype() == product.b.dtype(),
          "out has to be contiguous and of the type of B");
  std::vector<std::int64_t> sizes(product.b.sizes().begin(), product.b.sizes().end());
  sizes[sizes.size() - 2] = product.outer;
  require(std::ranges::equal(c.sizes(), sizes), "out is ", c, ", but the product has ",
          product.outer, " rows and ", product.n, " columns");
  const double alpha = given.real();
  product.run(c, alpha, given.real());
}

/// Sampled products X Y^T at A's nonzeros, checked.
struct Samples {
  std::shared_ptr<Operator> op;
  std::int64_t number;
  Tensor x, y;
  tessera_type type;
  std::int64_t depth;

  Samples(Tensor given_x, Tensor given_y, std::int64_t operator_number)
      : op(find(operator_number)),
        number(operator_number),
        x(std::move(given_x).contiguous()),
        y(std::move(given_y).contiguous()),
        type(type_of("X", x.dtype())) {
    require_device("X", x, *op);
    require_device("Y", y, *op);
    require(x.dtype() == y.dtype(), "X and Y have different types");
    const auto of_x = x.sizes(), of_y = y.sizes();
    require(of_x.size() == 2 && of_y.size() == 2 && of_x[0] == op->rows && of_y[0] == op->cols &&
                of_x[1] == of_y[1],
            "X is ", x, " and Y is ", y, ", but A, which is ", op->rows, " x ", op->cols,
            ", needs X with ", op->rows, " and Y with ", op->cols,
            " rows, and as many columns in each");
    depth = of_x[1];
  }

  void run_on_cpu(const Tensor& out, bool wide) {
    const torch_cpu::Pattern& pattern = op->sides[0].pattern;
    const auto each = [&]<class Real>(const Real* of_x, const Real* of_y, Real* to) {
      torch_cpu::sddmm(pattern, of_x, of_y, depth, to);
    };
    if (type == TESSERA_FP64)
      return each(static_cast<const double*>(x.data()), static_cast<const double*>(y.data()),
                  static_cast<double*>(out.data()));
    if (type == TESSERA_FP32)
      return each(static_cast<const float*>(x.data()), static_cast<const float*>(y.data()),
                  static_cast<float*>(out.data()));
    const bool bf16 = type == TESSERA_BF16;
    std::vector<float> wide_x(op->rows * depth), wide_y(op->cols * depth);
    std::vector<float> sums(wide ? 0 : op->nnz);
    torch_cpu::to_float(static_cast<const std::uint16_t*>(x.data()), bf16, std::ssize(wide_x),
                        wide_x.data());
    torch_cpu::to_float(static_cast<const std::uint16_t*>(y.data()), bf16, std::ssize(wide_y),
                        wide_y.data());
    each(wide_x.data(), wide_y.data(), wide ? static_cast<float*>(out.data()) : sums.data());
    if (!wide)
      torch_cpu::from_float(sums.data(), bf16, op->nnz, static_cast<std::uint16_t*>(out.data()));
  }

  void run_on_gpu(const Tensor& out, bool wide) {
    const DeviceGuard guard(op->device_index);
    void* stream = current_stream(op->device_index);
    std::unique_lock lock(op->mutex);
    const Request request = wide ? Request::kWideSamples : Request::kSamples;
    SampledPlan* plan = ready(lock, number, request, depth, type, stream,
                              [&] { return op->sampled(wide, depth, type); });
    follow(plan->last, stream);
    plan->last.number = ++op->uses;
    check_tessera(tessera_sddmm_plan_run(plan->plan, x.data(), y.data(), out.data(), stream));
  }
};

// sddmm(Tensor x, Tensor y, int number, int nnz, bool wide) -> Tensor
// wide: FP16 and BF16 give FP32, as the gradient of values needs.
void sddmm(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor x = given.tensor(), y = given.tensor();
  const std::int64_t number = given.integer();
  Samples samples(std::move(x), std::move(y), number);
  const std::int64_t nnz = given.integer();
  require(nnz == samples.op->nnz, "A has ", samples.op->nnz, " nonzeros, not ", nnz);
  const Operator& op = *samples.op;
  const bool narrow = samples.type == TESSERA_FP16 || samples.type == TESSERA_BF16;
  const bool wide = given.boolean() && narrow;
  if (op.device_type == types().cuda && samples.type == TESSERA_FP64) {
    stack[0] = torch_abi::call("tessera::_sddmm_fp64", samples.x.release(), samples.y.release(),
                               std::bit_cast<StableIValue>(number))
                   .release();
    return;
  }
  Tensor out = Tensor::empty(std::array{nnz}, wide ? types().fp32 : samples.x.dtype(),
                             op.device_type, op.device_index);
  if (nnz == 0 || samples.depth == 0)
    out = torch_abi::call("aten::zero_", out.release());
  else if (op.device_type == types().cpu)
    samples.run_on_cpu(out, wide);
  else
    samples.run_on_gpu(out, wide);
  stack[0] = out.release();
}

/// Keeps the arrays of A or A^T.
void keep(Side& side, Tensor row_offsets, Tensor col_indices, Tensor value_indices,
          std::int64_t rows, std::int64_t cols, std::int64_t nnz) {
  side.row_offsets = std::move(row_offsets);
  side.col_indices = std::move(col_indices);
  side.value_indices = std::move(value_indices);
  side.pattern = {.rows = rows,
                  .cols = cols,
                  .nnz = nnz,
                  .row_offsets = static_cast<const std::int64_t*>(side.row_offsets.data()),
                  .col_indices = static_cast<const std::int32_t*>(side.col_indices.data())};
  if (side.value_indices.get() != nullptr)
    side.pattern.value_indices = static_cast<const std::int64_t*>(side.value_indices.data());
  side.made = true;
}

// _new_operator(Tensor row_offsets, Tensor col_indices, int cols) -> int
// The caller has checked the arrays: int64 [rows + 1] and int32 [nnz], contiguous, of one device.
void new_operator(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor row_offsets = given.tensor(), col_indices = given.tensor();
  auto made = std::make_shared<Operator>();
  made->rows = row_offsets.sizes()[0] - 1;
  made->cols = given.integer();
  made->nnz = col_indices.sizes()[0];
  made->device_type = row_offsets.device_type();
  made->device_index = made->device_type == types().cuda ? row_offsets.device_index() : 0;
  keep(made->sides[0], std::move(row_offsets), std::move(col_indices), {}, made->rows, made->cols,
       made->nnz);
  stack[0] = std::bit_cast<StableIValue>(add(std::move(made)));
}

// _set_transpose(Tensor row_offsets, Tensor col_indices, Tensor value_indices, int number) -> ()
void set_transpose(StableIValue* stack, std::uint64_t, std::uint64_t) {
  Arguments given(stack);
  Tensor row_offsets = given.tensor(), col_indices = given.tensor();
  Tensor value_indices = given.tensor();
  const std::shared_ptr<Operator> op = find(given.integer());
  const std::lock_guard lock(op->mutex);
  if (!op->sides[1].made)
    keep(op->sides[1], std::move(row_offsets), std::move(col_indices), std::move(value_indices),
         op->cols, op->rows, op->nnz);
}

using Boxed = void (*)(StableIValue*, std::uint64_t, std::uint64_t);

/// Registers all operators while the library is loaded. The handles live as long as the process.
const bool registered = [] {
  TorchLibraryHandle schemas = nullptr;
  check(aoti_torch_library_init_fragment("tessera", __FILE__, __LINE__, &schemas),
        "beginning the library tessera");
  constexpr const char* kSpmm =
      "spmm(Tensor values, Tensor b, int number, int rows, bool transposed, int stamp) -> Tensor";
  constexpr const char* kSddmm =
      "sddmm(Tensor x, Tensor y, int number, int nnz, bool wide) -> Tensor";
  for (const std::string& schema :
       {std::string(kSpmm), std::string("_") + kSpmm, std::string(kSddmm),
        std::string("_") + kSddmm,
        std::string("_spmm_out(Tensor values, Tensor b, Tensor(a!) c, int number, bool transposed, "
                    "int stamp, float alpha, float beta) -> ()"),
        std::string("_multiply(Tensor b, int side) -> Tensor"),
        std::string("_hold_values(Tensor values, int number, int stamp) -> ()"),
        std::string("_new_operator(Tensor row_offsets, Tensor col_indices, int cols) -> int"),
        std::string("_set_transpose(Tensor row_offsets, Tensor col_indices, Tensor value_indices, "
                    "int number) -> ()")})
    check(aoti_torch_library_def(schemas, schema.c_str()), "defining an operator");
  for (const char* device : {"CPU", "CUDA"}) {
    TorchLibraryHandle library = nullptr;
    check(aoti_torch_library_init_impl("tessera", device, __FILE__, __LINE__, &library),
          "beginning a device's library");
    const auto implement = [&](const char* name, Boxed function) {
      check(torch_library_impl(library, name, function, torch_abi::kVersion),
            "implementing an operator");
    };
    implement("spmm", spmm<Layout::kRowMajor>);  // of compiled functions, whose fakes say so
    implement("_spmm", spmm<Layout::kAsB>);
    implement("_spmm_out", spmm_out);
    implement("_multiply", multiply);
    implement("_hold_values", hold_values);
    implement("_new_operator", new_operator);
    implement("_set_transpose", set_transpose);
    implement("sddmm", sddmm);
    implement("_sddmm", sddmm);
  }
  return true;
}();

}  // namespace
}  // namespace tessera::torch_operators

/// What _multiply does, called by _gradients.cpp without torch's dispatcher. `b` is a handle that
/// is taken over. Null: it failed, and the text says why.
extern "C" __attribute__((visibility("default"))) void* tessera_torch_multiply(
    void* b, std::int64_t side, char* error, std::int64_t error_size) try {
  using namespace tessera::torch_operators;
  Product product(Tensor(static_cast<AtenTensorHandle>(b)), std::abs(side), side < 0, Layout::kAsB);
  return reinterpret_cast<void*>(result_of(product).release());
} catch (const std::exception& failure) {
  std::snprintf(error, static_cast<std::size_t>(error_size), "%s", failure.what());
  return nullptr;
}

/// The same for a B [rows x n] without gaps at an address, on the current device, whose C is at
/// new_c(context, rows of C); `dtype` is torch's. Returns 0; 1 where the product is none of these
/// or has no elements, and new_c was not called; 2 where it failed, and the text says why.
extern "C" __attribute__((visibility("default"))) std::int32_t tessera_torch_multiply_plain(
    const void* b, std::int64_t rows, std::int64_t n, std::int32_t dtype, std::int32_t device_index,
    std::int64_t side, void* (*new_c)(void* context, std::int64_t rows), void* context, char* error,
    std::int64_t error_size) try {
  using namespace tessera::torch_operators;
  Multiplication product(std::abs(side), side < 0, dtype);
  const Operator& op = *product.op;
  product.n = n;
  if (op.device_type != types().cuda || op.device_index != device_index || rows != product.inner ||
      n == 0 || op.nnz == 0)
    return 1;
  void* c = new_c(context, product.outer);
  if (c == nullptr) throw std::runtime_error("no memory");
  product.run_on_gpu(b, c, 1, 0);
  return 0;
} catch (const std::exception& failure) {
  std::snprintf(error, static_cast<std::size_t>(error_size), "%s", failure.what());
  return 2;
}
