#include "experiments/config/resolve_point.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>

#include "experiments/config/keys.hpp"
#include "experiments/config/read_sweep.hpp"
#include "experiments/points/any_kernel.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "formats/values/value_family.hpp"
#include "kernels/published.hpp"
#include "model/device.hpp"
#include "model/model.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

const std::vector<std::string>& axis_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ConfigKey& axis : config_table("[grid]").keys) all.push_back(axis.name);
    return all;
  }();
  return names;
}

/// `as` selects a kernel's published choices; it is no parameter of any variant.
constexpr const char* kAsKeys[] = {"as", "kernel.as"};
constexpr int kPublishedRank = -1;  // whatever the config gives overrides a published choice

constexpr const char* kAxesOfProducts[] = {"right", "mask", "n", "kernel", "device", "model"};

/// Refuses an axis of what lies beyond the backend's task.
void refuse_beyond(const BackendTraits& backend, const std::string& key, const Setting& setting) {
  const bool of_product = std::ranges::find(kAxesOfProducts, key) != std::end(kAxesOfProducts);
  if (backend.activity == Activity::kPack)
    require(!of_product, "{}: {} is of a product, and backend {} only packs A", setting.place, key,
            backend.name);
  if (backend.activity == Activity::kReorder)
    require(!of_product && key != "format",
            "{}: {} is of a {}, and backend {} only finds an order of A", setting.place, key,
            of_product ? "product" : "packing", backend.name);
}

/// The axis that every point of the backend needs beside the matrix.
const char* needed_axis(Activity activity) {
  if (activity == Activity::kMultiply) return "kernel";
  return activity == Activity::kPack ? "format" : "reorder";
}

/// A stage's registry, whatever its interface.
struct Stage {
  std::string key;
  const std::vector<ParamSpec>& (*specs)(const std::string& name);
  Params (*resolve)(const std::string& name, const Params::Given& given);
};

template <class T>
Stage stage(const char* key) {
  return {key,
          [](const std::string& name) -> const std::vector<ParamSpec>& {
            return Registry<T>::instance().find(name).params;
          },
          [](const std::string& name, const Params::Given& given) {
            return Registry<T>::instance().resolve(name, given);
          }};
}

enum { kReorder, kFormat, kKernel, kModel, kValues };
const std::array<Stage, 5>& stages() {
  static const std::array<Stage, 5> all{stage<Reordering>("reorder"), stage<Format>("format"),
                                        Stage{"kernel", kernel_params, resolve_kernel},
                                        stage<Model>("model"), stage<ValueFamily>("values")};
  return all;
}

/// Calls `body`; an Error it throws gets the place of `setting` in front.
template <class Body>
auto at_place(const Setting& setting, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", setting.place, error.what()));
  }
}

/// The setting of an axis; null when the config does not give it.
const Setting* setting_of(const std::map<std::string, PointResolver::Slot>& axes, const char* key) {
  const auto found = axes.find(key);
  return found == axes.end() ? nullptr : found->second.setting;
}

[[noreturn]] void ill_typed(const std::string& key, const Setting& setting, const char* expected) {
  throw Error(
      fmt::format("{}: {} takes {}, not {}", setting.place, key, expected, setting.value.dump()));
}

const std::string& text_of(const std::string& key, const Setting& setting) {
  if (!setting.value.is_string()) ill_typed(key, setting, "a name");
  return setting.value.get_ref<const std::string&>();
}

std::int64_t integer_of(const std::string& key, const Setting& setting, std::int64_t least) {
  if (!setting.value.is_number_integer() || setting.value.get<std::int64_t>() < least)
    ill_typed(key, setting, least == 0 ? "an integer of at least 0" : "an integer of at least 1");
  return setting.value.get<std::int64_t>();
}

std::string choice_of(const std::string& key, const Setting& setting,
                      const std::vector<std::string>& choices) {
  const std::string& value = text_of(key, setting);
  require(std::ranges::find(choices, value) != choices.end(), "{}: {}", setting.place,
          unknown_name_message("value for " + key, value, choices));
  return value;
}

