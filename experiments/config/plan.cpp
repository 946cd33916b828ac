#include "experiments/config/plan.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "experiments/config/resolve_point.hpp"
#include "formats/base/check.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMostPoints = 1'000'000;

/// One value of a dimension, or the values of several put together.
struct Combination {
  std::vector<Layer> layers;
  std::map<std::string, std::string> labels;
};
using Dimension = std::vector<Combination>;

// Steps and cases override the grid, later steps override earlier ones.
enum Rank { kGridRank, kBaseRank, kFirstStepRank };

Dimension dimension_of(const Axis& axis) {
  Dimension dimension;
  for (const Settings& choice : axis.choices) dimension.push_back({{{&choice, kGridRank}}, {}});
  return dimension;
}

Dimension dimension_of_cases(const std::vector<NamedSettings>& cases) {
  Dimension dimension;
  for (const NamedSettings& one : cases)
    dimension.push_back({{{&one.settings, kBaseRank}}, {{"case", one.name}}});
  return dimension;
}

std::string left_out_label(const std::string& step) {
  return "-" + (step.starts_with('+') ? step.substr(1) : step);
}

Dimension dimension_of_ablation(const Ablation& ablation) {
  const int steps = static_cast<int>(ablation.steps.size());
  Dimension dimension;
  /// The base with the steps that `has` says, under that label.
  const auto add = [&](const std::string& label, auto has) {
    Combination& combination = dimension.emplace_back();
    combination.layers.push_back({&ablation.base.settings, kBaseRank});
    for (int s = 0; s < steps; ++s)
      if (has(s)) combination.layers.push_back({&ablation.steps[s].settings, kFirstStepRank + s});
    combination.labels["step"] = label;
  };
  if (ablation.mode == Ablation::Mode::kLeaveOneOut) {
    add("all", [](int) { return true; });
    for (int left = 0; left < steps; ++left)
      add(left_out_label(ablation.steps[left].name), [&](int s) { return s != left; });
    return dimension;
  }
  const bool cumulative = ablation.mode == Ablation::Mode::kCumulative;
  add(ablation.base.name, [](int) { return false; });
  for (int last = 0; last < steps; ++last)
    add(ablation.steps[last].name, [&](int s) { return cumulative ? s <= last : s == last; });
  return dimension;
}

/// All dimensions of a config, the outermost first.
std::vector<Dimension> dimensions_of(const Config& config) {
  std::vector<Dimension> dimensions;
  for (const bool matrix : {true, false})
    for (const Axis& axis : config.grid)
      if ((axis.name == "matrix") == matrix) dimensions.push_back(dimension_of(axis));
  for (const Axis& zip : config.zips) dimensions.push_back(dimension_of(zip));
  if (!config.cases.empty()) dimensions.push_back(dimension_of_cases(config.cases));
  for (const Ablation& ablation : config.ablation)
    dimensions.push_back(dimension_of_ablation(ablation));
  return dimensions;
}

/// Calls visit(combination) for every element of the product, the last dimension fastest.
template <class Visit>
void for_each_combination(const std::vector<Dimension>& dimensions, Visit visit) {
  std::vector<std::size_t> place(dimensions.size(), 0);
  while (true) {
    Combination product;
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      const Combination& choice = dimensions[d][place[d]];
      product.layers.insert(product.layers.end(), choice.layers.begin(), choice.layers.end());
      product.labels.insert(choice.labels.begin(), choice.labels.end());
    }
    visit(product);
    std::size_t d = dimensions.size();
    while (d > 0 && ++place[d - 1] == dimensions[d - 1].size()) place[--d] = 0;
    if (d == 0) return;
  }
}

void check_size(const Config& config, const std::vector<Dimension>& dimensions,
                std::size_t backends) {
  auto points = static_cast<double>(backends);
  for (const Dimension& dimension : dimensions) points *= static_cast<double>(dimension.size());
  require(points <= static_cast<double>(kMostPoints), "{}: {:.3g} points; a plan has at most {}",
          config.path, points, kMostPoints);
}

