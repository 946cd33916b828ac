#include "experiments/points/point.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/base/registry.hpp"
#include "formats/io/call_syntax.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostLaunches = 10'000'000;  // whose times are kept, 8 bytes each

template <class T>
const T& task_as(const Point& point, const char* name) {
  const T* task = std::get_if<T>(&point.task);
  require(task != nullptr, "a {} was expected of backend {}, not: {}", name, point.backend,
          task_text(point));
  return *task;
}

std::string task_text(const DenseProduct& product, const Variant& reorder) {
  return fmt::format("n={} {} {}", product.n, reorder.name, product.kernel.name);
}

std::string task_text(const SparseProduct& product, const Variant& reorder) {
  const std::string mask = product.mask.empty() ? "" : "under " + product.mask + " ";
  return fmt::format("x {} {}{} {}", product.right, mask, reorder.name, product.kernel.name);
}

std::string task_text(const SampledProduct& product, const Variant& reorder) {
  return fmt::format("n={} {} {}", product.n, reorder.name, product.kernel.name);
}

std::string task_text(const Packing& packing, const Variant& reorder) {
  return fmt::format("{} {}", reorder.name, to_text(packing.format));
}

std::string task_text(const Ordering& ordering, const Variant& reorder) {
  return ordering.threads == 0 ? to_text(reorder)
                               : fmt::format("{} threads={}", to_text(reorder), ordering.threads);
}

}  // namespace

const DenseProduct& dense_product(const Point& point) {
  return task_as<DenseProduct>(point, "product with a dense B");
}
const SparseProduct& sparse_product(const Point& point) {
  return task_as<SparseProduct>(point, "product with a sparse B");
}
const SampledProduct& sampled_product(const Point& point) {
  return task_as<SampledProduct>(point, "product of two dense matrices at the nonzeros of A");
}
const Packing& packing(const Point& point) { return task_as<Packing>(point, "packing"); }
const Ordering& ordering(const Point& point) { return task_as<Ordering>(point, "reordering"); }

OperandValues operand_values(const Point& point) {
  return std::visit(
      [](const auto& task) -> OperandValues {
        if constexpr (std::is_base_of_v<OperandValues, std::remove_cvref_t<decltype(task)>>)
          return task;
        else
          return {.values = parse_values(kPatternAlone)};
      },
      point.task);
}

std::string to_text(const Variant& variant) {
  return call_text(variant.name, variant.params.values());
}

std::string task_text(const Point& point) {
  return std::visit([&](const auto& task) { return task_text(task, point.reorder); }, point.task);
}

Variant parse_values(std::string_view text) {
  const Call call = parse_call(text);
  return {call.name, Registry<ValueFamily>::instance().resolve(call.name, call.given)};
}

const std::vector<std::string>& l2_choices() {
  static const std::vector<std::string> choices{"warm", "flush"};
  return choices;
}

const std::vector<std::string>& launch_choices() {
  static const std::vector<std::string> choices{"stream", "graph"};
  return choices;
}

bool is_replayable(const Task& task) {
  return std::holds_alternative<DenseProduct>(task) || std::holds_alternative<SampledProduct>(task);
}

void validate(const MeasureRule& rule) {
  require(rule.warmup >= 0 && rule.warmup <= kMostLaunches,
          "measure.warmup = {}: it takes 0 to {} launches", rule.warmup, kMostLaunches);
  require(rule.min_samples >= 1, "measure.min_samples = {}: it takes at least 1", rule.min_samples);
  require(rule.max_samples >= rule.min_samples,
          "measure.max_samples = {} is below measure.min_samples = {}", rule.max_samples,
          rule.min_samples);
  require(rule.max_samples <= kMostLaunches, "measure.max_samples = {}: it takes at most {}",
          rule.max_samples, kMostLaunches);
  require(rule.noise >= 0 && std::isfinite(rule.noise), "measure.noise = {}: it takes 0 or more",
          rule.noise);
  require(rule.max_seconds > 0 && std::isfinite(rule.max_seconds),
          "measure.max_seconds = {}: it takes more than 0", rule.max_seconds);
}

void validate(const CounterRule& rule) {
  const std::vector<std::string> sources = counter_sources();
  require(std::ranges::find(sources, rule.source) != sources.end() && rule.source != "none",
          "counters.source: {}", unknown_name_message("source", rule.source, sources));
  require(!rule.metrics.empty(), "counters.metrics: at least one metric was expected");
  std::set<std::string> seen;
  for (const std::string& metric : rule.metrics)
    require(seen.insert(metric).second, "counters.metrics: {} is there twice", metric);
}

}  // namespace tessera
