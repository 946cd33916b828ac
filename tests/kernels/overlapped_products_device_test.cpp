// Products that follow each other without a wait, each of which reads what the one before it wrote:
// a kernel that began early, and read too early, would have other bits than one that is alone.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/backends/launch_timer.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/rewrite.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

constexpr int kProducts = 60;
constexpr float kAlpha = 0.25F, kBeta = 0.5F;  // sums stay of the size of B

struct Case {
  std::string kernel;
  Params::Given params = {};
};

/// A square A on the GPU, and the operands of a chain of products that goes to and fro between two
/// matrices.
class Chain {
 public:
  Chain(const Case& chosen, const CsrMatrix& a, std::int64_t n)
      : elements_(a.rows * n), type_(ElementType::kFp32) {
    const Params params = Registry<SpmmKernel>::instance().resolve(chosen.kernel, chosen.params);
    const auto kernel = Registry<SpmmKernel>::instance().make(chosen.kernel, params);
    type_ = kernel->arithmetic().storage.b;
    const auto packed = Registry<Format>::instance().make(kernel->format())->pack(a);
    product_ = Registry<GpuSpmm>::instance().make(chosen.kernel, params)->upload(*packed, n);
    const std::size_t bytes = static_cast<std::size_t>(elements_) * bytes_of(type_);
    for (auto& matrix : matrices_) matrix = DeviceArray<std::byte>(bytes);
    const auto values = random_dense(a.rows, n, 7).values;
    start_ = stored(values);
  }

  /// The bits of both matrices after the chain. With `waits`, each launch ends before the next.
  std::vector<std::byte> run(bool waits, bool changes_between) {
    reset();
    for (int i = 0; i < kProducts; ++i) {
      enqueue(i, nullptr, waits);
      if (changes_between)
        rewrite(type_, matrices_[(i + 1) % 2].data(), elements_, Rewrite::kNegate, nullptr);
      if (waits) cuda_check(cudaDeviceSynchronize(), "waiting");
    }
    return bits();
  }

  /// The same chain, replayed by a CUDA graph.
  std::vector<std::byte> replay() {
    reset();
    int i = 0;
    const LaunchGraph graph([&](cudaStream_t stream) { enqueue(i++, stream, false); }, kProducts);
    graph.enqueue(nullptr);
    return bits();
  }

 private:
  std::vector<std::byte> stored(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * bytes_of(type_));
    if (type_ == ElementType::kFp32)
      std::memcpy(bytes.data(), values.data(), bytes.size());
    else
      std::memcpy(bytes.data(), to_16_bits(type_, values).data(), bytes.size());
    return bytes;
  }
  void reset() {
    for (auto& matrix : matrices_)
      cuda_check(cudaMemcpy(matrix.data(), start_.data(), start_.size(), cudaMemcpyHostToDevice),
                 "writing operands");
  }
  void enqueue(int i, cudaStream_t stream, bool waits) {
    product_->launch(0, {matrices_[i % 2].data(), matrices_[(i + 1) % 2].data(), {kAlpha, kBeta}},
                     stream);
    if (waits) cuda_check(cudaDeviceSynchronize(), "waiting");
  }
  std::vector<std::byte> bits() {
    cuda_check(cudaDeviceSynchronize(), "multiplying");
    std::vector<std::byte> both(2 * start_.size());
    for (int i = 0; i < 2; ++i)
      cuda_check(cudaMemcpy(both.data() + i * start_.size(), matrices_[i].data(), start_.size(),
                            cudaMemcpyDeviceToHost),
                 "reading results");
    return both;
  }

  std::int64_t elements_;
  ElementType type_;
  std::unique_ptr<GpuMultiplication> product_;
  DeviceArray<std::byte> matrices_[2];
  std::vector<std::byte> start_;
};

TEST_CASE("products that follow each other have the bits of products that wait for each other") {
  if (const std::string why = gpu_unavailable(); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  const auto named = [](const char* name) { return ParamValue(std::string(name)); };
  const std::vector<Case> cases{
      {"rows_spmm"},
      {"rows_spmm", {{"overlap", named("early")}}},
      {"rows_spmm", {{"nonzeros", named("direct")}}},
      {"rows_spmm", {{"nonzeros", named("direct")}, {"turns", std::int64_t{4}}}},
      {"rows_spmm", {{"nonzeros", named("direct")}, {"overlap", named("early")}}},
      {"rows_spmm", {{"overlap", named("none")}}},
      {"tessera_spmm"},
      {"tessera_spmm", {{"overlap", named("early")}}},
      {"dense_spmm"},
      {"rows_spmm", {{"storage", named("fp16")}}},
      {"tessera_spmm", {{"storage", named("bf16")}}},
      {"tall_spmm", {{"storage", named("fp16")}}}};
  int ran = 0;
  for (const CsrMatrix& a :
       {random_sparse(640, 640, 0.02, 3), random_sparse(20000, 20000, 3e-4, 4)})
    for (const std::int64_t n : {1, 8, 32, 128, 200})
      for (const Case& chosen : cases) {
        // All of A is stored, zeros too.
        if (chosen.kernel == "dense_spmm" && a.rows > 1000) continue;
        CAPTURE(chosen.kernel);
        CAPTURE(a.rows);
        CAPTURE(n);
        std::optional<Chain> chain;
        try {
          chain.emplace(chosen, a, n);
        } catch (const Unsupported& refused) {
          continue;
        }
        for (const bool changes_between : {false, true}) {
          const auto alone = chain->run(true, changes_between);
          for (int repeat = 0; repeat < 3; ++repeat)
            CHECK(chain->run(false, changes_between) == alone);
          if (!changes_between) CHECK(chain->replay() == alone);
        }
        ++ran;
      }
  CHECK(ran >= 60);
}

}  // namespace
}  // namespace tessera
