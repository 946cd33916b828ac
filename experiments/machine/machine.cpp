#include "experiments/machine/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "experiments/machine/build_info.hpp"
#include "experiments/machine/own_process.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

constexpr const char* kGpuProbe = "gpu";

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

class HostProbe final : public Probe {
 public:
  Json look() const override {
    utsname names{};
    uname(&names);
    return {{"available", true},
            {"host", names.nodename},
            {"system", fmt::format("{} {}", names.sysname, names.release)},
            {"cpu", cpu_model()},
            {"threads", num_threads()},
            {"memory_bytes", memory_bytes()}};
  }
};

const Register<Probe> entry{{
    .name = "host",
    .summary = "processor, memory, operating system",
    .make = [](const Params&) { return std::make_unique<HostProbe>(); },
}};

}  // namespace

std::int64_t memory_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json build_description() {
  return {{"version", kBuildVersion},   {"commit", kBuildCommit}, {"dirty", kBuildDirty},
          {"compiler", kBuildCompiler}, {"flags", kBuildFlags},   {"cuda", kBuildCuda}};
}

Json look_at_machine() { return look_with(look_at_gpu()); }

Json look_at_gpu() {
  const auto& probes = Registry<Probe>::instance();
  return probes.contains(kGpuProbe) ? probes.make(kGpuProbe)->look() : Json();
}

Json look_with(const Json& gpu) {
  Json looks = Json::object();
  for (const std::string& name : Registry<Probe>::instance().names())
    looks[name] = name == kGpuProbe ? gpu : Registry<Probe>::instance().make(name)->look();
  return looks;
}

Json count_gpus() {
  const auto& probes = Registry<Probe>::instance();
  return probes.contains(kGpuProbe) ? probes.make(kGpuProbe)->count() : 0;
}

bool surely_has_gpu() {
  const auto& probes = Registry<Probe>::instance();
  return probes.contains(kGpuProbe) && probes.make(kGpuProbe)->is_sure();
}

Json environment_record() { return environment_record(in_own_process(look_at_machine)); }

Json environment_record(const Json& seen) {
  Json record{{"schema", 1}, {"type", "env"}, {"build", build_description()}};
  record.update(seen);
  Json lasting = record;
  if (lasting.contains("gpu")) lasting["gpu"].erase("clocks");
  record["env_id"] = hash_text(lasting.dump(-1, ' ', false, Json::error_handler_t::replace));
  record["started_at"] = utc_now();
  return record;
}

}  // namespace tessera
