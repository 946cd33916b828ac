// Device files: the schema of their quantities, the strict reader, and the table by name.
//
// The reader refuses an unknown key, another unit than the schema's, a value without a source, and
// a name that two files claim, because a wrong number in a file makes every prediction wrong.
#include "model/device.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"

namespace tessera {
namespace {

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}:{}", path, node.source().begin.line, node.source().begin.column);
}

/// The value of a key that has to be text.
std::string text(const std::string& path, const toml::table& table, std::string_view key) {
  const toml::node* node = table.get(key);
  require(node != nullptr, "{}: '{}' is missing", place(path, table), key);
  const auto value = node->value<std::string>();
  require(value && !value->empty(), "{}: '{}' has to be text", place(path, *node), key);
  return *value;
}

void check_keys(const std::string& path, const toml::table& table, std::string_view what,
                const std::vector<std::string>& known) {
  for (const auto& [key, node] : table)
    require(std::ranges::find(known, key.str()) != known.end(), "{}: {}",
            fmt::format("{}:{}:{}", path, key.source().begin.line, key.source().begin.column),
            unknown_name_message(what, key.str(), known));
}

Quantity read_quantity(const std::string& path, const QuantitySpec& spec, const toml::node& node) {
  const toml::table* table = node.as_table();
  require(table != nullptr, "{}: {} has to be {{ value, unit, source }}", place(path, node),
          spec.name);
  check_keys(path, *table, "key", {"value", "unit", "source"});
  const auto value = (*table)["value"].value<double>();
  require(value && *value > 0 && std::isfinite(*value), "{}: {} needs a positive, finite value",
          place(path, node), spec.name);
  const std::string unit = text(path, *table, "unit");
  require(unit == spec.unit, "{}: {} is given in '{}', it has to be in '{}'", place(path, node),
          spec.name, unit, spec.unit);
  return {*value, unit, text(path, *table, "source")};
}

std::map<std::string, Quantity, std::less<>> read_quantities(const std::string& path,
                                                             const toml::table& file,
                                                             std::string_view section) {
  std::map<std::string, Quantity, std::less<>> quantities;
  const toml::node* node = file.get(section);
  if (node == nullptr) return quantities;
  require(node->is_table(), "{}: [{}] has to be a table", place(path, *node), section);
  std::vector<std::string> known;
  for (const QuantitySpec& spec : quantity_specs()) known.push_back(spec.name);
  check_keys(path, *node->as_table(), "quantity", known);
  for (const QuantitySpec& spec : quantity_specs())
    if (const toml::node* quantity = node->as_table()->get(spec.name))
      quantities[spec.name] = read_quantity(path, spec, *quantity);
  return quantities;
}

toml::table parse(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw Error(fmt::format("{}:{}:{}: {}", path, error.source().begin.line,
                            error.source().begin.column, error.description()));
  }
}

std::vector<std::string> read_aliases(const std::string& path, const toml::table& file) {
  std::vector<std::string> aliases;
  const toml::node* node = file.get("aliases");
  if (node == nullptr) return aliases;
  require(node->is_array(), "{}: 'aliases' has to be a list", place(path, *node));
  for (const toml::node& alias : *node->as_array()) {
    const auto name = alias.value<std::string>();
    require(name && !name->empty(), "{}: an alias has to be text", place(path, alias));
    aliases.push_back(*name);
  }
  return aliases;
}

std::string read_generation(const std::string& path, const toml::table& file) {
  static const std::vector<std::string> known{"volta", "turing", "ampere",
                                              "ada",   "hopper", "blackwell"};
  const std::string generation = text(path, file, "generation");
  require(std::ranges::find(known, generation) != known.end(), "{}: {}",
          place(path, *file.get("generation")),
          unknown_name_message("generation", generation, known));
  return generation;
}

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    require(static_cast<unsigned char>(c) >= ' ' && c != 127,
            "'{}' has a control character, which a device file may not have", text);
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

/// The section's quantities in the order of the schema, one line each; nothing when it has none.
std::string section_text(const char* name,
                         const std::map<std::string, Quantity, std::less<>>& quantities) {
  std::string text;
  for (const QuantitySpec& spec : quantity_specs()) {
    const auto found = quantities.find(spec.name);
    if (found == quantities.end()) continue;
    const Quantity& quantity = found->second;
    text += fmt::format("{} = {{ value = {}, unit = {}, source = {} }}\n", spec.name,
                        quantity.value, quoted(quantity.unit), quoted(quantity.source));
  }
  return text.empty() ? text : fmt::format("\n[{}]\n{}", name, text);
}

