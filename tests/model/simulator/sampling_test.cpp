// Sampled simulations held against whole ones, on a GPU small enough that both take a second: the
// stated errors hold, and what cannot be told from a sample is simulated whole.

#include "model/simulator/sampling.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/support.hpp"

namespace tessera::simulator {
namespace {

constexpr Sampling kSampling{.stretches = 6, .least_bytes = 0};

/// A 33rd of an H200, with an L2 that no operand of these tests fits.
Machine small_gpu(const WorkDescription& work) {
  Machine machine = describe(find_device("h200"), work);
  machine.limits.sms = 4;
  machine.l2_bytes = 256 * 1024;
  for (double* interval :
       {&machine.slice_interval, &machine.atomic_interval, &machine.answer_interval,
        &machine.fabric_interval, &machine.dram_read_interval, &machine.dram_write_interval,
        &machine.dram_turn_interval})
    *interval *= 33;
  machine.dram_held_sectors /= 33;
  return machine;
}

struct Case {
  std::unique_ptr<PackedMatrix> packed;
  WorkDescription work;
  Machine machine;
};

Case make_case(const char* matrix, const char* kernel_name) {
  const auto kernel = Registry<SpmmKernel>::instance().make(kernel_name);
  Case made;
  made.packed =
      Registry<Format>::instance().make(kernel->format())->pack(load_matrix(matrix, false).matrix);
  made.work = kernel->work(*made.packed, 32);
  made.machine = small_gpu(made.work);
  return made;
}

TEST_CASE("sampled times and counters are within their stated errors of the whole simulation's") {
  struct Expected {
    const char* matrix;
    double largest_error;  // of the time, that may be stated
  };
  // Of every twentieth counter the truth may lie outside, and counters of one product are
  // correlated.
  int counters_held = 0, counters_missed = 0;
  for (const Expected& expected :
       {Expected{"uniform(rows=60000, cols=60000, density=0.00012, seed=5)", 0.1},
        Expected{"band(n=60000, bandwidth=20, density=0.17, seed=6)", 0.1},
        Expected{"rmat(scale=16, edge_factor=8, a=0.4, b=0.22, c=0.22, seed=7)", 0.5}}) {
    int sampled_kernels = 0;
    for (const char* kernel : {"csr_spmm", "acc_spmm", "windows_spmm"}) {
      CAPTURE(expected.matrix);
      CAPTURE(kernel);
      const Case one = make_case(expected.matrix, kernel);

      const Result whole = simulate(one.work, one.machine);
      const Result sampled = simulate(one.work, one.machine, {.sampling = kSampling});

      CHECK(whole.sampled_share() == 1);
      CHECK(whole.time_error == 0);
      CHECK(sampled.sampled_share() <= (sampled.time_error == 0 ? 1 : 0.55));
      const double error = std::abs(sampled.time_us - whole.time_us) / sampled.time_us;
      CHECK(error <= sampled.time_error);
      CHECK(sampled.time_error < expected.largest_error);
      CHECK(sampled.sm().mma == one.work.total().mma);
      if (sampled.counter_errors.empty()) continue;
      ++sampled_kernels;
      const auto truth = counters(whole), found = counters(sampled);
      for (const auto& [name, value] : truth) {
        // Counts are rounded once a stretch.
        const double limit = sampled.counter_errors.at(name) + kSampling.stretches;
        ++(std::abs(found.at(name) - value) <= limit ? counters_held : counters_missed);
      }
    }
    CHECK(sampled_kernels > 0);
  }
  CHECK(counters_missed <= 0.1 * counters_held);
}

TEST_CASE("a sampled simulation is the same for any number of threads") {
  const Case one = make_case("uniform(rows=50000, cols=50000, density=0.0002, seed=8)", "acc_spmm");
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const Result result = simulate(one.work, one.machine, {.sampling = kSampling});
    set_num_threads(0);
    return std::tuple(result.time_us, result.time_error, counters(result), result.counter_errors);
  };

  const auto alone = run(1);

