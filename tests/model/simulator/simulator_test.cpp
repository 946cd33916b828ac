// The performance simulator: launches small enough to be worked out by hand, the rates of the
// machine reached by launches made for it, and the same outcome for any number of threads.

#include "model/simulator/simulator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/simulator/counters.hpp"
#include "model/simulator/memory.hpp"
#include "model/simulator/report.hpp"
#include "tests/model/simulator/toy.hpp"
#include "tests/support.hpp"

namespace tessera::simulator {
namespace {

/// One warp that does this once.
double cycles_of(const std::function<void(WarpTrace&)>& body, Machine machine = toy_machine()) {
  const auto work = toy_work(1, 1, [&](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    body(trace);
    return false;
  });
  return simulate(work, machine, {.warm = false}).cycles();
}

TEST_CASE("equally distant rows that fit into the L1 stay there, and others do not") {
  // The hits, in percent, of pieces of four lines, each `distance` lines behind the one before,
  // that are read twice.
  const auto second_hits = [](int pieces, int distance) {
    const auto work = toy_work(1, 1, [&](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
      for (int i = 0; i < 2 * pieces; ++i) {
        trace.load(0);
        trace.touch(std::uint64_t{kLineBytes} * distance * (i % pieces), 4 * kLineBytes);
        trace.wait(0);
      }
      return false;
    });
    const Result result = simulate(work, toy_machine(), {.warm = false});
    return 200.0 * static_cast<double>(result.sm().load_hits) /
           static_cast<double>(result.sm().load_sectors);
  };
  // 256 pieces are half of the L1.
  for (const int distance : {4, 16, 32, 128, 1000}) {
    CAPTURE(distance);
    CHECK(second_hits(256, distance) > 95);
    CHECK(second_hits(2048, distance) < 5);
  }
}

TEST_CASE("a lone warp takes the cycles worked out by hand") {
  CHECK(cycles_of([](WarpTrace& t) { t.issue(10); }) == doctest::Approx(20));
  CHECK(cycles_of([](WarpTrace& t) { t.pause(50); }) == doctest::Approx(50));
  // Issue 2, through the load unit 1, then all the way to the memory.
  const auto load = [](WarpTrace& t) {
    t.load(0);
    t.touch(4096, 4);
    t.wait(0);
  };
  CHECK(cycles_of(load) == doctest::Approx(2 + 1 + 600));
  // The second time the line is in the L1: 2 for the issue, 1, 30.
  CHECK(cycles_of([&](WarpTrace& t) { load(t), load(t); }) == doctest::Approx(603 + 33));
  // Another sector of the line is not: it is fetched, from the memory again.
  CHECK(cycles_of([&](WarpTrace& t) {
          load(t);
          t.load(0);
          t.touch(4096 + 32, 4);
          t.wait(0);
        }) == doctest::Approx(603 + 603));
  // Two MMAs side by side, and another two that continue them.
  CHECK(cycles_of([](WarpTrace& t) { t.mma(2), t.mma(2), t.wait_mma(); }) ==
        doctest::Approx(32 + 32));
  // Three that continue each other, 8 each, or 32 of the first; the warp issues 100 meanwhile.
  const auto begin = [](int count, int wavefronts, int meanwhile) {
    return [=](WarpTrace& t) { t.async_mma(count, wavefronts), t.issue(meanwhile), t.wait_mma(); };
  };
  CHECK(cycles_of(begin(3, 0, 1)) == doctest::Approx(6 + 32));
  CHECK(cycles_of(begin(5, 0, 1)) == doctest::Approx(10 + 5 * 8));
  CHECK(cycles_of(begin(5, 0, 100)) == doctest::Approx(10 + 200));
  // Their operands take longer to be read.
  CHECK(cycles_of(begin(5, 60, 1)) == doctest::Approx(10 + 60));
  CHECK(cycles_of([](WarpTrace& t) { t.shared(4); }) == doctest::Approx(2 + 4 + 20));
}

TEST_CASE("a fence waits for the SM's reads and empties its L1, an exchange only takes its time") {
  const auto load = [](WarpTrace& t) {
    t.load(0);
    t.touch(4096, 4);
    t.wait(0);
  };
  const auto hits = [&](const std::function<void(WarpTrace&)>& between) {
    const auto work = toy_work(1, 1, [&](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
      load(trace), between(trace), load(trace), load(trace);
      return false;
    });
    const Result result = simulate(work, toy_machine(), {.warm = false});
    CHECK(result.sm().instructions == 3);
    return result.sm().load_hits;
  };
  CHECK(hits([](WarpTrace&) {}) == 2);
  CHECK(hits([](WarpTrace& t) { t.exchange(); }) == 2);
  CHECK(hits([](WarpTrace& t) { t.fence(); }) == 1);
  CHECK(cycles_of([](WarpTrace& t) { t.arrive(false); }) == doctest::Approx(900 + 700));
  CHECK(cycles_of([](WarpTrace& t) { t.arrive(true); }) == doctest::Approx(900 + 700 + 900));
  // Behind a load it waits at least until the L2 has answered, whoever waits for the load.
  CHECK(cycles_of([](WarpTrace& t) { t.load(0), t.touch(4096, 4), t.fence(); }) ==
        doctest::Approx(2 + 1 + 200 + 900));
  // After the fence the line comes from the L2.
  CHECK(cycles_of([&](WarpTrace& t) { load(t), t.fence(), load(t); }) ==
        doctest::Approx(603 + 900 + 203));
}

TEST_CASE("a cache forgets its sectors however often it is told to") {
  SectoredCache cache(1);
  std::uint32_t out = 0;
  SectoredCache::Line out_line;
  cache.line(cache.replace(0, 7, out, out_line)).valid = 15;
  CHECK(cache.line(cache.find(0, 7)).valid == 15);
  for (int i = 0; i < 1 << 16; ++i) cache.forget();  // as often as it counts to
  CHECK(cache.line(cache.find(0, 7)).valid == 0);
  cache.line(cache.find(0, 7)).valid = 15;
  cache.forget();
  CHECK(cache.line(cache.find(0, 7)).valid == 0);
}

TEST_CASE("a launch that overlaps the one before it costs the smaller gap") {
  auto work = toy_work(1, 1, [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(5000);
    return false;
  });
  Machine machine = toy_machine();
  machine.launch_gap_us = 2;
  machine.overlapped_gap_us = 0.5;
  CHECK(simulate(work, machine, {.warm = false}).time_us == doctest::Approx(5 + 2));
  work.launches[0].overlaps = true;
  CHECK(simulate(work, machine, {.warm = false}).time_us == doctest::Approx(5 + 0.5));
}

TEST_CASE("thread blocks of a launch start one after another") {
  const auto work = toy_work(8, 1, [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(1000);
    return false;
  });
  Machine machine = toy_machine(4);
  machine.block_interval = 25;
  const Result result = simulate(work, machine, {.warm = false});
  CHECK(result.cycles() == doctest::Approx(7 * 25 + 1000));
  for (int i = 0; i < 8; ++i) CHECK(result.launches[0].spans[i].start == doctest::Approx(25 * i));
}

TEST_CASE("loads without a wait between them overlap") {
  const auto loads = [](int count, bool waits) {
    return [=](WarpTrace& t) {
      for (int i = 0; i < count; ++i) {
        t.load(0);
        t.touch(static_cast<std::uint64_t>(i) << 16, 4);
        if (waits) t.wait(0);
      }
      t.wait(0);
    };
  };
  CHECK(cycles_of(loads(8, true)) == doctest::Approx(8 * 603));
  CHECK(cycles_of(loads(8, false)) < 603 + 8 * 4);
}

TEST_CASE("lanes take a wavefront per line in order, and one per sector as fragments") {
  constexpr int kRows = 4;  // 128 bytes of each
  const auto load = [](bool as_fragments) {
    return [=](WarpTrace& t) {
      t.load(0);
      for (std::uint64_t row = 0; row < kRows; ++row) t.touch(row << 16, 128);
      if (as_fragments) t.wavefronts(t.touched_sectors());
    };
  };
  const auto hot_cycles = [&](int loads, bool as_fragments) {
    return cycles_of([=](WarpTrace& t) {
      load(false)(t);
      t.wait(0);
      for (int i = 0; i < loads; ++i) load(as_fragments)(t);
      t.wait(0);
    });
  };
  const auto cold_cycles = [&](bool as_fragments) {
    return cycles_of([=](WarpTrace& t) { load(as_fragments)(t), t.wait(0); });
  };

  // An H200 has 4.0 and 16.1 cycles a load.
  CHECK(hot_cycles(60, false) - hot_cycles(40, false) == doctest::Approx(20 * 4));
  CHECK(hot_cycles(60, true) - hot_cycles(40, true) == doctest::Approx(20 * 16));
  CHECK(cold_cycles(false) == doctest::Approx(2 + 4 + 600));
  // Data that comes back at once leaves the data stage 12 cycles later.
  CHECK(cold_cycles(true) == doctest::Approx(2 + 16 + 600));
}

TEST_CASE("a barrier holds every warp until the last one has arrived") {
  const auto work = toy_work(1, 4, [](std::int64_t, int warp, WarpCursor&, WarpTrace& trace) {
    trace.pause(100 * (warp + 1));
    trace.barrier();
    trace.pause(7);
    return false;
  });

  const Result result = simulate(work, toy_machine(), {.warm = false});

  // The last one comes at 400, issues the barrier in 2, all go on 10 later.
  CHECK(result.cycles() == doctest::Approx(400 + 2 + 10 + 7));
  CHECK(result.sm().wait_barrier == doctest::Approx(310 + 210 + 110 + 10));
}

TEST_CASE("an asynchronous copy requests sectors twice whose halves it separates") {
  struct Read {
    std::int64_t l2, dram, l1;  // sectors
    double cycles;
  };
  const auto read = [](const std::function<void(WarpTrace&)>& copies) {
    const auto work = toy_work(1, 1, [&](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
      trace.async_copy(0);
      copies(trace);
      trace.wait(0);
      return false;
    });
    const Result result = simulate(work, toy_machine(), {.warm = false});
    return Read{result.memory().sm_read, result.memory().dram_read, result.sm().load_sectors,
                result.cycles()};
  };
  constexpr std::uint64_t kRow = 4096;
  constexpr int kBytes = 512, kSectors = kBytes / kSectorBytes;

  // Rows of B and of a stage begin alike: at the start of a sector, or both in its middle.
  const Read whole = read([&](WarpTrace& t) { t.copy_to_shared(kRow, kBytes, 64); });
  const Read alike = read([&](WarpTrace& t) { t.copy_to_shared(kRow + 16, kBytes, 16); });
  CHECK(whole.l2 == kSectors);
  CHECK(alike.l2 == kSectors + 1);
  // One of the two in the middle: all sectors twice but those of which only a half is copied.
  const Read apart = read([&](WarpTrace& t) { t.copy_to_shared(kRow, kBytes, 16); });
  const Read edges = read([&](WarpTrace& t) { t.copy_to_shared(kRow + 16, kBytes, 32); });
  CHECK(apart.l2 == 2 * kSectors);
  CHECK(edges.l2 == 2 * (kSectors - 1) + 2);
  // Every second row of an instruction: 1.5 times, as an H200 has it.
  const Read second = read([&](WarpTrace& t) {
    for (int row = 0; row < 4; ++row)
      t.copy_to_shared(kRow * static_cast<std::uint64_t>(row + 1), 128,
                       static_cast<std::uint64_t>(row) * 144);
  });
  CHECK(second.l2 == kSectors * 3 / 2);
  // Two rows share a sector, a half each, and lie apart.
  const Read shared = read([&](WarpTrace& t) {
    t.copy_to_shared(kRow, 48, 0);
    t.copy_to_shared(kRow + 48, 16, 160);
  });
  CHECK(shared.l2 == 3);

  // Memory, and what the SM counts, know every sector once; the data is there later.
  for (const Read& r : {whole, apart, second}) {
    CHECK(r.dram == kSectors);
    CHECK(r.l1 == kSectors);
  }
  CHECK(apart.cycles > whole.cycles);
}

TEST_CASE("a watched thread block records its reads and the waits of its warps") {
  const auto body = [](std::int64_t, int warp, WarpCursor&, WarpTrace& t) {
    t.load(0);
    t.touch(4096 * (warp + 1), 4);
    t.async_copy(1);
    t.copy_to_shared(static_cast<std::uint64_t>(4096 * (warp + 9)), 16, 0);
    t.wait(0);
    t.pause(1 + 100 * warp);
    t.barrier();
    return false;
  };
  using enum WarpOp::Kind;

  const auto work = toy_work(2, 2, body);
  const LaunchResult watched =
      simulate(work, toy_machine(2), {.warm = false, .watched = 1}).launches[0];
  const LaunchResult unwatched = simulate(work, toy_machine(2), {.warm = false}).launches[0];

  const auto spans_of = [&](int warp, WarpOp::Kind kind) {
    std::vector<OpSpan> spans;
    for (const OpSpan& span : watched.watched)
      if (span.warp == warp && span.kind == kind) spans.push_back(span);
    return spans;
  };
  CHECK(unwatched.watched.empty());
  CHECK(unwatched.cycles == watched.cycles);
  for (int warp = 0; warp < 2; ++warp) {
    CAPTURE(warp);
    const auto load = spans_of(warp, kLoad), wait = spans_of(warp, kWait);
    REQUIRE(load.size() == 1);
    REQUIRE(wait.size() == 1);
    CHECK(spans_of(warp, kAsyncCopy).size() == 1);
    CHECK(load[0].end - load[0].start == doctest::Approx(600).epsilon(0.001));
    CHECK(wait[0].end == doctest::Approx(load[0].end));
    CHECK(wait[0].start < wait[0].end);
  }
  // Warp 0 waits at the barrier for the one that paused.
  const auto first = spans_of(0, kBarrier), last = spans_of(1, kBarrier);
  REQUIRE(first.size() == 1);
  REQUIRE(last.size() == 1);
  CHECK(first[0].end == last[0].end);
  CHECK(last[0].end - last[0].start == doctest::Approx(10));
  CHECK(first[0].end - first[0].start > 100);
}

TEST_CASE("thread blocks beyond what an SM holds wait for their turn") {
  // 64 registers x 1024 threads fill the SM: one at a time.
  auto work = toy_work(5, 32, [](std::int64_t, int, WarpCursor&, WarpTrace& trace) {
    trace.pause(1000);
    return false;
  });
  work.launches[0].registers_per_thread = 64;

  const Result result = simulate(work, toy_machine(2), {.warm = false});

  CHECK(result.launches[0].occupancy.thread_blocks == 1);
  CHECK(result.launches[0].occupancy.limit == "registers");
  CHECK(result.launches[0].waves == doctest::Approx(2.5));
  // Three in a row on one of the two SMs; a successor starts 100 cycles after an end, or when the
  // stretch of 200 that holds the end is over.
  CHECK(result.cycles() >= 3000 + 2 * 100);
  CHECK(result.cycles() <= 3000 + 2 * 300);
  for (const BlockSpan& span : result.launches[0].spans) CHECK(span.end - span.start == 1000);
}

/// Warps that load rows of `row_bytes` at random places below `bytes`, eight loads in flight.
WorkDescription gather(double bytes, int row_bytes, int steps, int thread_blocks) {
  return toy_work(thread_blocks, 8,
                  [=](std::int64_t block, int warp, WarpCursor& cursor, WarpTrace& trace) {
                    constexpr int kDepth = 8;
                    RandomSequence random(
                        static_cast<std::uint64_t>((block * 8 + warp) * 1000003 + cursor.step));
                    const int board = static_cast<int>(cursor.step % kDepth);
                    if (cursor.step >= kDepth) trace.wait(board);
                    trace.issue(6);
                    trace.load(board);
                    for (int i = 0; i < 512 / row_bytes; ++i) {
                      const auto rows = static_cast<std::uint64_t>(bytes) / row_bytes;
                      trace.touch(random.below(rows) * row_bytes, row_bytes);
                    }
                    return ++cursor.step < steps;
                  });
}

TEST_CASE("random rows come at the measured rates of an H200, from its L2 and from its memory") {
  const Device& h200 = find_device("h200");
  const auto tb_per_s = [&](double bytes, int row_bytes) {
    WorkDescription work = gather(bytes, row_bytes, 100, 132 * 4);
    work.footprint_bytes = static_cast<std::int64_t>(bytes);
    const Result result = simulate(work, h200);
    return 132 * 4 * 8 * 100 * 512.0 / (result.cycles() / result.machine.clock_mhz) / 1e6;
  };

  // experiments/results/h200/calibration/gathers.csv: 9.0, 9.1 and 4.5 TB/s.
  CHECK(tb_per_s(16.8e6, 512) == doctest::Approx(9.01).epsilon(0.15));
  CHECK(tb_per_s(16.8e6, 128) == doctest::Approx(9.07).epsilon(0.25));
  CHECK(tb_per_s(1518e6, 512) == doctest::Approx(4.48).epsilon(0.1));
}

TEST_CASE("tensor cores never exceed the rate of their interval at any number of warps") {
  for (const int warps : {4, 16, 32}) {
    const auto work = toy_work(2, warps, [](std::int64_t, int, WarpCursor& c, WarpTrace& trace) {
      trace.mma(8);  // eight accumulators: enough to hide the latency
      return ++c.step < 50;
    });
    const Result result = simulate(work, toy_machine(), {.warm = false});

    const double mmas_per_core = 2.0 * warps * 8 * 50 / 4;
    CHECK(result.cycles() == doctest::Approx(mmas_per_core * 8).epsilon(0.02));
    CHECK(counters(result).at("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed") ==
          doctest::Approx(100).epsilon(0.02));
  }
}

TEST_CASE("a warm L2 holds what the launch before has read, a cold one nothing") {
  const auto work = toy_work(64, 4, [](std::int64_t block, int warp, WarpCursor&, WarpTrace& t) {
    t.load(0);
    t.touch(static_cast<std::uint64_t>(block * 4 + warp) * 128, 128);
    t.wait(0);
    return false;
  });

  const Result cold = simulate(work, toy_machine(4), {.warm = false});
  const Result warm = simulate(work, toy_machine(4), {.warm = true});

  CHECK(cold.memory().dram_read == 64 * 4 * 4);
  CHECK(warm.memory().dram_read == 0);
  CHECK(warm.cycles() < cold.cycles());
}

TEST_CASE("two partitions read memory once and request lines from their home") {
  // Every SM reads the same 1 MB.
  const auto work = toy_work(8, 1, [](std::int64_t, int, WarpCursor& c, WarpTrace& t) {
    t.load(0);
    t.touch(static_cast<std::uint64_t>(c.step) * 512, 512);
    t.wait(0);
    return ++c.step < 2048;
  });
  Machine machine = toy_machine(8);
  machine.l1_bytes = 64 * 1024;  // nothing is left beside shared memory
  machine.partitions = 2;

  const MemoryCounts counts = simulate(work, machine, {.warm = false}).memory();

  const std::int64_t sectors = 2048 * 16;
  CHECK(counts.dram_read == sectors);
  CHECK(counts.far_read == sectors);  // each sector is homed far from one of the partitions
  CHECK(counts.sm_read + counts.coalesced >= 2 * sectors);
}

TEST_CASE("a partition joins reads that its L2 has not answered yet, and no others") {
  Machine machine = toy_machine(8);
  machine.partitions = 2;
  const std::uint32_t line = 5;
  const Home home = home_of(line, machine.partitions);
  MemoryGroup memory(machine, home.group());
  const int near = home.partition, far = 1 - home.partition;  // SMs; two more are next to each
  const auto read = [&](int sm, double time, std::uint8_t sectors) {
    Request request{.time = time, .line = line, .sectors = sectors};
    memory.serve(request, sm);
    return request.done;
  };
  const auto joined = [&] { return memory.counts().coalesced; };

  const double from_memory = read(near, 0, 0b0011);
  CHECK(read(near + 2, machine.l2_latency + 50, 0b0001) == from_memory);
  CHECK(joined() == 1);
  read(near + 4, machine.l2_latency + 60, 0b0100);  // another sector
  read(far, machine.l2_latency + 70, 0b0100);       // through the other partition
  CHECK(joined() == 1);
  read(near, 10000, 0b0001);  // hits
  read(near + 2, 10004, 0b0001);
  CHECK(joined() == 2);
  read(near + 4, 10000 + machine.l2_latency / 2, 0b0001);  // the slice has answered
  CHECK(joined() == 2);
}

TEST_CASE("the simulation is the same for any number of threads, and slower with a slower L2") {
  const auto kernel = Registry<SpmmKernel>::instance().make("acc_spmm");
  const CsrMatrix a = random_sparse(3000, 3000, 0.01, 71);
  const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
  const WorkDescription work = kernel->work(*packed, 64);
  const Device& h200 = find_device("h200");
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const Result result = simulate(work, h200);
    set_num_threads(0);
    return std::pair(result.cycles(), counters(result));
  };

