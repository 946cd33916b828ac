#include "experiments/tables/open_config.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <future>
#include <set>
#include <tuple>
#include <unordered_set>

#include <fmt/ranges.h>

#include "experiments/backends/missing_backend.hpp"
#include "experiments/config/needs.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/records/record_index.hpp"
#include "experiments/tables/check_columns.hpp"

namespace tessera {
namespace {

/// Why none of the config's backends that need a GPU runs here; empty when one does.
std::string gpu_missing(const Config& config) {
  std::string missing;
  for (const std::string& name : config.backends) {
    if (!backend_traits(name).needs_gpu) continue;
    missing = missing_backend(name);
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

/// The records of a folder, as far as a config is chosen by them.
struct Recorded {
  RecordIndex index = {};
  std::set<std::string> backends = {};
  std::unordered_set<std::string_view> hashes = {};  // of requests that ended ok
};

/// `ranked`: rank() will be asked for.
Recorded recorded_in(const std::string& folder, bool ranked = true) {
  Recorded recorded;
  std::deque<std::set<std::string, std::less<>>> pieces;
  recorded.index = read_index(folder, false, [&pieces] {
    return [&backends = pieces.emplace_back()](const JsonLine& line) {
      const std::string backend = line.text_at({"params", "backend"});
      if (!backends.contains(backend)) backends.insert(backend);
    };
  });
  for (auto& backends : pieces) recorded.backends.insert(backends.begin(), backends.end());
  if (!ranked) return recorded;
  recorded.hashes.reserve(recorded.index.points.size());
  for (const IndexedRecord& attempt : recorded.index.points)
    if (attempt.status == "ok") recorded.hashes.insert(attempt.params_hash);
  return recorded;
}

/// Points of the plan that are recorded, and, negative, those that are not.
std::pair<std::int64_t, std::int64_t> rank(const Plan& plan, const Recorded& recorded) {
  std::int64_t here = 0, all = 0;
  for (const PlanEntry& entry : plan.entries) {
    here += recorded.hashes.contains(entry.hash) ? 1 : 0;
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

namespace {

/// The config as open_config() chooses it, with its plan.
std::pair<Config, Plan> choose(const ConfigRequest& request, const Opened& opened,
                               const Recorded& recorded, bool told) {
  std::vector<Without> choices{opened.here};
  for (const bool gpu : {false, true})
    for (const bool data : {false, true}) {
      const bool differs = (!gpu || opened.needs.gpu) && (!data || opened.needs.files > 0);
      if (const Without other{gpu, data}; differs && other != opened.here) choices.push_back(other);
    }
  Without best = opened.here;
  Plan plan;
  std::optional<std::pair<std::int64_t, std::int64_t>> best_rank;
  const std::pair all(static_cast<std::int64_t>(recorded.hashes.size()), std::int64_t{0});
  for (const Without& choice : choices) {
    Plan other = make_plan(load_config(request.name, request.sets, choice));
    const auto found = rank(other, recorded);
    // Where none of its points is recorded, as with another backend than those of the config, it
    // says nothing that it has fewer points than what this machine would run.
    if (best_rank && (found.first == 0 || found <= *best_rank)) continue;
    best = choice;
    best_rank = found;
    plan = std::move(other);
    if (found == all) break;  // no other one has more of them, or fewer others
  }
  Config config = load(request, best);
  if (told && best == opened.here) return {std::move(config), std::move(plan)};
  if (best.gpu && config.gpu_only.empty())
    tell(config, "what a GPU measures is not among the records: rows of other backends stand in");
  if (best.data && has_stand_ins(request, opened.written))
    tell(config, "its files of matrices are not among the records: matrices by formula stand in");
  return {std::move(config), std::move(plan)};
}

}  // namespace

Config open_config(const ConfigRequest& request, const std::string& folder, bool told) {
  const Opened opened = open(request);
  if (request.as_written) return opened.written;
  const bool has_run = std::filesystem::exists(folder);
  return choose(request, opened, has_run ? recorded_in(folder) : Recorded{}, told).first;
}

RecordedConfig open_recorded_config(const ConfigRequest& request, const std::string& folder,
                                    bool told) {
  const Opened opened = open(request);
  Recorded recorded;
  Config config;
  Plan plan;
  if (request.as_written) {
    std::future<Plan> made =
        std::async(std::launch::async, [&] { return make_plan(opened.written); });
    recorded = recorded_in(folder, false);
    config = opened.written;
    plan = made.get();
  } else {
    recorded = recorded_in(folder);
    std::tie(config, plan) = choose(request, opened, recorded, told);
  }
  std::vector<std::string> backends = config.backends;
  for (const std::string& backend : recorded.backends)
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  if (backends != config.backends) plan = make_plan(config, backends);
  return {std::move(config), std::move(recorded.index), std::move(backends), std::move(plan)};
}

}  // namespace tessera
