// cuTeSpMM's waves, which follow from the limits of the described device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/config/plan.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/base/registry.hpp"
#include "formats/hrpb.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/described_limits.hpp"
#include "model/simulator/machine.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

GpuLimits limits_of(const std::string& device) { return described_limits(find_device(device)); }

/// Row panels of very different length, enough of them for several waves.
CsrMatrix long_panels() { return load_matrix("rmat(scale=15, edge_factor=4)").matrix; }

std::unique_ptr<SpmmKernel> cutespmm(const Params::Given& params) {
  return Registry<SpmmKernel>::instance().make("cutespmm", params);
}

/// The tasks of equations 6 and 7 for `resident` thread blocks at a time, by their definition.
std::int64_t tasks_by_definition(const Hrpb& a, std::int64_t n, std::int64_t resident) {
  const std::int64_t panels = a.num_row_panels();
  const double mean = static_cast<double>(a.num_blocks()) / static_cast<double>(panels);
  const std::int64_t thread_blocks = panels * ((n + 127) / 128);
  const double waves =
      std::ceil(static_cast<double>(thread_blocks) / static_cast<double>(resident));
  std::int64_t tasks = 0;
  for (std::int64_t p = 0; p < panels; ++p) {
    const double blocks = a.blocked_row_ptr[p + 1] - a.blocked_row_ptr[p];
    tasks += std::max<std::int64_t>(1, std::llround(std::ceil(blocks / mean / waves - 1e-12)));
  }
  return tasks;
}

TEST_CASE("cuTeSpMM splits row panels by the waves of the GPU that it is told") {
  const auto packed = Registry<Format>::instance().make("hrpb")->pack(long_panels());
  const auto& a = packed_as<Hrpb>(*packed);
  for (const Params::Given& params :
       {Params::Given{}, Params::Given{{"mma", std::string("m16n8k4")},
                                       {"coarsen", std::int64_t{32}},
                                       {"stages", std::int64_t{1}}}}) {
    for (const std::int64_t n : {128, 512}) {
      std::set<std::int64_t> counts;
      for (const char* device : {"h200", "a100-80gb", "rtx-4090"}) {
        CAPTURE(device);
        CAPTURE(n);
        const auto kernel = cutespmm(params);
        kernel->set_gpu(limits_of(device));
        const Launch launch = kernel->work(*packed, n).launches.back();
        const GpuLimits gpu = limits_of(device);
        const auto machine = simulator::describe(find_device(device), {});
        const std::int64_t tasks = launch.thread_blocks / (n / 128);
        counts.insert(tasks);
        CHECK(tasks == tasks_by_definition(
                           a, n, gpu.sms * simulator::occupancy(machine, launch).thread_blocks));
      }
      CHECK(counts.size() > 1);
    }
  }
}

TEST_CASE("on an H200 cuTeSpMM's waves are those of records from before devices were told") {
  const auto packed = Registry<Format>::instance().make("hrpb")->pack(long_panels());
  const auto& a = packed_as<Hrpb>(*packed);
  for (const std::int64_t coarsen : {32, 64, 128}) {
    for (const std::int64_t stages : {1, 2, 3, 4}) {
      for (const std::int64_t panels : {1, 4}) {
        CAPTURE(coarsen);
        CAPTURE(stages);
        CAPTURE(panels);
        const auto kernel =
            cutespmm({{"coarsen", coarsen}, {"stages", stages}, {"panels", panels}});
        const Launch untold = kernel->work(*packed, 128).launches.back();
        kernel->set_gpu(limits_of("h200"));
        const Launch told = kernel->work(*packed, 128).launches.back();
        // The formula of those records: no unit of allocation, no limit on warps.
        const std::int64_t resident =
            132 *
            std::min({std::int64_t{32}, 233472 / (told.shared_bytes + 1024),
                      65536 / (std::int64_t{told.registers_per_thread} * told.threads_per_block)});
        CHECK(told.thread_blocks == untold.thread_blocks);
        if (panels == 1) CHECK(told.thread_blocks == tasks_by_definition(a, 128, resident));
      }
    }
  }
}

TEST_CASE("a point's described device decides its waves") {
  const TemporaryFolder folder;
  write_text(folder / "c.toml",
             "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"model\"]\n[grid]\n"
             "matrix = \"rmat(scale=15, edge_factor=4)\"\nn = 128\nkernel = \"cutespmm\"\n"
             "device = [\"h200\", \"a100-80gb\", \"rtx-4090\"]\n");
  PointRunner runner;
  std::set<std::int64_t> thread_blocks;
  for (const PlanEntry& entry : make_plan(load_config(folder / "c.toml")).entries) {
    const auto record = runner.run(entry.point).record;
    REQUIRE(record.status == "ok");
    thread_blocks.insert(record.found.work_description->thread_blocks);
  }
  CHECK(thread_blocks.size() == 3);
}

}  // namespace
}  // namespace tessera
