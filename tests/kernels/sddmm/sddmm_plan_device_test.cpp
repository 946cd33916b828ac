// SddmmPlan: products equal the emulation bit for bit at any alignment and of every type, a run can
// be captured into a graph, wrong uses are refused with the reason, and candidates are timed.

#include <doctest/doctest.h>

#include <bit>

#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/sddmm/plan/sddmm_plan.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

const SddmmPlanOptions kOneKernel = {.candidates = {{"tessera_sddmm"}}};

/// S of one run, from memory that was poisoned before.
std::vector<float> run(SddmmPlan& plan, const SddmmPlanOptions& options, const DenseMatrix& x,
                       const DenseMatrix& y, cudaStream_t stream = nullptr) {
  const DeviceArray<std::byte> of_x = upload_as(options.operands, x.values);
  const DeviceArray<std::byte> of_y = upload_as(options.operands, y.values);
  const std::vector<float> poison(static_cast<std::size_t>(plan.nnz()),
                                  std::bit_cast<float>(kPoison));
  DeviceArray<std::byte> s = upload_as(options.result, poison);
  plan.run({of_x.data(), of_y.data(), s.data()}, stream);
  cuda_check(cudaDeviceSynchronize(), "running a plan");
  return download_as(options.result, s);
}

std::int64_t different(const CsrMatrix& a, const std::vector<float>& s,
                       const std::vector<float>& expected) {
  return compare_bits(with_values(a, s), with_values(a, expected)).different;
}

TEST_CASE("a plan of an SDDMM computes the emulation's bits, of every type") {
  if (no_gpu()) return;
  for (const CsrMatrix& a :
       {random_sparse(203, 157, 0.07, 3), random_sparse(1, 1, 1, 4), random_sparse(40, 33, 0, 5)})
    for (const std::int64_t k : {1, 17, 64, 300}) {
      const DenseMatrix x = random_dense(a.rows, k, 6), y = random_dense(a.cols, k, 7);
      for (const ElementType type : {ElementType::kFp32, ElementType::kFp16, ElementType::kBf16})
        for (const bool rounds : {false, true})
          for (const bool scales : {false, true}) {
            CAPTURE(k);
            CAPTURE(name_of(type));
            CAPTURE(rounds);
            CAPTURE(scales);
            SddmmPlanOptions options;
            options.operands = type;
            if (rounds) options.result = type;
            options.scales_by_a = scales;
            SddmmPlan plan(a, k, options);
            CHECK(plan.timings().size() == 2);
            CHECK(different(a, run(plan, options, x, y), plan.emulate(x, y)) == 0);
          }
    }
}

TEST_CASE("a plan of an SDDMM follows new values of A, in the order of the stream") {
  if (no_gpu()) return;
  CsrMatrix a = random_sparse(90, 80, 0.1, 11);
  const DenseMatrix x = random_dense(90, 32, 12), y = random_dense(80, 32, 13);
  SddmmPlanOptions options;
  options.scales_by_a = true;
  SddmmPlan plan(a, 32, options);
  std::vector<float> others(a.values.begin(), a.values.end());
  for (float& value : others) value = 2 - value;
  const DeviceArray<float> values(others);
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreate(&stream), "creating a stream");
  plan.set_values(values.data(), stream);
  const std::vector<float> s = run(plan, options, x, y, stream);
  cudaStreamDestroy(stream);
  options.candidates = {{plan.kernel().kernel}};
  SddmmPlan planned_again(with_values(a, others), 32, options);
  CHECK(different(a, s, planned_again.emulate(x, y)) == 0);
  CHECK(different(a, s, plan.emulate(x, y)) > 0);
}

TEST_CASE("a plan of an SDDMM keeps the fastest of its candidates") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(3000, 3000, 0.01, 21);
  SddmmPlanOptions options;
  options.candidates.push_back({"cusparse_sddmm"});
  const SddmmPlan plan(a, 64, options);
  REQUIRE(plan.timings().size() == 3);
  double fastest = 0;
  std::string name;
  for (const SddmmTiming& timing : plan.timings()) {
    CHECK(timing.problem == "");
    CHECK(timing.us > 0);
    if (name.empty() || timing.us < fastest) name = timing.candidate.kernel, fastest = timing.us;
  }
  CHECK(plan.kernel().kernel == name);
  CHECK(plan.packed_bytes() > 8 * a.nnz() / 2);
}

TEST_CASE("wrong uses of a plan of an SDDMM are refused with the reason") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(20, 30, 0.2, 31);
  CHECK_THROWS_WITH_AS(SddmmPlan(a, 0, kOneKernel), doctest::Contains("at least one"), Error);
  CHECK_THROWS_WITH_AS(SddmmPlan(a, 4, {.candidates = {{"tessera_sdmm"}}}),
                       doctest::Contains("tessera_sddmm"), Error);
  CHECK_THROWS_WITH_AS(
      SddmmPlan(a, 4, {.candidates = {{"rows_sddmm", {{"storage", std::string("fp16")}}}}}),
      doctest::Contains("options"), Error);
  CHECK_THROWS_WITH_AS(
      SddmmPlan(a, 4, {.operands = ElementType::kFp16, .result = ElementType::kBf16}),
      doctest::Contains("bf16"), Error);
  CHECK_THROWS_WITH_AS(SddmmPlan(a, 4, {.candidates = {{"cusparse_sddmm"}}, .scales_by_a = true}),
                       doctest::Contains("values of A"), Unsupported);

  SddmmPlan plan(a, 4, kOneKernel);
  const DeviceArray<float> x(20 * 4), y(30 * 4);
  DeviceArray<float> s(static_cast<std::size_t>(a.nnz()));
  CHECK_THROWS_WITH_AS(plan.run({nullptr, y.data(), s.data()}), "X is a null pointer", Error);
  CHECK_THROWS_WITH_AS(plan.run({x.data(), nullptr, s.data()}), "Y is a null pointer", Error);
  CHECK_THROWS_WITH_AS(plan.run({x.data(), y.data(), nullptr}), "S is a null pointer", Error);
  float* inside = const_cast<float*>(x.data()) + 7;
  CHECK_THROWS_WITH_AS(plan.run({x.data(), y.data(), inside}), "S overlaps X", Error);
  CHECK_THROWS_WITH_AS(plan.set_values(s.data()), doctest::Contains("not multiplied"), Error);
}

}  // namespace
}  // namespace tessera