/// The names of a device: its name and its aliases.
std::vector<std::string> names_of(const Device& device) {
  std::vector<std::string> names{device.name};
  names.insert(names.end(), device.aliases.begin(), device.aliases.end());
  return names;
}

const std::vector<Device>& all_devices() {
  static const std::vector<Device> devices = read_devices(shipped_path("model/devices"));
  return devices;
}

}  // namespace

const std::vector<QuantitySpec>& quantity_specs() {
  static const std::vector<QuantitySpec> specs{
      {"sm_count", "1", "streaming multiprocessors"},
      {"clock", "MHz", "SM clock: that of the stated tensor peaks, or the observed one under load"},
      {"tensor_clock", "MHz", "SM clock while tensor cores are busy, where it differs"},
      {"fp32", "TFLOP/s", "FP32 fused multiply-adds on CUDA cores, two operations each"},
      {"tf32", "TFLOP/s", "TF32 tensor cores, dense, FP32 accumulate"},
      {"fp16", "TFLOP/s", "FP16 tensor cores, dense, FP32 accumulate"},
      {"int8", "TOP/s", "INT8 tensor cores, dense, INT32 accumulate"},
      {"tf32_mma", "TFLOP/s", "TF32 through mma.sync.m16n8k8"},
      {"fp16_mma", "TFLOP/s", "FP16 through mma.sync.m16n8k16, FP32 accumulate"},
      {"dram_bandwidth", "GB/s", "device memory, read"},
      {"dram_capacity", "GB", "device memory"},
      {"l2_capacity", "bytes", "second-level cache"},
      {"l2_bandwidth", "GB/s", "second-level cache, read by all SMs"},
      {"l1_capacity", "bytes", "first-level cache and shared memory of one SM"},
      {"shared_per_sm", "bytes", "shared memory of one SM"},
      {"shared_per_block", "bytes", "largest shared memory of one thread block"},
      {"threads_per_sm", "1", "resident threads of one SM"},
      {"warps_per_sm", "1", "resident warps of one SM"},
      {"thread_blocks_per_sm", "1", "resident thread blocks of one SM"},
      {"registers_per_sm", "1", "32-bit registers of one SM"},
      {"launch_overhead", "us", "time between the starts of two empty kernels in a stream"},
      {"launch_latency", "us",
       "time that a launch behind another one adds to that of its thread blocks"},
      {"host_round_trip", "us", "a launch that reports to the host, until the host has seen it"},
      {"host_synchronisation", "us", "a launch and the host's wait for its stream"},
      {"pool_allocation", "us", "an allocation of a megabyte from a pool that has it"},
      {"thread_block_launch_interval", "1/us",
       "thread blocks of 128 threads that start and end per microsecond, whole GPU"},

      {"thread_block_gap", "cycles",
       "from the end of a thread block to the start of the next in its place"},
      {"l1_latency", "cycles", "dependent load that hits L1"},
      {"l2_latency", "cycles", "dependent load that hits the near part of L2"},
      {"l2_far_latency", "cycles", "dependent load that hits the far part of L2"},
      {"dram_latency", "cycles", "dependent load from device memory"},
      {"shared_latency", "cycles", "dependent load from shared memory"},
      {"l2_lookup_bandwidth", "GB/s", "sectors that the slices of L2 look up at most"},
      {"l2_fabric_bandwidth", "GB/s", "between the partitions of L2, both ways together"},
      {"l2_partitions", "1", "parts of L2 with different latencies from one SM"},

      {"l1_bandwidth", "bytes/cycle", "one SM, loads that hit L1"},
      {"shared_bandwidth", "bytes/cycle", "one SM, loads from shared memory without conflicts"},
      {"l2_sm_bandwidth", "bytes/cycle", "one SM alone, loads that hit L2"},
      {"dram_write_bandwidth", "GB/s", "device memory, stores of whole lines"},
      {"dram_copy_bandwidth", "GB/s", "device memory, bytes read and bytes written together"},

      {"tf32_m16n8k4_interval", "cycles", "from one MMA to the next of one sub-core at full rate"},
      {"tf32_m16n8k8_interval", "cycles", "from one MMA to the next of one sub-core at full rate"},
      {"fp16_m16n8k8_interval", "cycles", "from one MMA to the next of one sub-core at full rate"},
      {"fp16_m16n8k16_interval", "cycles", "from one MMA to the next of one sub-core at full rate"},
      {"tf32_m16n8k4_latency", "cycles", "from one MMA to the next that adds to its result"},
      {"tf32_m16n8k8_latency", "cycles", "from one MMA to the next that adds to its result"},
      {"fp16_m16n8k8_latency", "cycles", "from one MMA to the next that adds to its result"},
      {"fp16_m16n8k16_latency", "cycles", "from one MMA to the next that adds to its result"},
      {"fma_latency", "cycles", "from one FP32 multiply-add to the next that needs its result"},
      {"issue_rate", "1/cycle", "warp instructions of one SM, integer additions and FMA in turn"},
      {"barrier_latency", "cycles", "__syncthreads of a thread block of four warps"},
      {"fence_latency", "cycles", "__threadfence that has nothing to wait for"},
      {"exchange_latency", "cycles",
       "an atomic between two fences, until all lanes have its result"},
      {"async_copy_latency", "cycles",
       "a 16-byte cp.async from the near L2, until it can be read in shared memory"},

      {"load_interval", "cycles", "one SM, per load of 32 adjacent floats by a warp from L1"},
      {"load_line_interval", "cycles",
       "one SM, per further 128-byte line that a warp's load touches in L1"},
      {"load_wide_interval", "cycles", "one SM, per load of 512 adjacent bytes by a warp from L1"},
      {"async_copy_interval", "cycles",
       "of one SM, a warp copies 512 adjacent bytes from L2 to shared memory past L1 "
       "(cp.async.cg)"},
      {"link_bandwidth", "GB/s", "to another GPU of the host, each way, large messages"},
      {"link_latency", "us", "exchange of a small message with another GPU of the host"},
      {"network_bandwidth", "GB/s", "to GPUs of other hosts, each way, for each GPU"},
      {"gpus_per_host", "1", "GPUs that links connect"},
      {"atomic_same", "Gop/s", "red.add.f32 of all SMs to one address"},
      {"atomic_distinct", "Gop/s",
       "red.add.f32 of all SMs, warps to adjacent ones of 2^20 addresses"},
      {"atomic_vector", "Gfloat/s", "floats that red.add.v4.f32 adds to 2^20 addresses, all SMs"},
  };
  return specs;
}

