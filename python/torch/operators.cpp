#include "python/torch/operators.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <string>

#include "python/torch/gpu_order.hpp"

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
using Planner = std::int32_t (*)(std::int64_t number, std::int32_t transposed, std::int64_t n,
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

void ask_for_plan(std::int64_t number, bool transposed, std::int64_t n, tessera_type type) {
  const Planner ask = planner;
  if (ask == nullptr) throw std::runtime_error("tessera: tessera.torch is not imported");
  std::array<char, 4096> error = {};
  if (ask(number, transposed, n, type, error.data(), std::ssize(error)) != 0)
    throw std::runtime_error(error.data());
}

void check_tessera(tessera_status status) {
  if (status != TESSERA_OK)
    throw std::runtime_error(std::string("tessera: ") + tessera_last_error());
}

namespace {

void destroy(const Plan& plan) {
  wait_for(plan);
  tessera_spmm_plan_destroy(plan.plan);
}

/// Plans that a side keeps. A network has few widths; one that varies with the input would fill the
/// GPU with copies of A.
constexpr std::size_t kMostPlans = 8;

void make_room(std::vector<Plan>& plans) {
  if (plans.size() < kMostPlans) return;
  const auto oldest = std::ranges::min_element(plans, {}, [](const Plan& plan) {
    return plan.captured ? UINT64_MAX : plan.last_use;  // a graph may run it at any time
  });
  if (oldest->captured) return;
  destroy(*oldest);
  plans.erase(oldest);
}

}  // namespace

Operator::~Operator() {
  for (Side& side : sides) {
    if (side.plans.empty()) continue;
    try {
      const DeviceGuard guard(device_index);
      for (const Plan& plan : side.plans) destroy(plan);
    } catch (const std::exception&) {
      // A device that fails has lost its memory anyway.
    }
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
    std::int64_t number, std::int32_t transposed, std::int64_t n, std::int32_t type,
    tessera_spmm_plan* plan) try {
  const std::shared_ptr<Operator> found = tessera::torch_operators::find(number);
  const std::lock_guard lock(found->mutex);
  auto& plans = found->sides[transposed].plans;
  for (const auto& other : plans)
    if (other.n == n && other.type == type) {  // another thread was faster
      tessera_spmm_plan_destroy(plan);
      return 1;
    }
  tessera::torch_operators::make_room(plans);
  plans.push_back({.n = n, .type = type, .plan = plan, .last_use = ++found->uses});
  return 1;
} catch (const std::exception&) {
  return 0;
}

/// The plan for B of n columns, or null. It belongs to the operator.
__attribute__((visibility("default"))) const tessera_spmm_plan* tessera_torch_plan(
    std::int64_t number, std::int32_t transposed, std::int64_t n, std::int32_t type) try {
  const std::shared_ptr<Operator> found = tessera::torch_operators::find(number);
  const std::lock_guard lock(found->mutex);
  for (const auto& plan : found->sides[transposed].plans)
    if (plan.n == n && plan.type == type) return plan.plan;
  return nullptr;
} catch (const std::exception&) {
  return nullptr;
}

/// Waits for the operator's products and frees its plans.
__attribute__((visibility("default"))) void tessera_torch_delete(std::int64_t number) {
  std::shared_ptr<Operator> last;
  auto& all = tessera::torch_operators::registry();
  const std::lock_guard lock(all.mutex);
  if (number >= 1 && number <= std::ssize(all.operators))
    last = std::move(all.operators[number - 1]);
}

}  // extern "C"