ParamValue param_value(const Setting& setting) {
  if (setting.value.is_boolean()) return setting.value.get<bool>();
  if (setting.value.is_number_integer()) return setting.value.get<std::int64_t>();
  if (setting.value.is_number()) return setting.value.get<double>();
  return setting.value.get<std::string>();
}

/// Without parameters: none, or left to the advisor.
bool is_open(int stage, const std::string& variant) {
  return variant.empty() || (variant == kAuto && (stage == kFormat || stage == kKernel));
}

bool declares(int stage, const std::string& variant, const std::string& param) {
  if (is_open(stage, variant)) return false;
  const auto& specs = stages()[stage].specs(variant);
  return std::ranges::find(specs, param, &ParamSpec::name) != specs.end();
}

/// True when the kernel has a parameter that selects this format.
bool offers_format(const std::string& kernel, const std::string& format) {
  if (is_open(kKernel, kernel)) return false;
  const auto& specs = stages()[kKernel].specs(kernel);
  const auto spec = std::ranges::find(specs, "format", &ParamSpec::name);
  return spec != specs.end() && std::ranges::find(spec->choices, format) != spec->choices.end();
}

/// The setting under the first of these keys that a layer has, in the layer of highest rank.
const Setting* strongest(const std::vector<Layer>& layers, std::span<const char* const> keys) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    for (const char* key : keys)
      if (const auto found = layer->settings->find(key); found != layer->settings->end())
        return &found->second;
  return nullptr;
}

const Setting* strongest(const std::vector<Layer>& layers, const char* key) {
  return strongest(layers, std::span(&key, 1));
}

/// "kernel.precision" -> {kKernel, "precision"}; "precision" -> {-1, "precision"}.
std::pair<int, std::string> split(const std::string& key, const Setting& setting) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return {-1, key};
  const std::string owner = key.substr(0, dot);
  const auto found = std::ranges::find(stages(), owner, &Stage::key);
  require(found != stages().end(), "{}: {}", setting.place,
          unknown_name_message("owner of a parameter", owner, variant_keys()));
  return {static_cast<int>(found - stages().begin()), key.substr(dot + 1)};
}

/// Puts `slot` over one of lower rank.
void override_slot(std::map<std::string, PointResolver::Slot>& slots, const std::string& key,
                   const PointResolver::Slot& slot) {
  const auto [present, is_new] = slots.try_emplace(key, slot);
  if (is_new) return;
  require(present->second.rank < slot.rank, "{}: {} is given twice, the other one is at {}",
          slot.setting->place, key, present->second.setting->place);
  present->second = slot;
}

/// Throws an Error for a format of a kernel that reads none.
void refuse_format(const std::map<std::string, PointResolver::Slot>& axes,
                   const std::string& kernel) {
  const auto format = axes.find("format");
  if (format == axes.end()) return;
  throw Error(
      fmt::format("{}: kernel {} multiplies two sparse matrices as they are, and reads no "
                  "format",
                  format->second.setting->place, kernel));
}

Variant make_variant(int stage, const std::string& name,
                     const std::map<std::string, PointResolver::Slot>& slots) {
  if (is_open(stage, name)) return {name, {}};
  Params::Given given;
  for (const auto& [param, slot] : slots) {
    given[param] = param_value(*slot.setting);
    at_place(*slot.setting, [&, &key = param] {
      stages()[stage].resolve(name, {{key, given[key]}});
    });
  }
  return {name, stages()[stage].resolve(name, given)};
}

}  // namespace