  CHECK(std::get<1>(alone) > 0);
  CHECK(run(3) == alone);
}

TEST_CASE("a launch that is too small to be sampled is simulated whole") {
  const Case one = make_case("uniform(rows=3000, cols=3000, density=0.003, seed=9)", "acc_spmm");

  const Result whole = simulate(one.work, one.machine);
  const Result asked = simulate(one.work, one.machine, {.sampling = kSampling});

  CHECK(asked.sampled_share() == 1);
  CHECK(asked.time_error == 0);
  CHECK(asked.counter_errors.empty());
  CHECK(asked.time_us == whole.time_us);
  CHECK(counters(asked) == counters(whole));
}

/// Thread blocks of one warp that pause as long as their described work says, and load a line.
class Pauses final : public LaunchTrace {
 public:
  explicit Pauses(const std::vector<ThreadBlockWork>& blocks) : blocks_(blocks) {}
  bool next(std::int64_t block, int, WarpCursor& cursor, WarpTrace& trace) const override {
    constexpr int kPiece = 300;
    if (cursor.step == 0) {
      trace.load(0);
      trace.touch(static_cast<std::uint64_t>(block) * 128, 128);
      trace.wait(0);
    }
    trace.issue(1);
    trace.pause(kPiece);
    return ++cursor.step < blocks_[static_cast<std::size_t>(block)].b_bytes / kPiece;
  }

 private:
  std::vector<ThreadBlockWork> blocks_;
};

WorkDescription pauses(std::int64_t count, std::int64_t long_one) {
  WorkDescription work{.kernel = "pauses"};
  work.thread_blocks.resize(static_cast<std::size_t>(count));
  for (std::int64_t b = 0; b < count; ++b)
    work.thread_blocks[static_cast<std::size_t>(b)].b_bytes = 2100 + 300 * (b * 7919 % 11);
  if (long_one >= 0) work.thread_blocks[static_cast<std::size_t>(long_one)].b_bytes = 1'500'000;
  work.launches = {{.name = "pauses",
                    .thread_blocks = count,
                    .threads_per_block = 32,
                    .registers_per_thread = 32,
                    .trace = std::make_shared<Pauses>(work.thread_blocks)}};
  return work;
}

TEST_CASE("a launch in which an omitted thread block may end last is simulated whole") {
  const WorkDescription even = pauses(30000, -1), uneven = pauses(30000, 26000);

  const Result sampled = simulate(even, small_gpu(even), {.sampling = kSampling});
  const Result asked = simulate(uneven, small_gpu(uneven), {.sampling = kSampling});
  const Result whole = simulate(uneven, small_gpu(uneven));

  CHECK(sampled.sampled_share() < 0.6);
  CHECK(sampled.time_us == doctest::Approx(simulate(even, small_gpu(even)).time_us).epsilon(0.02));
  CHECK(asked.sampled_share() == 1);
  CHECK(asked.time_us == whole.time_us);
  CHECK(counters(asked) == counters(whole));
}

TEST_CASE("the interval is that of Student's t over the jackknife values, plus the drift") {
  // The mean of 1, 2, 3, 4, 6 without one of them: standard error 0.8602, t of 4 degrees 2.776.
  const std::vector<double> without{3.75, 3.5, 3.25, 3, 2.5};

  CHECK(half_interval(3.2, without, 0, 0) == doctest::Approx(2.776 * 0.8602).epsilon(0.005));
  CHECK(half_interval(3.2, without, 1, 3.5) ==
        doctest::Approx(2.776 * 0.8602 + 2.5).epsilon(0.005));
  CHECK(half_interval(2, {2, 2, 2, 2}, 2, 2) == doctest::Approx(0.02));  // the least
}

TEST_CASE("the sampling is off, auto or a number of stretches") {
  CHECK(sampling_of("").stretches == 0);
  CHECK(sampling_of("off").stretches == 0);
  CHECK(sampling_of("auto").least_bytes == kAutoSampling.least_bytes);
  CHECK(sampling_of("12").stretches == 12);
  CHECK(sampling_of("12").least_bytes == 0);
  for (const char* text : {"3", "-8", "some", "8x", " 8", "1e3"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(sampling_of(text), Error);
  }
  const WorkDescription work = pauses(10, -1);
  CHECK_THROWS_AS(simulate(work, small_gpu(work), {.watched = 3, .sampling = kSampling}), Error);
}

}  // namespace
}  // namespace tessera::simulator
