#include "experiments/backends/measure_dense_product.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "experiments/backends/check_result.hpp"
#include "experiments/backends/later_product.hpp"
#include "experiments/backends/launch_timer.hpp"
#include "experiments/backends/launch_watch.hpp"
#include "experiments/backends/poisoned_output.hpp"
#include "experiments/backends/restore.hpp"
#include "experiments/counters/counter_source.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "kernels/device/restore_rows.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

/// The results of two launches, the second with B negated.
struct Fetched {
  std::shared_ptr<const FetchedOutput> first, later;
};

/// Reads them, and counts the elements that the launches did not write.
void collect(const Fetched& fetched, std::int64_t rows, std::int64_t n, BackendResult& result) {
  LaunchOutput found = fetched.first->read(rows, n);
  result.c = std::move(found.c);
  result.unwritten = found.unwritten;
  result.guards_intact = found.guards_intact;
  LaunchOutput later = fetched.later->read(rows, n);
  add_reason(later_launch_fault(later), result.fault);
  result.c_of_negated = std::move(later.c);
}

/// The fastest of the algorithms that take this case, and the time of each.
struct Choice {
  int candidate = -1;
  std::map<std::string, double> times_us = {};
};

Choice choose(GpuMultiplication& gpu, const Operands& operands, const MeasureRule& rule,
              cudaStream_t stream) {
  const auto names = gpu.candidates();
  if (names.size() == 1) {
    gpu.prepare(0, operands, stream);
    return {.candidate = 0};
  }
  MeasureRule quick = rule;
  quick.max_samples = quick.min_samples;
  Choice choice;
  double best = 0;
  for (int i = 0; i < static_cast<int>(names.size()); ++i) {
    try {
      gpu.prepare(i, operands, stream);
    } catch (const Unsupported&) {
      continue;
    }
    const double us =
        time_launches([&](cudaStream_t s) { gpu.launch(i, operands, s); }, quick, stream)
            .summary.median;
    choice.times_us[names[i]] = us;
    if (choice.candidate < 0 || us < best) {
      choice.candidate = i;
      best = us;
    }
  }
  require<Unsupported>(choice.candidate >= 0, "none of the library's algorithms takes this case");
  gpu.prepare(choice.candidate, operands, stream);
  return choice;
}

/// Times the restoring of C's rows and compares the result with the host's. `c` is the content of
/// `c_device`.
void time_restoring(const Multiplication& m, const DenseMatrix& c, const void* c_device,
                    cudaStream_t stream, BackendResult& result) {
  if (m.rows.is_identity()) {
    result.findings.unpermute = RestorePart{};
    return;
  }
  require<Unsupported>(m.kernel.arithmetic().storage.c == ElementType::kFp32,
                       "rows of a C in {} are not restored",
                       name_of(m.kernel.arithmetic().storage.c));
  const Permutation inverse = m.rows.inverse();
  const DeviceArray<std::int32_t> new_of_old(inverse.old_of_new());
  PoisonedOutput restored(ElementType::kFp32, c.values.size());
  const LaunchTimes times = time_launches(
      [&](cudaStream_t s) {
        restore_rows(static_cast<const float*>(c_device), new_of_old.data(),
                     static_cast<std::int32_t>(c.rows), c.cols,
                     static_cast<float*>(restored.data()), s);
      },
      m.point.measure, stream);
  result.findings.unpermute = {times.summary, "gpu", {}};
  const LaunchOutput output = restored.read(c.rows, c.cols);
  const BitComparison bits = compare_bits(output.c, permute_rows(c, inverse));
  const std::string fault = launch_fault(output.unwritten, output.guards_intact, bits);
  if (!fault.empty()) add_reason("restoring the rows of C: " + fault, result.fault);
}

constexpr int kWarmingLaunches = 2;  // of the same product, before one that is counted

/// Reads the counters of one product. A named source that cannot be used here makes the point
/// "skipped"; with source "auto" the record says why nothing was counted.
void count(const Multiplication& m, const std::string& algorithm,
           const std::function<void(cudaStream_t)>& launch, cudaStream_t stream,
           BackendResult& result) {
  const CounterRule& rule = m.point.counters;
  const CounterChoice choice = find_counter_source(rule.source);
  if (!choice.missing.empty()) {
    require<Unsupported>(rule.source == "auto", "counters: {}", choice.missing);
    result.findings.counters_missing = choice.missing;
    return;
  }
  CountedProduct product{m.point, algorithm, kWarmingLaunches, {}, [&] {
                           launch(stream);
                           cuda_check(cudaDeviceSynchronize(), "running a counted product");
                         }};
  std::optional<L2Flush> flush;
  if (m.point.measure.l2 == "flush") {
    flush.emplace();
    product.warming = 0;
    product.flush = [&] {
      flush->overwrite(stream);
      cuda_check(cudaDeviceSynchronize(), "flushing");
    };
  }
  result.findings.counters = choice.source->collect(rule.metrics, product);
  result.findings.counters_source = choice.name;
  result.findings.counters_l2 = m.point.measure.l2;
}

}  // namespace

BackendResult measure_dense_product(const Multiplication& m, GpuMultiplication& gpu,
                                    std::span<const std::uint16_t> b_in_16_bits) {
  const std::int64_t rows = m.a.rows(), n = m.b.cols;
  const cudaStream_t stream = nullptr;

  const Storage storage = m.kernel.arithmetic().storage;
  DeviceArray<std::byte> b = b_in_16_bits.empty()
                                 ? upload_as(storage.b, m.b.values)
                                 : DeviceArray<std::byte>(std::as_bytes(b_in_16_bits));
  PoisonedOutput output(storage.c, static_cast<std::size_t>(rows * n));
  const Operands operands{b.data(), output.data()};
  const Choice choice = choose(gpu, operands, m.point.measure, stream);

  BackendResult result;
  Fetched fetched;
  if (m.point.check.enabled) {  // a large C takes longer to bring back than to time
    output.poison();
    {
      const WatchedLaunch watched;
      gpu.launch(choice.candidate, operands, stream);
      cuda_check(cudaDeviceSynchronize(), "running the kernel");
    }
    fetched.first = output.fetch();
    result.generation = gpu_generation();
  }

  const GpuClocks before = gpu_clocks();
  const EnqueueLaunch launch = [&](cudaStream_t s) { gpu.launch(choice.candidate, operands, s); };
  LaunchTimes times = time_launches(launch, m.point.measure, stream);
  result.time_us = times.summary.median;
  result.findings.clocks = {before, gpu_clocks()};
  RepeatedLaunches repeated(storage.b, b.data(), static_cast<std::int64_t>(m.b.values.size()),
                            output, launch, stream);
  add_reason(repeat_fault(repeated), times.fault);
  result.findings.time = time_part(times, m.point.measure);
  if (m.point.check.enabled) {
    repeated.launch_negated();
    fetched.later = output.fetch();
    result.rest = [fetched = std::move(fetched), rows, n](BackendResult& unfinished) {
      collect(fetched, rows, n, unfinished);
    };
  }
  repeated.restore();
  // C once more: the sums of a kernel with atomics differ from launch to launch.
  if (dense_product(m.point).unpermute)
    time_restoring(m, output.read(rows, n).c, output.data(), stream, result);
  if (!choice.times_us.empty()) {
    result.findings.winner = gpu.candidates()[choice.candidate];
    result.findings.candidates_us = choice.times_us;
  }
  if (!m.point.counters.source.empty())
    count(m, gpu.candidates()[choice.candidate], launch, stream, result);
  return result;
}

}  // namespace tessera