/// The layers with the published choices of the kernel below them where `as` requests those. The
/// choices of an order or a format that the config gives itself are left out.
std::vector<Layer> PointResolver::with_published_choices(const std::vector<Layer>& layers) {
  const Setting* as = strongest(layers, kAsKeys);
  const Setting* kernel = strongest(layers, "kernel");
  if (as == nullptr || kernel == nullptr) return layers;
  if (choice_of("as", *as, {kAsPublished, kAsDefault}) == kAsDefault) return layers;
  const std::string& name = text_of("kernel", *kernel);
  const auto& systems = Registry<Published>::instance();
  require(systems.contains(name), "{}: kernel {} is no published system; those are {}", as->place,
          name, fmt::join(systems.names(), ", "));

  const bool has_order = strongest(layers, "reorder") != nullptr;
  const bool has_format = strongest(layers, std::array{"format", "kernel.format"}) != nullptr;
  const auto [choices, is_new] =
      published_.try_emplace(fmt::format("{} {} {} {}", name, has_order, has_format, as->place));
  if (is_new) {
    const auto system = systems.make(name);
    for (const Published::Choice& choice : system->choices) {
      if (has_order && choice.key.starts_with("reorder")) continue;
      if (has_format && (choice.key.starts_with("format") || choice.key == "kernel.format"))
        continue;
      const Json value = std::visit([](const auto& v) { return Json(v); }, choice.value);
      choices->second[choice.key] = {value, as->place};
    }
  }
  std::vector<Layer> all{{&choices->second, kPublishedRank}};
  all.insert(all.end(), layers.begin(), layers.end());
  return all;
}

PointResolver::Sorted PointResolver::sort(const std::vector<Layer>& layers,
                                          const BackendTraits& backend) const {
  Sorted sorted;
  for (const Layer& layer : layers) {
    for (const auto& [key, setting] : *layer.settings) {
      require(key != "backend", "{}: backend is no axis: [experiment] backends lists them",
              setting.place);
      if (std::ranges::find(kAsKeys, key) != std::end(kAsKeys)) continue;
      // The format that a kernel reads is the point's format: either name sets it.
      if (key == "kernel.format")
        override_slot(sorted.axes, "format", {&setting, layer.rank});
      else if (std::ranges::find(axis_names(), key) != axis_names().end())
        override_slot(sorted.axes, key, {&setting, layer.rank});
      else
        sorted.params.push_back({key, {&setting, layer.rank}});
    }
  }
  for (const char* key : {"matrix", needed_axis(backend.activity)})
    require(sorted.axes.contains(key),
            "{}: no {} is given: put one into [grid], [[zip]], [[case]] or [ablation]",
            config_.path, key);
  for (const auto& [key, slot] : sorted.axes) refuse_beyond(backend, key, *slot.setting);
  return sorted;
}

std::string PointResolver::format_of(const std::string& kernel) {
  if (kernel == kAuto) return kAuto;
  std::string& format = kernel_formats_[kernel];
  if (format.empty()) format = format_read_by(kernel);
  return format;
}

std::array<std::string, PointResolver::kStages> PointResolver::stage_names(
    const Slots& axes, const BackendTraits& backend) {
  const bool multiplies = backend.activity == Activity::kMultiply;
  std::array<std::string, kStages> names{"none", "", "", multiplies ? "roofline" : "", "auto"};
  for (int s = 0; s < kStages; ++s) {
    const auto given = axes.find(stages()[s].key);
    if (given == axes.end()) continue;
    const Setting& setting = *given->second.setting;
    names[s] = text_of(stages()[s].key, setting);
    if (!multiplies || !is_open(s, names[s]))
      at_place(setting, [&] { stages()[s].specs(names[s]); });
  }
  if (backend.activity == Activity::kReorder) names[kValues].clear();
  if (!multiplies) return names;
  if (is_sparse_product(names[kKernel])) {
    refuse_format(axes, names[kKernel]);
    return names;
  }
  const std::string reads = format_of(names[kKernel]);
  if (names[kFormat].empty()) names[kFormat] = reads;
  const SourceLocation& place =
      axes.contains("format") ? axes.at("format").setting->place : config_.path;
  require(reads != kAuto || names[kFormat] == kAuto,
          "{}: kernel auto picks its format, and cannot be told to read {}", place, names[kFormat]);
  require(names[kFormat] == reads || offers_format(names[kKernel], names[kFormat]),
          "{}: kernel {} reads format {}, not {}", place, names[kKernel], reads, names[kFormat]);
  return names;
}

