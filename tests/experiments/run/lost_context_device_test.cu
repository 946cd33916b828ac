// A kernel that accesses memory it has no right to takes the context of its process with it. A run
// records its point with the reason, and measures the points behind it in a new process.
#include <doctest/doctest.h>

#include <algorithm>

#include "experiments/config/plan.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/own_process.hpp"
#include "experiments/records/record_set.hpp"
#include "experiments/run/runner.hpp"
#include "formats/base/registry.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/gpu_child.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

__global__ void write_to(float* place) { *place = 1; }

/// csr_spmm, whose launches write where nothing is.
class StrayHost final : public SpmmKernel {
 public:
  std::string format() const override { return plain_->format(); }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return plain_->arithmetic(); }
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    return plain_->terms_per_row(packed);
  }

 private:
  std::unique_ptr<SpmmKernel> plain_ = Registry<SpmmKernel>::instance().make("csr_spmm");
};

class StrayMultiplication final : public GpuMultiplication {
 public:
  void launch(int, const Operands&, cudaStream_t stream) override {
    write_to<<<1, 1, 0, stream>>>(nullptr);
  }
};

class StrayDevice final : public GpuSpmm {
 public:
  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix&, std::int64_t) const override {
    return std::make_unique<StrayMultiplication>();
  }
};

const Register<SpmmKernel> host_entry{{
    .name = "toy_stray",
    .summary = "writes where nothing is, for the test of a lost context",
    .make = [](const Params&) { return std::make_unique<StrayHost>(); },
}};
const Register<GpuSpmm> device_entry{{
    .name = "toy_stray",
    .summary = "",
    .make = [](const Params&) { return std::make_unique<StrayDevice>(); },
}};

// In a process that has not used the GPU: its children could not.
TEST_CASE("part: a run in which contexts are lost" * doctest::skip()) {
  // One process without lanes, one with, and one for each of two GPUs where there are two.
  const int there = in_own_process(count_gpus);
  for (int gpus = 0; gpus <= std::min(there, 2); ++gpus) {
    const TemporaryFolder folder;
    write_text(folder / "c.toml",
               "schema = 1\n[experiment]\nid = \"c\"\nbackends = [\"gpu\"]\n[grid]\n"
               "matrix = [\"uniform(rows=300)\", \"uniform(rows=400)\"]\nn = [8, 16]\n"
               "kernel = [\"csr_spmm\", \"toy_stray\", \"cusparse\", \"rows_spmm\"]\n");
    const EnvironmentVariable cache("TESSERA_CACHE", folder / "cache");
    const Plan plan = make_plan(load_config(folder / "c.toml"));
    RunOptions options;
    options.out = folder / "out";
    options.gpus = gpus;
    run_plan(plan, options);
    for (const Json& record : read_records(folder / "out").points) {
      const std::string kernel = record["params"]["kernel"]["name"];
      const std::string reason = record.value("reason", "");
      fmt::print("{} {}: {}\n", kernel, record["status"].get<std::string>(), reason);
    }
  }
  fmt::print("all\n");
  std::fflush(stdout);
}

TEST_CASE("a kernel that accesses what it may not costs its point, and the run goes on") {
  int there = 0;
  if (no_gpu() || cudaGetDeviceCount(&there) != cudaSuccess) return;
  const int points = 4 * (1 + std::min(there, 2));  // of a kernel, in all runs
  GpuChild child("part: a run in which contexts are lost");

  const auto [said, code] = child.wait();

  CAPTURE(said);
  const auto count = [&, &text = said](const std::string& part) {
    int times = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++times;
    return times;
  };
  CHECK(code == 0);
  CHECK(count("csr_spmm ok: ") == points);
  CHECK(count("cusparse ok: ") == points);
  CHECK(count("rows_spmm ok: ") == points);
  CHECK(count("toy_stray failed: CUDA error while ") == points);
  CHECK(count("illegal memory access") == points);
}

}  // namespace
}  // namespace tessera