bool Device::has(std::string_view quantity) const {
  return datasheet.find(quantity) != datasheet.end() || measured.find(quantity) != measured.end();
}

const Quantity& Device::get(std::string_view quantity, Ceilings preferred) const {
  const bool measured_first = preferred == Ceilings::kMeasured;
  for (const auto* section :
       {measured_first ? &measured : &datasheet, measured_first ? &datasheet : &measured}) {
    const auto found = section->find(quantity);
    if (found != section->end()) return found->second;
  }
  throw Unsupported(fmt::format("{} has no {}", title, quantity));
}

Device read_device(const std::string& path) {
  const toml::table file = parse(path);
  check_keys(path, file, "key",
             {"title", "aliases", "generation", "compute_capability", "datasheet", "measured"});
  Device device;
  device.name = std::filesystem::path(path).stem().string();
  device.title = text(path, file, "title");
  device.generation = read_generation(path, file);
  device.compute_capability = text(path, file, "compute_capability");
  device.aliases = read_aliases(path, file);
  device.datasheet = read_quantities(path, file, "datasheet");
  device.measured = read_quantities(path, file, "measured");
  return device;
}

std::string device_text(const Device& device) {
  std::string text = fmt::format("# {}: every number with its source.\ntitle = {}\naliases = [",
                                 device.title, quoted(device.title));
  for (const std::string& alias : device.aliases)
    text += (alias == device.aliases.front() ? "" : ", ") + quoted(alias);
  text += fmt::format("]\ngeneration = {}\ncompute_capability = {}\n", quoted(device.generation),
                      quoted(device.compute_capability));
  text += section_text("datasheet", device.datasheet);
  return text + section_text("measured", device.measured);
}

std::vector<Device> read_devices(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  std::ranges::sort(paths);

  std::vector<Device> devices;
  std::map<std::string, std::string> path_of_name;
  for (const std::string& path : paths) {
    devices.push_back(read_device(path));
    for (const std::string& name : names_of(devices.back())) {
      const auto [claim, is_new] = path_of_name.try_emplace(name, path);
      require(is_new, "{}: the name '{}' is already that of {}", path, name, claim->second);
    }
  }
  return devices;
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Device& device : all_devices()) names.push_back(device.name);
  return names;
}

const Device& find_device(std::string_view name) {
  std::vector<std::string> known;
  for (const Device& device : all_devices())
    for (const std::string& own : names_of(device)) {
      if (own == name) return device;
      known.push_back(own);
    }
  throw Error(unknown_name_message("device", name, known));
}

}  // namespace tessera