  const auto one = run(1);
  CHECK(run(2) == one);
  CHECK(run(5) == one);
  CHECK(one.second.at("sm__inst_executed_pipe_tensor.sum") ==
        static_cast<double>(work.total().mma));
  Machine slower = describe(h200, work);
  const double before = simulate(work, slower).cycles();
  slower.l2_latency *= 2;
  slower.l2_far_latency *= 2;
  CHECK(simulate(work, slower).cycles() > 1.2 * before);
}

TEST_CASE("progress is reported, and an error of a trace reaches the caller") {
  std::vector<double> told;
  const auto work = toy_work(400, 1, [](std::int64_t, int, WarpCursor& c, WarpTrace& t) {
    t.pause(4000);
    return ++c.step < 20;
  });
  simulate(work, toy_machine(), {.warm = false, .progress = [&](double d) { told.push_back(d); }});
  CHECK(!told.empty());
  CHECK(std::ranges::is_sorted(told));

  const auto broken = toy_work(400, 1, [](std::int64_t block, int, WarpCursor&, WarpTrace& t) {
    require(block != 333, "thread block {} is broken", block);
    t.pause(10);
    return false;
  });
  CHECK_THROWS_WITH_AS(simulate(broken, toy_machine(4)), "thread block 333 is broken", Error);
  WorkDescription no_trace = broken;
  no_trace.launches[0].trace = nullptr;
  CHECK_THROWS_AS(simulate(no_trace, toy_machine()), Unsupported);
}

TEST_CASE("the report names the resource that decides the time") {
  const auto bound = [](const WorkDescription& work, const Machine& machine) {
    return report(simulate(work, machine, {.warm = false})).bound_by;
  };
  const auto mma = toy_work(8, 16, [](std::int64_t, int, WarpCursor& c, WarpTrace& t) {
    t.mma(8);
    return ++c.step < 100;
  });
  const auto uneven = toy_work(8, 1, [](std::int64_t block, int, WarpCursor& c, WarpTrace& t) {
    t.pause(1000);
    return ++c.step < (block == 0 ? 100 : 1);
  });
  Machine launchless = toy_machine(8);
  launchless.launch_gap_us = 0;
  CHECK(bound(mma, launchless) == "tensor cores");
  CHECK(bound(uneven, launchless) == "balance");
  CHECK(bound(gather(1e9, 512, 40, 8 * 4), [&] {
          Machine slow = launchless;
          slow.dram_read_interval = 1;
          return slow;
        }()) == "DRAM");
}

}  // namespace
}  // namespace tessera::simulator
