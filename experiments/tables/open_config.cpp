#include "experiments/tables/open_config.hpp"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include <fmt/ranges.h>

#include "experiments/backends/backend.hpp"
#include "experiments/config/needs.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/machine/own_process.hpp"
#include "experiments/records/record_index.hpp"
#include "experiments/tables/check_columns.hpp"

namespace tessera {
namespace {

/// Why none of the config's backends that need a GPU runs here; empty when one does.
std::string gpu_missing(const Config& config) {
  std::string missing;
  for (const std::string& name : config.backends) {
    if (!backend_traits(name).needs_gpu) continue;
    missing = in_own_process([&] { return find_backend(name).missing; });
    if (missing.empty()) return "";
  }
  return missing;
}

Config load(const ConfigRequest& request, const Without& without) {
  Config config = load_config(request.name, request.sets, without);
  check_columns(config);
  return config;
}

void tell(const Config& config, const std::string& text) {
  fmt::print(stderr, "{}: {}\n", config.id, text);
}

/// Says what a machine without a GPU does.
void tell_gpu(const Config& config, const std::string& missing) {
  if (config.gpu_only.empty())
    tell(config, fmt::format("{}; here {} runs, on a GPU the whole experiment", missing,
                             fmt::join(config.backends, ", ")));
  else
    tell(config, fmt::format("{}; nothing can stand in: {}", missing, config.gpu_only));
}

/// Says which matrices stand in for those of `written`.
void tell_data(const Config& written, const Config& config) {
  std::vector<std::string> before = matrices_of(written), sets;
  for (const auto& [name, matrices] : written.matrix_sets.items())
    if (config.matrix_sets.value(name, Json()) != matrices) sets.push_back("@" + name);
  const auto others = std::ranges::count_if(matrices_of(config), [&](const std::string& matrix) {
    return std::ranges::find(before, matrix) == before.end();
  });
  const int absent = needs_of(written).absent;
  tell(config,
       fmt::format(
           "{} not on this machine; here {} by formula stand{} in, for the whole experiment "
           "set TESSERA_DATA to the folder of the files{}",
           absent == 1 ? "1 matrix is" : fmt::format("{} matrices are", absent), others,
           others == 1 ? "s" : "",
           sets.empty() ? "" : fmt::format(" or `tessera matrix fetch {}`", fmt::join(sets, " "))));
}

/// The requests that have a record.
std::unordered_set<std::string> recorded_in(const std::string& folder) {
  std::unordered_set<std::string> hashes;
  if (!std::filesystem::exists(folder)) return hashes;
  for (const IndexedRecord& attempt : read_index(folder).points)
    if (attempt.status == "ok") hashes.emplace(attempt.params_hash);
  return hashes;
}

/// Points of the config that are recorded, and, negative, those that are not.
std::pair<std::int64_t, std::int64_t> rank(const Config& config,
                                           const std::unordered_set<std::string>& recorded) {
  std::int64_t here = 0, all = 0;
  for (const PlanEntry& entry : make_plan(config).entries) {
    here += recorded.contains(entry.hash) ? 1 : 0;
    ++all;
  }
  return {here, here - all};
}

/// The config as written, and what this machine lacks of it.
struct Opened {
  Config written;
  Needs needs;
  std::string missing;  // the GPU's reason
  Without here;
};

Opened open(const ConfigRequest& request) {
  Opened opened{load(request, {}), {}, "", {}};
  if (request.as_written) return opened;
  opened.needs = needs_of(opened.written);
  if (opened.needs.gpu) opened.missing = gpu_missing(opened.written);
  opened.here = {.gpu = !opened.missing.empty(),
                 .data = opened.needs.files > 0 && opened.needs.absent == opened.needs.files};
  return opened;
}

/// True when the config is another one without the files of its matrices.
bool has_stand_ins(const ConfigRequest& request, const Config& written) {
  return load_config(request.name, request.sets, {.data = true}).hash != written.hash;
}

}  // namespace

Config open_config(const ConfigRequest& request) {
  const Opened opened = open(request);
  if (opened.here == Without{}) return opened.written;
  Config config = load(request, opened.here);
  if (opened.here.gpu) tell_gpu(config, opened.missing);
  if (opened.here.data && has_stand_ins(request, opened.written)) tell_data(opened.written, config);
  return config;
}

Config open_config(const ConfigRequest& request, const std::string& folder, bool told) {
  const Opened opened = open(request);
  if (request.as_written) return opened.written;
  const std::unordered_set<std::string> recorded = recorded_in(folder);
  std::vector<Without> choices{opened.here};
  for (const bool gpu : {false, true})
    for (const bool data : {false, true}) {
      const bool differs = (!gpu || opened.needs.gpu) && (!data || opened.needs.files > 0);
      if (const Without other{gpu, data}; differs && other != opened.here) choices.push_back(other);
    }
  Without best = opened.here;
  std::optional<std::pair<std::int64_t, std::int64_t>> best_rank;
  const std::pair all(static_cast<std::int64_t>(recorded.size()), std::int64_t{0});
  for (const Without& choice : choices) {
    const auto found = rank(load_config(request.name, request.sets, choice), recorded);
    if (best_rank && found <= *best_rank) continue;
    best = choice;
    best_rank = found;
    if (found == all) break;  // no other one has more of them, or fewer others
  }
  Config config = load(request, best);
  if (told && best == opened.here) return config;
  if (best.gpu && config.gpu_only.empty())
    tell(config, "what a GPU measures is not among the records: rows of other backends stand in");
  if (best.data && has_stand_ins(request, opened.written))
    tell(config, "its files of matrices are not among the records: matrices by formula stand in");
  return config;
}

}  // namespace tessera