/// Brings the entries of a matrix together, in the order of its first one.
void group_by_matrix(std::vector<PlanEntry>& entries) {
  std::unordered_map<std::string, std::size_t> ranks;
  std::vector<std::pair<std::size_t, std::size_t>> order;  // rank of the matrix, place
  order.reserve(entries.size());
  for (const PlanEntry& entry : entries)
    order.emplace_back(ranks.try_emplace(entry.point.matrix, ranks.size()).first->second,
                       order.size());
  if (std::ranges::is_sorted(order)) return;
  std::ranges::sort(order);
  std::vector<PlanEntry> grouped;
  grouped.reserve(entries.size());
  for (const auto& [rank, place] : order) grouped.push_back(std::move(entries[place]));
  entries = std::move(grouped);
}

/// The entries of a matrix are together.
void estimate_costs(const PointResolver& resolver, std::vector<PlanEntry>& entries) {
  const auto same_matrix = [](const PlanEntry& a, const PlanEntry& b) {
    return a.point.matrix == b.point.matrix;
  };
  const auto bytes_of = [&](const PlanEntry& entry) {
    return static_cast<double>(resolver.known_matrix(entry.point.matrix).file_bytes);
  };
  double known = 0, sum = 0;
  for (auto first = entries.begin(); first != entries.end();) {
    const double size = bytes_of(*first);
    if (size > 0) known += 1;
    sum += size;
    first = std::find_if(first, entries.end(),
                         [&](const PlanEntry& entry) { return !same_matrix(*first, entry); });
  }
  const double mean = known > 0 ? sum / known : 1;
  double size = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || !same_matrix(entries[i - 1], entries[i])) size = bytes_of(entries[i]);
    const auto* dense = std::get_if<DenseProduct>(&entries[i].point.task);
    entries[i].cost = (size > 0 ? size : mean) * (dense ? static_cast<double>(dense->n) : 1.0);
  }
}

/// True when the first dimension says the matrix and nothing else, and no other one says it.
bool only_the_first_names_matrices(const std::vector<Dimension>& dimensions) {
  for (std::size_t d = 0; d < dimensions.size(); ++d)
    for (const Combination& choice : dimensions[d])
      for (const Layer& layer : choice.layers) {
        const bool names_it = layer.settings->contains("matrix");
        if (names_it != (d == 0) || (d == 0 && layer.settings->size() > 1)) return false;
      }
  return !dimensions.empty();
}

/// The entries of a plan while it is made.
struct Entries {
  Entries(PointResolver& resolver, const std::vector<std::string>& backends)
      : resolver(resolver), backends(backends) {}

  /// An entry for each backend, unless it is there.
  void add(const Combination& combination) {
    for (const std::string& backend : backends) {
      PlanEntry entry{.point = resolver.resolve(combination.layers, backend),
                      .labels = combination.labels};
      entry.hash = params_hash(entry.point);
      entry.matrix = resolver.known_matrix(entry.point.matrix).name;
      std::vector<std::size_t>& places = by_hash[entry.hash];
      const auto has_its_labels = [&](std::size_t i) { return all[i].labels == entry.labels; };
      if (std::ranges::any_of(places, has_its_labels)) {
        ++merged;
      } else {
        places.push_back(all.size());
        all.push_back(std::move(entry));
      }
    }
  }

  /// The entries so far are of the first of these matrices: adds the same for the others. Two of
  /// them that coincide for one matrix do so for all.
  void repeat_for(const Dimension& matrices) {
    const std::size_t of_one = all.size();
    const std::int64_t merged_of_one = merged;
    std::vector<HashByMatrix> hashes;
    if (matrices.size() > 1)
      for (const PlanEntry& entry : all) hashes.emplace_back(entry.point);
    std::set<std::string> done;
    if (!all.empty()) done.insert(all.front().point.matrix);
    all.reserve(of_one * matrices.size());
    for (std::size_t m = 1; m < matrices.size(); ++m) {
      const Setting& setting = matrices[m].layers.front().settings->at("matrix");
      const std::string matrix = resolver.matrix_name("matrix", setting);
      merged += merged_of_one;
      if (!done.insert(matrix).second) {
        merged += static_cast<std::int64_t>(of_one);
        continue;
      }
      const std::string quoted = Json(matrix).dump(), name = resolver.known_matrix(matrix).name;
      for (std::size_t i = 0; i < of_one; ++i) {
        PlanEntry& entry = all.emplace_back(all[i]);
        entry.point.matrix = matrix;
        entry.hash = hashes[i].of(quoted);
        entry.matrix = name;
      }
    }
  }

