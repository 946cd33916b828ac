#include "experiments/run/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "formats/base/check.hpp"
#include "model/simulator/report.hpp"

namespace tessera {
namespace {

using simulator::BlockSpan;
using simulator::LaunchResult;
using simulator::OpSpan;

constexpr int kBalanceBins = 40;

const char* operation_text(WarpOp::Kind kind) {
  using enum WarpOp::Kind;
  switch (kind) {
    case kIssue:
      return "issue";
    case kPause:
      return "pause";
    case kMma:
      return "mma";
    case kAsyncMma:
      return "async_mma";
    case kShared:
      return "shared";
    case kLoad:
      return "load";
    case kAsyncCopy:
      return "async_copy";
    case kStore:
      return "store";
    case kAtomic:
      return "atomic";
    case kExchange:
      return "exchange";
    case kFence:
      return "fence";
    case kWait:
      return "wait";
    case kWaitMma:
      return "wait_mma";
    case kBarrier:
      break;
  }
  return "barrier";
}

std::int64_t longest_thread_block(const LaunchResult& launch) {
  const auto longest = std::ranges::max_element(
      launch.spans, {}, [](const BlockSpan& span) { return span.end - span.start; });
  return longest - launch.spans.begin();
}

const LaunchResult& main_launch_of(const simulator::Result& result, const WorkDescription& work) {
  const LaunchResult* main = simulator::main_launch(result);
  require<Unsupported>(main != nullptr, "{} launches no thread blocks for this matrix",
                       work.kernel);
  return *main;
}

}  // namespace

const LaunchResult& Timeline::launch() const { return *simulator::main_launch(result); }

const BlockSpan& Timeline::span() const {
  return launch().spans[static_cast<std::size_t>(thread_block)];
}

Timeline make_timeline(const WorkDescription& work, const Device& device,
                       const TimelineRequest& request) {
  const auto simulated = [&](std::int64_t watched, const char* what) {
    simulator::Options options{.warm = request.warm, .watched = watched};
    if (request.progress) options.progress = [&](double done) { request.progress(what, done); };
    return simulator::simulate(work, device, options);
  };
  const std::int64_t wanted = request.thread_block
                                  ? *request.thread_block
                                  : longest_thread_block(main_launch_of(
                                        simulated(-1, "finding the longest thread block"), work));
  Timeline timeline{simulated(wanted, "watching a thread block"), wanted};
  const LaunchResult& main = main_launch_of(timeline.result, work);
  require(wanted >= 0 && wanted < std::ssize(main.spans),
          "thread block {}: launch {} of {} has {}, numbered from 0", wanted, main.name,
          work.kernel, main.spans.size());
  return timeline;
}

Json describe(const Timeline& timeline, const Point& point, const std::string& matrix) {
  const simulator::Report report = simulator::report(timeline.result);
  const double mhz = timeline.result.machine.clock_mhz;
  return {{"schema", 1},
          {"type", "timeline"},
          {"origin", "simulated"},
          {"params", to_json(point)},
          {"matrix", matrix},
          {"time_us", timeline.result.time_us},
          {"bound_by", report.bound_by},
          {"waves", report.waves},
          {"sms", timeline.result.machine.limits.sms},
          {"resident_thread_blocks", report.resident_thread_blocks},
          {"sm_balance", report.sm_balance},
          {"launch", timeline.launch().name},
          {"thread_block", timeline.thread_block},
          {"thread_block_start_us", timeline.span().start / mhz},
          {"thread_block_end_us", timeline.span().end / mhz}};
}

std::string thread_blocks_csv(const Timeline& timeline) {
  const double mhz = timeline.result.machine.clock_mhz;
  std::string text = "launch,thread_block,sm,start_us,end_us\n";
  for (const LaunchResult& launch : timeline.result.launches) {
    std::int64_t thread_block = 0;
    for (const BlockSpan& span : launch.spans)
      fmt::format_to(std::back_inserter(text), "{},{},{},{:.6f},{:.6f}\n", launch.name,
                     thread_block++, span.sm, span.start / mhz, span.end / mhz);
  }
  return text;
}

std::string operations_csv(const Timeline& timeline) {
  const double mhz = timeline.result.machine.clock_mhz;
  const LaunchResult& launch = timeline.launch();
  std::vector<OpSpan> operations = launch.watched;
  std::ranges::stable_sort(operations, {}, [](const OpSpan& operation) {
    return std::tuple(operation.warp, operation.start, operation.end);
  });
  std::string text = "launch,warp,operation,start_us,end_us\n";
  for (const OpSpan& operation : operations)
    fmt::format_to(std::back_inserter(text), "{},{},{},{:.6f},{:.6f}\n", launch.name,
                   operation.warp, operation_text(operation.kind), operation.start / mhz,
                   operation.end / mhz);
  return text;
}

std::string balance_csv(const Timeline& timeline) {
  const simulator::BalanceHistogram histogram = simulator::balance(timeline.result, kBalanceBins);
  std::string text = "low_us,high_us,thread_blocks\n";
  for (std::size_t bin = 0; bin < histogram.thread_blocks.size(); ++bin)
    fmt::format_to(std::back_inserter(text), "{:.6f},{:.6f},{}\n", histogram.edges_us[bin],
                   histogram.edges_us[bin + 1], histogram.thread_blocks[bin]);
  return text;
}

}  // namespace tessera
