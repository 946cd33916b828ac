#include "experiments/config/needs.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

enum class Origin { kFormula, kFile, kAbsent };

/// The origin of a matrix; that of the other one for a matrix made of another.
Origin origin_of(const std::string& matrix) {
  try {
    const MatrixSource source = find_matrix(matrix);
    if (!source.synthetic()) return Origin::kFile;
    const auto of = source.params.values().find("of");
    const bool nested =
        of != source.params.values().end() && std::holds_alternative<std::string>(of->second);
    return nested ? origin_of(std::get<std::string>(of->second)) : Origin::kFormula;
  } catch (const Unsupported&) {
    return Origin::kAbsent;
  } catch (const Error&) {
    return Origin::kFormula;  // a bad name: the plan says so, with its place
  }
}

void add_matrices(const Settings& settings, std::vector<std::string>& matrices) {
  for (const char* key : {"matrix", "right", "mask"}) {
    const auto found = settings.find(key);
    if (found == settings.end() || !found->second.value.is_string()) continue;
    const std::string name = found->second.value;
    if (name != kSelf && name != kTranspose && std::ranges::find(matrices, name) == matrices.end())
      matrices.push_back(name);
  }
}

}  // namespace

std::vector<std::string> matrices_of(const Config& config) {
  std::vector<std::string> matrices;
  for (const auto* axes : {&config.grid, &config.zips})
    for (const Axis& axis : *axes)
      for (const Settings& choice : axis.choices) add_matrices(choice, matrices);
  for (const NamedSettings& one : config.cases) add_matrices(one.settings, matrices);
  for (const Ablation& ablation : config.ablation) {
    add_matrices(ablation.base.settings, matrices);
    for (const NamedSettings& step : ablation.steps) add_matrices(step.settings, matrices);
  }
  return matrices;
}

Needs needs_of(const Config& config) {
  Needs needs;
  needs.gpu = std::ranges::any_of(
      config.backends, [](const std::string& name) { return backend_traits(name).needs_gpu; });
  for (const std::string& matrix : matrices_of(config)) {
    const Origin origin = origin_of(matrix);
    needs.files += origin != Origin::kFormula;
    needs.absent += origin == Origin::kAbsent;
  }
  return needs;
}

std::string to_text(const Needs& needs, const Config& config) {
  std::string text;
  if (needs.gpu) text = config.gpu_only.empty() ? "GPU to measure" : "GPU";
  if (needs.files > 0)
    text += fmt::format("{}{} file{}", text.empty() ? "" : ", ", needs.files,
                        needs.files == 1 ? "" : "s");
  return text.empty() ? "nothing" : text;
}

}  // namespace tessera
