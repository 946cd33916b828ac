#include "python/torch_operators/operators.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

#include "python/torch_operators/gpu_order.hpp"

namespace tessera::torch_operators {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Operator>> operators;  // number i at i - 1; null once deleted
};

/// Lives until the process ends: Python may delete operators after static objects are gone.
Registry& registry() {
  static auto* const made = new Registry;
  return *made;
}

// Writes the cause of a failure, if there is one, into the text and returns 1.
using Planner = std::int32_t (*)(std::int64_t number, std::int32_t request, std::int64_t n,
                                 std::int32_t type, char* error, std::int64_t error_size);
std::atomic<Planner> planner = nullptr;

}  // namespace

std::shared_ptr<Operator> find(std::int64_t number) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const bool known = number >= 1 && number <= std::ssize(all.operators);
  std::shared_ptr<Operator> found = known ? all.operators[number - 1] : nullptr;
  if (!found)
    throw std::runtime_error("tessera: operator " + std::to_string(number) +
                             " does not exist any more; keep its SparseOperator");
  return found;
}

std::int64_t add(std::shared_ptr<Operator> made) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.operators.push_back(std::move(made));
  return std::ssize(all.operators);
}

void ask_for_plan(std::int64_t number, Request request, std::int64_t n, tessera_type type) {
  const Planner ask = planner;
  if (ask == nullptr) throw std::runtime_error("tessera: tessera.torch is not imported");
  std::array<char, 4096> error = {};
  if (ask(number, static_cast<std::int32_t>(request), n, type, error.data(), std::ssize(error)) !=
      0)
    throw std::runtime_error(error.data());
}

void check_tessera(tessera_status status) {
  if (status != TESSERA_OK)
    throw std::runtime_error(std::string("tessera: ") + tessera_last_error());
}

namespace {

void free_plan(tessera_spmm_plan* plan) { tessera_spmm_plan_destroy(plan); }
void free_plan(tessera_sddmm_plan* plan) { tessera_sddmm_plan_destroy(plan); }

template <class AnyPlan>
void destroy(const AnyPlan& plan) {
  wait_for(plan.last);
  free_plan(plan.plan);
}

/// Plans of one kind that an operator keeps. A network has few widths; one that varies with the
/// input would fill the GPU with copies of A.
constexpr std::size_t kMostPlans = 8;

template <class AnyPlan>
void make_room(std::vector<AnyPlan>& plans) {
  if (plans.size() < kMostPlans) return;
  const auto oldest = std::ranges::min_element(plans, {}, [](const AnyPlan& plan) {
    return plan.last.captured ? UINT64_MAX : plan.last.number;  // a graph may run it at any time
  });
  if (oldest->last.captured) return;
  destroy(*oldest);
  plans.erase(oldest);
}

template <class AnyPlan>
AnyPlan* found_in(std::vector<AnyPlan>& plans, const AnyPlan& wanted) {
  for (AnyPlan& plan : plans) {
    if (plan.n != wanted.n || plan.type != wanted.type) continue;
    if constexpr (requires { plan.wide; })
      if (plan.wide != wanted.wide) continue;
    return &plan;
  }
  return nullptr;
}

/// Keeps a plan, unless another thread was faster.
template <class AnyPlan>
void keep(std::vector<AnyPlan>& plans, AnyPlan made, std::uint64_t use) {
  if (found_in(plans, made) != nullptr) return free_plan(made.plan);
  make_room(plans);
  made.last.number = use;
  plans.push_back(made);
}

bool is_wide(Request request) { return request == Request::kWideSamples; }
bool is_sampled(Request request) { return request == Request::kSamples || is_wide(request); }

}  // namespace

Plan* Operator::product(bool transposed, std::int64_t n, tessera_type type) {
  return found_in(sides[transposed].plans, Plan{.n = n, .type = type});
}

SampledPlan* Operator::sampled(bool wide, std::int64_t n, tessera_type type) {
  return found_in(samples, SampledPlan{.n = n, .type = type, .wide = wide});
}

void Operator::add(Request request, std::int64_t n, tessera_type type, void* plan) {
  if (is_sampled(request))
    keep(samples,
         SampledPlan{.n = n,
                     .type = type,
                     .plan = static_cast<tessera_sddmm_plan*>(plan),
                     .wide = is_wide(request)},
         ++uses);
  else
    keep(sides[request == Request::kTransposedProduct].plans,
         Plan{.n = n, .type = type, .plan = static_cast<tessera_spmm_plan*>(plan)}, ++uses);
}