std::array<PointResolver::Slots, PointResolver::kStages> PointResolver::hand_out(
    const Sorted& sorted, const std::array<std::string, kStages>& names) {
  for (int s = 0; s < kStages; ++s)
    if (!is_open(s, names[s]))
      for (const ParamSpec& spec : stages()[s].specs(names[s])) declared_.insert({s, spec.name});

  std::array<Slots, kStages> slots;
  for (const auto& [key, slot] : sorted.params) {
    params_seen_.try_emplace(key, slot.setting->place);
    const auto [owner, param] = split(key, *slot.setting);
    std::vector<std::string> takers;
    for (int s = 0; s < kStages; ++s) {
      if (owner != -1 && owner != s) continue;
      if (!declares(s, names[s], param)) {
        if (!names[s].empty()) left_out_.insert({key, stages()[s].key + " " + names[s]});
        continue;
      }
      takers.push_back(stages()[s].key);
      override_slot(slots[s], param, slot);
    }
    require(takers.size() < 2, "{}: {} is a parameter of the {} and of the {}: write \"{}.{}\"",
            slot.setting->place, key, takers.empty() ? "" : takers.front(),
            takers.empty() ? "" : takers.back(), takers.empty() ? "" : takers.front(), param);
    if (!takers.empty()) params_applied_.insert(key);
  }
  const auto format = sorted.axes.find("format");
  if (format != sorted.axes.end() && declares(kKernel, names[kKernel], "format"))
    slots[kKernel]["format"] = format->second;
  return slots;
}

std::string PointResolver::matrix_name(const std::string& key, const Setting& setting) {
  const std::string& spec = text_of(key, setting);
  require(!spec.empty(), "{}: the name of a matrix is empty", setting.place);
  const auto known = references_.find(spec);
  if (known != references_.end()) return known->second;

  std::string reference = spec;
  KnownMatrix matrix{spec, 0};
  try {
    const MatrixSource source = find_matrix(spec);
    reference = source.reference;
    matrix.name = source.name;
    std::error_code unreadable;
    const auto size = std::filesystem::file_size(source.path, unreadable);
    if (!unreadable) matrix.file_bytes = static_cast<std::int64_t>(size);
  } catch (const Unsupported&) {
    // Not on this machine: the point says so when it runs.
    reference = at_place(setting, [&] { return matrix_reference(spec); });
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", setting.place, error.what()));
  }
  known_matrices_[reference] = matrix;
  return references_[spec] = reference;
}

std::string PointResolver::right_name(const Setting& setting) {
  const std::string& spec = text_of("right", setting);
  return spec == kSelf || spec == kTranspose ? spec : matrix_name("right", setting);
}

Variant PointResolver::variant(int stage, const std::string& name, const Slots& slots) {
  VariantKey key{stage, name, {}};
  for (const auto& [param, slot] : slots) std::get<2>(key).emplace_back(param, slot.setting);
  const auto found = variants_.find(key);
  if (found != variants_.end()) return found->second;
  return variants_.emplace(std::move(key), make_variant(stage, name, slots)).first->second;
}

Task PointResolver::resolve_task(const BackendTraits& backend, const Slots& axes,
                                 const std::array<Variant, kStages>& variants) {
  const auto given = [&](const char* key) { return setting_of(axes, key); };
  OperandValues operands{.values = variants[kValues], .seed = config_.seed};
  if (const auto* s = given("seed"))
    operands.seed = static_cast<std::uint64_t>(integer_of("seed", *s, 0));

  switch (backend.activity) {
    case Activity::kReorder: {
      Ordering ordering;
      if (const auto* s = given("threads")) ordering.threads = integer_of("threads", *s, 0);
      return ordering;
    }
    case Activity::kPack:
      return Packing{operands, variants[kFormat], config_.square};
    case Activity::kMultiply:
      break;
  }
  if (is_sparse_product(variants[kKernel].name)) {
    SparseProduct product{operands, kSelf, variants[kKernel]};
    if (const auto* s = given("right")) product.right = right_name(*s);
    if (const auto* s = given("mask"))
      product.mask = text_of("mask", *s) == kSelf ? kSelf : matrix_name("mask", *s);
    return product;
  }
  const auto* columns = given("n");
  const std::int64_t n = columns != nullptr ? integer_of("n", *columns, 1) : 128;
  if (is_sampled_product(variants[kKernel].name))
    return SampledProduct{operands, n, variants[kFormat], variants[kKernel]};
  DenseProduct product{operands, n, variants[kFormat], variants[kKernel], false};
  product.unpermute = backend.computes_c && config_.unpermute;
  return product;
}

