// The timer against launches that cheat and a GPU that is disturbed, on a device whose clocks the
// tests set. The same cheats run on a GPU in cheats_device_test.cpp.
#include "experiments/backends/timed_launches.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "experiments/points/point.hpp"

namespace tessera {
namespace {

/// A device with one stream that is timed and one that is not.
class SimulatedDevice final : public TimedDevice {
 public:
  double work_us = 20;         // of a launch, on the stream
  double hidden_us = 0;        // of a launch, on the other stream
  double hidden_delay_us = 0;  // from the launch until its hidden work begins
  double clock_rate = 1;       // of the device's clock
  double submit_us = 1;        // until a launch is enqueued
  std::int64_t set_aside = 0;
  std::vector<double> interruptions_us = {};  // of the host, one for each wait for the device
  std::vector<GpuLoad> loads = {};            // one after the other; the last one stays
  int emptied = 0, launched = 0;

  void empty_l2() override { ++emptied; }
  void start() override { started_ = std::max(now_, stream_); }
  void prepare(std::int64_t count) override { prepared_ = count; }
  void launch(std::int64_t count) override {
    REQUIRE(count == prepared_);
    for (; count > 0; --count) {
      ++launched;
      now_ += submit_us;
      stream_ = std::max(stream_, now_) + work_us;
      other_ = std::max(other_, now_ + hidden_delay_us) + hidden_us;
    }
  }
  double stop_us() override {
    wait_until(stream_);
    return clock_rate * (stream_ - started_);
  }
  void finish() override { wait_until(std::max(stream_, hidden_us > 0 ? other_ : 0)); }
  double host_us() override { return now_; }
  std::int64_t take_back_l2() override { return std::exchange(set_aside, 0); }
  GpuLoad load() override {
    if (loads.empty()) return {};
    const std::size_t place = std::min(loaded_++, loads.size() - 1);
    return loads[place];
  }

 private:
  void wait_until(double us) {
    now_ = std::max(now_, us) + 5;
    if (waited_ < interruptions_us.size()) now_ += interruptions_us[waited_];
    ++waited_;
  }