const void* Operator::plan(Request request, std::int64_t n, tessera_type type) {
  if (is_sampled(request)) {
    const SampledPlan* plan = sampled(is_wide(request), n, type);
    return plan == nullptr ? nullptr : plan->plan;
  }
  const Plan* plan = product(request == Request::kTransposedProduct, n, type);
  return plan == nullptr ? nullptr : plan->plan;
}

Operator::~Operator() {
  if (sides[0].plans.empty() && sides[1].plans.empty() && samples.empty()) return;
  try {
    const DeviceGuard guard(device_index);
    for (Side& side : sides)
      for (const Plan& plan : side.plans) destroy(plan);
    for (const SampledPlan& plan : samples) destroy(plan);
  } catch (const std::exception&) {
    // A device that fails has lost its memory anyway.
  }
}

}  // namespace tessera::torch_operators

// ---- called by Python through ctypes: none of these takes a tensor
// -------------------------------

using tessera::torch_operators::Operator;

extern "C" {

__attribute__((visibility("default"))) void tessera_torch_set_planner(
    tessera::torch_operators::Planner planner) {
  tessera::torch_operators::planner = planner;
}

/// Takes the plan over. Returns 0 when there is no such operator.
__attribute__((visibility("default"))) std::int32_t tessera_torch_add_plan(
    std::int64_t number, std::int32_t request, std::int64_t n, std::int32_t type, void* plan) try {
  const std::shared_ptr<Operator> found = tessera::torch_operators::find(number);
  const std::lock_guard lock(found->mutex);
  found->add(static_cast<tessera::torch_operators::Request>(request), n, type, plan);
  return 1;
} catch (const std::exception&) {
  return 0;
}

/// The plan for operands of n columns, or null. It belongs to the operator.
__attribute__((visibility("default"))) const void* tessera_torch_plan(std::int64_t number,
                                                                      std::int32_t request,
                                                                      std::int64_t n,
                                                                      std::int32_t type) try {
  const std::shared_ptr<Operator> found = tessera::torch_operators::find(number);
  const std::lock_guard lock(found->mutex);
  return found->plan(static_cast<tessera::torch_operators::Request>(request), n, type);
} catch (const std::exception&) {
  return nullptr;
}

/// Waits for the operator's products and frees its plans. Returns 0, and does nothing, while a
/// gradient keeps the operator or a product of it is being enqueued.
__attribute__((visibility("default"))) std::int32_t tessera_torch_delete(std::int64_t number) {
  std::shared_ptr<Operator> last;
  auto& all = tessera::torch_operators::registry();
  const std::lock_guard lock(all.mutex);
  if (number < 1 || number > std::ssize(all.operators)) return 1;
  std::shared_ptr<Operator>& found = all.operators[number - 1];
  if (found.use_count() > 1) return 0;
  last = std::move(found);
  return 1;
}

// ---- called by _gradients.cpp -------------------------------------------------------------------

/// Keeps an operator until tessera_torch_release(). `values` becomes a handle of those that it
/// holds, which the caller deletes, and `stamp` their stamp. Null: there is no such operator, or it
/// holds none.
__attribute__((visibility("default"))) void* tessera_torch_keep(std::int64_t number, void** values,
                                                                std::int64_t* stamp) try {
  auto kept = std::make_unique<std::shared_ptr<Operator>>(tessera::torch_operators::find(number));
  const std::lock_guard lock((*kept)->mutex);
  if ((*kept)->values.get() == nullptr) return nullptr;
  *values = reinterpret_cast<void*>((*kept)->values.share().release());
  *stamp = (*kept)->stamp;
  return kept.release();
} catch (const std::exception&) {
  return nullptr;
}

/// Whether the operator still holds values of that stamp.
__attribute__((visibility("default"))) std::int32_t tessera_torch_holds(const void* kept,
                                                                        std::int64_t stamp) {
  const auto& op = *static_cast<const std::shared_ptr<Operator>*>(kept);
  const std::lock_guard lock(op->mutex);
  return op->stamp == stamp ? 1 : 0;
}

/// It never frees the operator's plans: tessera_torch_delete() does, which may wait for the GPU.
__attribute__((visibility("default"))) void tessera_torch_release(void* kept) {
  delete static_cast<std::shared_ptr<Operator>*>(kept);
}

}  // extern "C"