void PointResolver::note_left_out(const Slots& axes, const BackendTraits& backend,
                                  const std::string& kernel) {
  const bool reorders = backend.activity == Activity::kReorder;
  const bool by_sparse = is_sparse_product(kernel);
  const bool by_dense = backend.activity == Activity::kMultiply && !by_sparse;
  const auto note = [&](const char* key, bool applies, const std::string& to) {
    if (setting_of(axes, key) != nullptr && !applies) left_out_.insert({key, to});
  };
  note("n", by_dense, "kernel " + kernel);
  for (const char* key : {"right", "mask"}) note(key, by_sparse, "kernel " + kernel);
  for (const char* key : {"seed", "values"}) note(key, !reorders, "backend " + backend.name);
  note("threads", reorders, "backend " + backend.name);
  note("model", backend.predicts, "backend " + backend.name);
  note("device", backend.needs_device, "backend " + backend.name);
  note("l2", backend.measures || backend.simulates, "backend " + backend.name);
}

Point PointResolver::resolve(const std::vector<Layer>& layers, const std::string& backend_name) {
  const BackendTraits backend = backend_traits(backend_name);
  const Sorted sorted = sort(with_published_choices(layers), backend);
  const Slots& axes = sorted.axes;
  const auto names = stage_names(axes, backend);
  const auto slots = hand_out(sorted, names);
  std::array<Variant, kStages> variants;
  for (int s = 0; s < kStages; ++s) variants[s] = variant(s, names[s], slots[s]);
  note_left_out(axes, backend, names[kKernel]);

  Point point{.backend = backend.name,
              .matrix = matrix_name("matrix", *axes.at("matrix").setting),
              .reorder = variants[kReorder],
              .task = resolve_task(backend, axes, variants)};
  if (backend.predicts) point.model = variants[kModel];
  std::string device = "h200";
  if (const auto* s = setting_of(axes, "device"))
    device = at_place(*s, [&] { return find_device(text_of("device", *s)).name; });
  if (backend.needs_device) point.device = device;
  if (backend.computes_c) point.check = {config_.check, config_.check && config_.against_fp32};

  if (backend.measures) point.measure = config_.measure;
  if (!is_replayable(point.task)) point.measure.launch = MeasureRule{}.launch;
  if (backend.simulates) point.measure.l2 = config_.measure.l2;
  if (const auto* s = setting_of(axes, "l2")) {
    const std::string l2 = choice_of("l2", *s, l2_choices());
    if (backend.measures || backend.simulates) point.measure.l2 = l2;
  }
  if (backend.simulates) point.sample = config_.sample;
  if (backend.counts && std::holds_alternative<DenseProduct>(point.task))
    point.counters = config_.counters;
  return point;
}

void PointResolver::refuse_unused() const {
  for (const auto& [key, place] : params_seen_) {
    if (params_applied_.contains(key)) continue;
    const bool qualified = key.find('.') != std::string::npos;
    std::vector<std::string> known = axis_names();
    for (const auto& [stage, param] : declared_)
      known.push_back(qualified ? stages()[stage].key + "." + param : param);
    throw Error(
        fmt::format("{}: {}", place, unknown_name_message("axis or parameter", key, known)));
  }
}

const PointResolver::KnownMatrix& PointResolver::known_matrix(const std::string& reference) const {
  return known_matrices_.at(reference);
}

std::vector<std::string> PointResolver::notes() const {
  std::vector<std::string> notes;
  for (const auto& [key, variant] : left_out_) {
    // A parameter without an owner is worth a note only at stages where another variant declares
    // it.
    const std::string param = key.substr(key.find('.') + 1);
    const bool has_takers =
        std::ranges::any_of(declared_, [&, &owner = variant](const auto& declared) {
          return declared.second == param && owner.starts_with(stages()[declared.first].key + " ");
        });
    const bool is_axis = std::ranges::find(axis_names(), key) != axis_names().end();
    if (has_takers || is_axis)
      notes.push_back(fmt::format("{} does not apply to {} and is left out there", key, variant));
  }
  return notes;
}

}  // namespace tessera