  std::int64_t prepared_ = 0;
  double now_ = 1000, stream_ = 0, other_ = 0, started_ = 0;
  std::size_t loaded_ = 0, waited_ = 0;
};

MeasureRule rule(const char* l2 = "warm") {
  MeasureRule rule;
  rule.l2 = l2;
  return rule;
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a launch that does its work between start and stop has a time that is trusted") {
  for (const double us : {0.5, 3.0, 20.0, 900.0, 5e4})
    for (const char* l2 : {"warm", "flush"}) {
      CAPTURE(us);
      SimulatedDevice device;
      device.work_us = us;

      const LaunchTimes times = time_launches(device, rule(l2));

      CHECK(times.fault == "");
      CHECK(times.disturbed == "");
      CHECK(times.measurements == 1);
      CHECK(times.summary.median >= us);
      CHECK(times.summary.median <= us + 1);
      CHECK((device.emptied > 0) == (std::string(l2) == "flush"));
    }
}

TEST_CASE("work on another stream is found, however short the launches are") {
  for (const double us : {0.5, 20.0, 900.0, 5e4})
    for (const char* l2 : {"warm", "flush"}) {
      CAPTURE(us);
      SimulatedDevice device;
      device.work_us = us;
      device.hidden_us = 2 * us + 1;

      const LaunchTimes times = time_launches(device, rule(l2));

      CHECK(mentions(times.fault, "the time cannot be trusted"));
      CHECK(mentions(times.fault, "are followed by"));
    }
}

TEST_CASE("a launch that returns early and finishes after the stop is found") {
  SimulatedDevice device;
  device.work_us = 2;
  device.hidden_us = 1;
  device.hidden_delay_us = 3000;

  CHECK(mentions(time_launches(device, rule()).fault, "part of it is on another stream"));
}

TEST_CASE("a clock of the device that differs from the host's is found") {
  for (const double rate : {0.1, 0.5, 0.9}) {
    SimulatedDevice device;
    device.clock_rate = rate;
    const LaunchTimes times = time_launches(device, rule());
    CHECK(mentions(times.fault, "by the device's clock and"));
    CHECK(time_part(times, rule()).disturbed == times.fault);
  }
}

TEST_CASE("a twelfth of the time is the least hidden share that is always found") {
  SimulatedDevice device;
  const auto fault_with_hidden = [&](double share) {
    device = {};
    device.work_us = 100 * (1 - share);
    device.hidden_us = device.work_us + 100 * share;  // ends that much later
    return time_launches(device, rule()).fault;
  };

  CHECK(fault_with_hidden(1.0 / 12) != "");
  CHECK(fault_with_hidden(0.04) == "");
}

TEST_CASE("a host that is interrupted does not make an honest time a fault") {
  SimulatedDevice device;
  // Every wait but each seventh takes 10 ms longer: proofs have three.
  for (int i = 0; i < 20000; ++i) device.interruptions_us.push_back(i % 14 < 8 ? 1e4 : 0);

  CHECK(time_launches(device, rule()).fault == "");
}

TEST_CASE("a part of the L2 that outlasts its emptying is a fault where launches start cold") {
  SimulatedDevice device;
  device.set_aside = 1 << 20;

  CHECK(mentions(time_launches(device, rule("flush")).fault, "keeps 1048576 bytes of the L2"));
  CHECK(device.set_aside == 0);
  device.set_aside = 1 << 20;
  CHECK(time_launches(device, rule("warm")).fault == "");
  CHECK(device.set_aside == 0);
}

GpuLoad cool() { return {{1980, 3201, 0}, {{"power", 500}, {"heat", 0}}, 0}; }

GpuLoad with_power(std::uint64_t ns) {
  GpuLoad load = cool();
  load.held_back_ns["power"] = ns;
  return load;
}

TEST_CASE("launches of a graph are timed in longer samples, unless each starts cold") {
  const auto timed = [](const char* launch, const char* l2) {
    SimulatedDevice device;
    device.work_us = 3;
    MeasureRule asked = rule(l2);
    asked.launch = launch;
    const LaunchTimes times = time_launches(device, asked);
    return std::pair{times.summary.launches_per_sample, time_part(times, asked).launch};
  };

  CHECK(timed("stream", "warm") == std::pair{33L, std::optional<std::string>{}});
  CHECK(timed("graph", "warm") == std::pair{167L, std::optional<std::string>{"graph"}});
  CHECK(timed("graph", "flush") == std::pair{1L, std::optional<std::string>{}});
}

TEST_CASE("samples with lowered clocks are taken again") {
  SimulatedDevice device;
  device.loads = {cool(), with_power(600), with_power(600)};

  const LaunchTimes times = time_launches(device, rule());

  CHECK(times.measurements == 2);
  CHECK(times.disturbed == "");
  CHECK(times.fault == "");
  const TimePart part = time_part(times, rule());
  CHECK(part.measurements == 2);
  CHECK_FALSE(part.disturbed);
}

TEST_CASE("a time is marked when the clocks are lowered in every measurement") {
  SimulatedDevice device;
  device.loads = {cool(), with_power(600), with_power(700), with_power(800), with_power(900)};

  const LaunchTimes times = time_launches(device, rule());

  CHECK(times.measurements == 3);
  CHECK(times.disturbed == "the clocks were lowered: power");
  CHECK(time_part(times, rule()).disturbed == times.disturbed);
}

TEST_CASE("a time is marked when another process is on the GPU, and not taken again") {
  SimulatedDevice device;
  GpuLoad shared = cool();
  shared.other_processes = 2;
  device.loads = {cool(), shared};

  const LaunchTimes times = time_launches(device, rule());

  CHECK(times.measurements == 1);
  CHECK(times.disturbed == "2 other processes are on the GPU");
}

/// A product whose launches compute, or only look whether there is anything new.
class SimulatedProduct final : public RepeatedProduct {
 public:
  SimulatedProduct(double work_us, double look_us) : work_us_(work_us), look_us_(look_us) {}

  void rewrite() override {}
  void change() override { changed_ = true; }
  double launch_us() override {
    const double us = changed_ || look_us_ == 0 ? work_us_ : look_us_;
    changed_ = false;
    return us;
  }

 private:
  double work_us_, look_us_;
  bool changed_ = false;  // the timed launches came before
};

TEST_CASE("launches that compute only when something has changed are found") {
  for (const double us : {15.0, 100.0, 1e4, 1e6}) {
    CAPTURE(us);
    SimulatedProduct honest(us, 0), cheat(us, 2 + us / 100);

    CHECK(repeat_fault(honest) == "");
    CHECK(mentions(repeat_fault(cheat), "after its operand and its result have changed"));
  }
}

}  // namespace
}  // namespace tessera