  PointResolver& resolver;
  const std::vector<std::string>& backends;
  std::vector<PlanEntry> all = {};
  std::unordered_map<std::string, std::vector<std::size_t>> by_hash = {};
  std::int64_t merged = 0;  // that are the same as others
};

bool is_here(const std::string& matrix) {
  try {
    find_matrix(matrix);
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace

Plan make_plan(const Config& config, const std::vector<std::string>& backends) {
  const std::vector<std::string>& chosen = backends.empty() ? config.backends : backends;
  require(!chosen.empty(), "{}: no backend is given: [experiment] backends or --backend",
          config.path);
  const std::vector<Dimension> dimensions = dimensions_of(config);
  check_size(config, dimensions, chosen.size());

  PointResolver resolver(config);
  Entries entries(resolver, chosen);
  if (only_the_first_names_matrices(dimensions)) {
    std::vector<Dimension> of_first = dimensions;
    of_first.front().resize(1);
    for_each_combination(of_first, [&](const Combination& one) { entries.add(one); });
    entries.repeat_for(dimensions.front());
  } else {
    for_each_combination(dimensions, [&](const Combination& one) { entries.add(one); });
  }
  resolver.refuse_unused();
  Plan plan{std::move(entries.all), resolver.notes()};
  const std::int64_t merged = entries.merged;
  group_by_matrix(plan.entries);
  estimate_costs(resolver, plan.entries);
  for (const CountedSet& set : config.counted_sets) {
    const auto here = std::ranges::count_if(set.matrices, is_here);
    plan.notes.push_back(fmt::format("@{}: {}; {} of them here", set.name, set.found, here));
  }
  if (merged > 0)
    plan.notes.push_back(fmt::format("{} of {} points are the same as others and merged", merged,
                                     merged + static_cast<std::int64_t>(plan.entries.size())));
  return plan;
}

Point plan_point(Config config, const std::vector<std::pair<std::string, Json>>& settings) {
  for (const auto& [name, value] : settings)
    config.grid.push_back({name, {{{name, {value, config.path}}}}, config.path});
  return make_plan(config).entries.at(0).point;
}

std::vector<const PlanEntry*> distinct_requests(const Plan& plan) {
  std::vector<const PlanEntry*> distinct;
  distinct.reserve(plan.entries.size());
  std::unordered_set<std::string_view> seen;
  for (const PlanEntry& entry : plan.entries)
    if (entry.labels.empty() || seen.insert(entry.hash).second) distinct.push_back(&entry);
  return distinct;
}

std::map<std::string, int> deal_matrices(const Plan& plan, int count) {
  std::vector<std::pair<std::string, double>> matrices;  // with the cost of all their entries
  for (const PlanEntry& entry : plan.entries) {
    if (matrices.empty() || matrices.back().first != entry.point.matrix)
      matrices.push_back({entry.point.matrix, 0});
    matrices.back().second += entry.cost;
  }
  std::ranges::stable_sort(matrices, std::ranges::greater(),
                           &std::pair<std::string, double>::second);
  // The first of the shards that have least gets a matrix: none beyond as many as there are.
  const std::size_t used = std::clamp<std::size_t>(matrices.size(), 1, count);
  std::vector<double> load(used, 0);
  std::map<std::string, int> shard_of;
  for (const auto& [matrix, cost] : matrices) {
    const auto least = std::ranges::min_element(load);
    *least += cost;
    shard_of[matrix] = static_cast<int>(least - load.begin()) + 1;
  }
  return shard_of;
}

Plan shard(const Plan& plan, int index, int count) {
  require(count >= 1 && index >= 1 && index <= count,
          "shard {}/{}: the first number has to be from 1 to the second", index, count);
  const std::map<std::string, int> shard_of = deal_matrices(plan, count);
  Plan part{{}, plan.notes};
  std::ranges::copy_if(plan.entries, std::back_inserter(part.entries), [&](const PlanEntry& entry) {
    return shard_of.at(entry.point.matrix) == index;
  });
  return part;
}

}  // namespace tessera
