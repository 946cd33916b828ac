// SpmmPlan, the library interface: products in every layout, row order and scaling equal the
// emulation bit for bit; a run can be captured into a graph and does not wait for its stream; wrong
// uses are refused with the reason; the candidates are timed and the fastest is chosen.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "experiments/backends/check_result.hpp"
#include "experiments/machine/gpu_info.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/random.hpp"
#include "formats/io/source.hpp"
#include "kernels/device/stored_values.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

bool no_gpu() {
  const std::string why = gpu_unavailable();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

const SpmmPlanOptions kOneKernel = {.candidates = {{"acc_spmm"}}};

Permutation drawn_order(std::int32_t size, std::uint64_t seed) {
  std::vector<std::int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  for (std::int32_t i = size - 1; i > 0; --i)
    std::swap(order[i], order[random_bits(seed, i) % (i + 1)]);
  return Permutation(std::move(order));
}

/// The layout of a dense matrix in memory: its order, and the gap after each row (column) in
/// elements.
struct Layout {
  Order order = Order::kRowMajor;
  std::int64_t gap = 0;

  std::int64_t ld(const DenseMatrix& m) const {
    return (order == Order::kRowMajor ? m.cols : m.rows) + gap;
  }
  std::size_t place(const DenseMatrix& m, std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(order == Order::kRowMajor ? row * ld(m) + col
                                                              : col * ld(m) + row);
  }
};

constexpr Layout kLayouts[] = {
    {}, {Order::kRowMajor, 3}, {Order::kColumnMajor, 0}, {Order::kColumnMajor, 5}};

/// Memory that holds the matrix from element `offset` on, with poison in the gaps and at both ends.
std::vector<float> laid_out(const DenseMatrix& m, const Layout& layout, std::size_t offset) {
  const auto lines = layout.order == Order::kRowMajor ? m.rows : m.cols;
  std::vector<float> memory(static_cast<std::size_t>(lines * layout.ld(m)) + 2 * offset,
                            std::bit_cast<float>(kPoison));
  for (std::int64_t row = 0; row < m.rows; ++row)
    for (std::int64_t col = 0; col < m.cols; ++col)
      memory[offset + layout.place(m, row, col)] = m.at(row, col);
  return memory;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Runs the plan once in these layouts: every element of C is as emulated, and nothing else in
/// memory has changed.
void check_run(SpmmPlan& plan, const DenseMatrix& b, const DenseMatrix& product, const Layout& of_b,
               const Layout& of_c, Scaling scaling) {
  const std::size_t offset = of_c.gap == 0 ? 4 : 5;  // elements: of 16 bytes, and not
  const DenseMatrix old = scaling.beta != 0
                              ? random_dense(plan.rows(), plan.n(), 77)
                              : DenseMatrix(plan.rows(), plan.n(), std::bit_cast<float>(kPoison));
  const DenseMatrix expected = emulate_scaling(scaling, product, old);
  const DeviceArray<float> b_memory(laid_out(b, of_b, offset));
  DeviceArray<float> c_memory(laid_out(old, of_c, offset));

  plan.run({b_memory.data() + offset, of_b.order, of_b.ld(b)},
           {c_memory.data() + offset, of_c.order, of_c.ld(old)}, scaling);

  CHECK(bits(c_memory.download()) == bits(laid_out(expected, of_c, offset)));
}

TEST_CASE("a plan computes the emulation's bits in every layout, row order and scaling") {
  if (no_gpu()) return;
  struct Shape {
    std::int32_t rows, cols;
    double density;
  };
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{203, 157, 0.07}, Shape{1, 40, 0.5},
                             Shape{70, 1, 0.5}, Shape{64, 96, 0.2}, Shape{40, 33, 0}}) {
    const CsrMatrix a = random_sparse(shape.rows, shape.cols, shape.density, 3);
    for (const std::int64_t n : {1, 17, 64, 131}) {
      const DenseMatrix b = random_dense(a.cols, n, 4);
      for (const bool reorders : {false, true}) {
        CAPTURE(shape.rows);
        CAPTURE(shape.cols);
        CAPTURE(n);
        CAPTURE(reorders);
        SpmmPlanOptions options = kOneKernel;
        options.converts_b = options.converts_c = true;
        if (reorders) options.rows = drawn_order(a.rows, 5);
        SpmmPlan plan(a, n, options);
        const DenseMatrix product = plan.emulate(b);
        for (const Layout& of_b : kLayouts)
          for (const Layout& of_c : kLayouts)
            for (const Scaling scaling : {Scaling{}, Scaling{-1.7f, 0}, Scaling{-1.7f, 0.3f}})
              check_run(plan, b, product, of_b, of_c, scaling);
      }
    }
  }
}

TEST_CASE("a plan for B and C of 16 bits computes the emulation's bits, rounded to C's type") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(203, 157, 0.07, 6);
  for (const Storage storage : {Storage{ElementType::kFp16, ElementType::kFp16},
                                Storage{ElementType::kFp16, ElementType::kFp32},
                                Storage{ElementType::kBf16, ElementType::kBf16}}) {
    for (const std::int64_t n : {1, 17, 64, 131}) {
      CAPTURE(name_of(storage.b));
      CAPTURE(name_of(storage.c));
      CAPTURE(n);
      const DenseMatrix b = random_dense(a.cols, n, 7), old = random_dense(a.rows, n, 8);
      SpmmPlan plan(a, n, {.storage = storage});
      CHECK(plan.timings().size() == SpmmPlanOptions{}.candidates.size());
      for (const Scaling scaling : {Scaling{}, Scaling{-1.7f, 0.3f}}) {
        const DeviceArray<std::byte> b_memory = upload_as(storage.b, b.values);
        DeviceArray<std::byte> c_memory = upload_as(storage.c, old.values);
        plan.run(b_memory.data(), DeviceMatrix(c_memory.data()), scaling);
        CHECK(bits(download_as(storage.c, c_memory)) ==
              bits(emulate_scaling(scaling, plan.emulate(b), old, storage.c).values));
      }
    }
  }
}

TEST_CASE("a plan says which options and kernels need B and C in FP32") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(30, 30, 0.2, 9);
  const Storage halves{ElementType::kFp16, ElementType::kFp16};
  CHECK_THROWS_WITH_AS(SpmmPlan(a, 8, {.storage = halves, .converts_b = true}),
                       doctest::Contains("the option converts_b needs B in fp32, not in fp16"),
                       Error);
  CHECK_THROWS_WITH_AS(SpmmPlan(a, 8, {.candidates = {{"csr_spmm"}}, .storage = halves}),
                       doctest::Contains("storage"), Error);
}

/// Runs the plan in every layout and scaling, with B and C in FP32.
void check_runs(SpmmPlan& plan, const DenseMatrix& b) {
  const DenseMatrix product = plan.emulate(b);
  for (const Layout& of_b : kLayouts)
    for (const Layout& of_c : kLayouts)
      for (const Scaling scaling : {Scaling{}, Scaling{-1.7f, 0.3f}})
        check_run(plan, b, product, of_b, of_c, scaling);
}

/// Plans with the candidate in a drawn order of A's rows: C in every layout and scaling.
void check_in_drawn_order(const SpmmCandidate& candidate, const CsrMatrix& a) {
  for (const std::int64_t n : {1, 17, 64, 128, 260}) {
    CAPTURE(n);
    SpmmPlan direct(a, n, {.candidates = {candidate}, .rows = drawn_order(a.rows, 5)});
    CHECK(direct.workspace_bytes() == 4 * a.rows);
    SpmmPlanOptions options{.candidates = {candidate}, .rows = drawn_order(a.rows, 5)};
    options.converts_b = options.converts_c = true;
    SpmmPlan plan(a, n, options);
    check_runs(plan, random_dense(a.cols, n, 7));
  }
}

// A subcase for each candidate and matrix: tests/sanitize_gpu runs them one by one.
TEST_CASE("our own kernels write rows of C to the order of A, whole, split and joined windows") {
  const std::pair<const char*, SpmmCandidate> candidates[] = {
      {"whole windows", {"tessera_spmm"}},
      {"split windows", {"tessera_spmm", {{"max_blocks", std::int64_t{1}}}}},
      {"joined windows", {"tessera_spmm", {{"joined", std::int64_t{8}}}}},
      {"rows", {"rows_spmm"}}};
  const std::pair<const char*, CsrMatrix> matrices[] = {
      {"even rows", random_sparse(203, 157, 0.07, 3)},
      {"short rows", random_sparse(5000, 400, 0.004, 4)},
      {"long rows", random_sparse(20, 8000, 0.3, 5)},
      {"empty rows", random_sparse(40, 33, 0, 6)}};
  for (const auto& [of_candidate, candidate] : candidates) {
    SUBCASE(of_candidate) {
      for (const auto& [of_matrix, a] : matrices) {
        SUBCASE(of_matrix) {
          if (no_gpu()) return;
          check_in_drawn_order(candidate, a);
        }
      }
    }
  }
}

TEST_CASE("our own kernels write rows of a C of 16 bits to the order of A") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(203, 157, 0.07, 6);
  const Storage storage{ElementType::kFp16, ElementType::kFp16};
  for (const char* kernel : {"tessera_spmm", "rows_spmm"})
    for (const std::int64_t n : {17, 64, 136}) {
      CAPTURE(kernel);
      CAPTURE(n);
      const DenseMatrix b = random_dense(a.cols, n, 7), old = random_dense(a.rows, n, 8);
      SpmmPlan plan(
          a, n, {.candidates = {{kernel}}, .storage = storage, .rows = drawn_order(a.rows, 10)});
      const DeviceArray<std::byte> b_memory = upload_as(storage.b, b.values);
      DeviceArray<std::byte> c_memory = upload_as(storage.c, old.values);
      plan.run(b_memory.data(), DeviceMatrix(c_memory.data()), {-1.7f, 0.3f});
      CHECK(bits(download_as(storage.c, c_memory)) ==
            bits(emulate_scaling({-1.7f, 0.3f}, plan.emulate(b), old, storage.c).values));
    }
}

CsrMatrix shuffled_mesh() {
  return load_matrix("shuffle(of=poisson2d(nx=90, ny=80))", false).matrix;
}

/// A mesh in no order whose rows are too long for rows_spmm to take them as they are.
constexpr const char* kWorthReordering = "shuffle(of=elasticity3d(nx=14))";

const SpmmCandidate kInOrder{"tessera_spmm", {}, {}, "matched"};

/// A plan in an order that is found on the GPU: C in every layout and scaling, and of new values.
void check_in_found_order(const CsrMatrix& a, std::int64_t n) {
  SpmmPlanOptions options{.candidates = {kInOrder}};
  options.converts_b = options.converts_c = options.sets_values = true;
  SpmmPlan plan(a, n, options);
  CHECK(plan.preparation().order == "matched");
  CHECK(plan.timings()[0].preparation_us > 0);
  check_runs(plan, random_dense(a.cols, n, 7));

  CsrMatrix changed = a;
  changed.values = random_dense(1, a.nnz(), 11).values;
  const DeviceArray<float> values(changed.values);
  plan.set_values(values.data());
  const DenseMatrix b = random_dense(a.cols, n, 12);
  const DeviceArray<float> b_memory(b.values);
  DeviceArray<float> c(static_cast<std::size_t>(a.rows * n));
  plan.run(b_memory.data(), c.data());
  CHECK(bits(c.download()) ==
        bits(SpmmPlan(changed, n, {.candidates = {kInOrder}}).emulate(b).values));
}

// A subcase for each matrix and N: tests/sanitize_gpu runs them one by one.
TEST_CASE("a plan packs A on the GPU in an order found there, and computes the emulation's bits") {
  const std::pair<const char*, CsrMatrix> matrices[] = {
      {"even rows", random_sparse(203, 157, 0.07, 3)},
      {"a mesh", shuffled_mesh()},
      {"one element", random_sparse(1, 1, 1, 5)},
      {"empty rows", random_sparse(40, 33, 0, 6)}};
  for (const auto& [of_matrix, a] : matrices) {
    SUBCASE(of_matrix) {
      for (const auto& [of_n, n] : {std::pair{"narrow", 17}, {"wide", 128}}) {
        SUBCASE(of_n) {
          if (no_gpu()) return;
          check_in_found_order(a, n);
        }
      }
    }
  }
}

TEST_CASE("a candidate in an order is left out with the reason where it cannot be used") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(300, 200, 0.05, 8);
  const SpmmPlan plan(
      a, 32,
      {.candidates = {
           {"csr_spmm"}, {"tessera_spmm", {}, {}, "best"}, {"rows_spmm", {}, {}, "matched"}}});
  CHECK(plan.kernel().kernel == "csr_spmm");
  CHECK(plan.timings()[1].problem == "no order best is found on GPUs");
  CHECK(plan.timings()[2].problem == "it does not take an A that was packed on the GPU");
  CHECK(plan.preparation().reason.find("the order best cannot be used: no order best") !=
        std::string::npos);
}

TEST_CASE("a plan looks for an order where its products pay for it, and keeps the faster one") {
  if (no_gpu()) return;
  const CsrMatrix a = load_matrix(kWorthReordering, false).matrix;
  const SpmmPlan once(a, 128, {.expected_products = 1});
  const SpmmPlan unknown(a, 128, SpmmPlanOptions{});
  for (const SpmmPlan* plan : {&once, &unknown}) {
    CHECK(plan->timings().size() == SpmmPlanOptions{}.candidates.size());
    CHECK(plan->preparation().order.empty());
  }

  const SpmmPlan often(a, 128, {.expected_products = 100'000'000});
  REQUIRE(often.timings().size() == SpmmPlanOptions{}.candidates.size() + 1);
  const auto found = std::ranges::find_if(
      often.timings(), [](const SpmmTiming& timing) { return !timing.candidate.order.empty(); });
  REQUIRE(found != often.timings().end());
  const SpmmTiming& ordered = *found;
  MESSAGE(often.preparation().reason);
  MESSAGE("prepared in " << ordered.preparation_us << " us, products take " << ordered.us << " and "
                         << often.timings()[0].us << " us");
  CHECK(ordered.candidate.order == "matched");
  CHECK(ordered.preparation_us > 0);
  double own = often.timings()[0].us;
  for (const SpmmTiming& timing : often.timings())
    if (timing.candidate.order.empty() && timing.us > 0) own = std::min(own, timing.us);
  CHECK(often.preparation().order == (ordered.us < own ? "matched" : ""));
  CHECK(often.kernel().order == often.preparation().order);
  const SpmmPlan named(a, 128, {.candidates = {{"tessera_spmm"}}, .expected_products = 1 << 30});
  CHECK(named.kernel().order.empty());
  CHECK(named.preparation().reason.starts_with("one kernel is named"));
}

TEST_CASE("reordering the rows of A changes the packed matrix, not C") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(300, 200, 0.05, 8);
  const DenseMatrix b = random_dense(200, 32, 9);
  SpmmPlanOptions options = {.candidates = {{"csr_spmm"}}};  // a row's sum has one order here
  const SpmmPlan as_it_is(a, 32, options);
  options.rows = drawn_order(300, 10);

  const SpmmPlan reordered(a, 32, options);

  CHECK(reordered.emulate(b).values == as_it_is.emulate(b).values);
  CHECK(as_it_is.workspace_bytes() == 0);
  CHECK(reordered.workspace_bytes() == 4 * 300 * 32 + 4 * 300);
}

TEST_CASE("a replayed graph multiplies the values that B holds at replay") {
  if (no_gpu()) return;
  for (const Layout& layout : {Layout{}, Layout{Order::kColumnMajor, 0}}) {
    const CsrMatrix a = random_sparse(500, 400, 0.03, 11);
    SpmmPlanOptions options = kOneKernel;
    options.converts_b = options.converts_c = true;
    SpmmPlan plan(a, 48, options);
    const DenseMatrix first = random_dense(400, 48, 12), second = random_dense(400, 48, 13);
    DeviceArray<float> b(laid_out(first, layout, 0));
    DeviceArray<float> c(static_cast<std::size_t>(500 * 48));
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t product = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");

    // In the strictest mode, waiting or allocating memory is an error.
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capturing");
    plan.run({b.data(), layout.order}, {c.data(), layout.order}, {}, stream);
    cuda_check(cudaStreamEndCapture(stream, &graph), "capturing");
    cuda_check(cudaGraphInstantiate(&product, graph, 0), "instantiating");
    for (const DenseMatrix* now : {&second, &first}) {
      b.upload(laid_out(*now, layout, 0));
      cuda_check(cudaMemset(c.data(), 0xff, c.size() * sizeof(float)), "poisoning C");
      cuda_check(cudaDeviceSynchronize(), "uploading B");
      cuda_check(cudaGraphLaunch(product, stream), "replaying");
      cuda_check(cudaStreamSynchronize(stream), "replaying");
      CHECK(bits(c.download()) == bits(laid_out(plan.emulate(*now), layout, 0)));
    }
    cudaGraphExecDestroy(product);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
}

TEST_CASE("two plans on two streams do not affect each other") {
  if (no_gpu()) return;
  constexpr int kRuns = 50;
  const CsrMatrix matrices[] = {random_sparse(3000, 2000, 0.01, 14),
                                random_sparse(2000, 3000, 0.01, 15)};
  struct Side {
    SpmmPlan plan;
    DenseMatrix host_b;
    DeviceArray<float> b, c;
    cudaStream_t stream = nullptr;
  };
  std::vector<Side> sides;
  for (const CsrMatrix& a : matrices) {
    DenseMatrix b = random_dense(a.cols, 128, 16);
    DeviceArray<float> on_device(b.values), c(static_cast<std::size_t>(a.rows) * 128);
    // One task for each TC block: all windows are split, and combined in the workspace.
    SpmmPlanOptions options;
    options.candidates = {{"acc_spmm", {{"max_blocks", std::int64_t{1}}}}};
    sides.push_back({SpmmPlan(a, 128, options), std::move(b), std::move(on_device), std::move(c)});
    cuda_check(cudaStreamCreateWithFlags(&sides.back().stream, cudaStreamNonBlocking),
               "making a stream");
  }

  for (int i = 0; i < kRuns; ++i)
    for (Side& side : sides) side.plan.run(side.b.data(), side.c.data(), {}, side.stream);
  cuda_check(cudaDeviceSynchronize(), "running two plans");

  for (Side& side : sides) {
    CHECK(bits(side.c.download()) == bits(side.plan.emulate(side.host_b).values));
    cudaStreamDestroy(side.stream);
  }
}

/// Blocks a stream until it is opened, for five seconds at most.
struct Gate {
  std::atomic<bool> open = false;
  std::atomic<bool> gave_up = false;

  static void wait(void* data) {
    auto& gate = *static_cast<Gate*>(data);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!gate.open && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate.gave_up = !gate.open;
  }
};

TEST_CASE("a run returns while earlier work blocks its stream") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(300, 200, 0.05, 17);
  const DenseMatrix b = random_dense(200, 20, 18);
  SpmmPlanOptions options = kOneKernel;
  options.converts_b = true;
  options.rows = drawn_order(300, 19);
  SpmmPlan plan(a, 20, options);
  const Layout columns{Order::kColumnMajor, 0};
  const DeviceArray<float> on_device(laid_out(b, columns, 0));
  DeviceArray<float> c(static_cast<std::size_t>(300 * 20));
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  cuda_check(cudaDeviceSynchronize(), "uploading B");
  Gate gate;
  cuda_check(cudaLaunchHostFunc(stream, Gate::wait, &gate), "blocking a stream");

  plan.run({on_device.data(), columns.order}, c.data(), {}, stream);
  const cudaError_t status = cudaStreamQuery(stream);
  gate.open = true;
  cuda_check(cudaStreamSynchronize(stream), "running a plan");

  CHECK(status == cudaErrorNotReady);
  CHECK_FALSE(gate.gave_up);
  CHECK(bits(c.download()) == bits(plan.emulate(b).values));
  cudaStreamDestroy(stream);
}

TEST_CASE("a plan keeps the fastest candidate and lists the time or the problem of each") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(400, 300, 0.05, 20);
  SpmmPlanOptions options;
  options.candidates = {{"csr_spmm"},
                        {"mma_csr"},
                        {"acc_spmm", {{"stages", std::int64_t{3}}}},
                        {"smat", {}, {{"block_rows", std::int64_t{8}}}}};

  const SpmmPlan plan(a, 64, options);

  const auto& timings = plan.timings();
  REQUIRE(timings.size() == 4);
  double best = std::numeric_limits<double>::infinity();
  std::string fastest;
  for (const SpmmTiming& timing : timings) {
    CHECK((timing.us > 0) == (timing.candidate.kernel != "mma_csr"));
    CHECK(timing.problem.empty() == (timing.us > 0));
    if (timing.us > 0 && timing.us < best) best = timing.us, fastest = timing.candidate.kernel;
  }
  CHECK(plan.kernel().kernel == fastest);
  CHECK(timings[1].problem == "it has no device half");
  CHECK(timings[2].candidate.params.at("stages") == ParamValue(std::int64_t{3}));
  CHECK(timings[2].candidate.params.contains("pipeline"));
  CHECK(timings[3].candidate.format.at("block_rows") == ParamValue(std::int64_t{8}));
  CHECK(plan.packed_bytes() > 0);
}

TEST_CASE("for few products a plan takes the candidate of the least predicted time, untimed") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(300, 200, 0.1, 13);
  const SpmmPlan plan(a, 64, {.expected_products = kFewProducts});
  REQUIRE(plan.timings().size() == SpmmPlanOptions{}.candidates.size());
  for (const SpmmTiming& timing : plan.timings()) {
    CHECK(timing.us == 0);
    CHECK(timing.predicted_us > 0);
  }
  const auto least = std::ranges::min_element(plan.timings(), {}, &SpmmTiming::predicted_us);
  CHECK(plan.kernel().kernel == least->candidate.kernel);
  // A candidate without a formula, and more products, are timed.
  const SpmmPlan other(a, 64,
                       {.candidates = {{"rows_spmm"}, {"csr_spmm"}}, .expected_products = 1});
  CHECK(other.timings()[0].us > 0);
  CHECK(SpmmPlan(a, 64, {.expected_products = kFewProducts + 1}).timings()[0].us > 0);
}

TEST_CASE("the default candidates and cuSPARSE compute C within the error bound of TF32") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(400, 300, 0.05, 21);
  const DenseMatrix b = random_dense(300, 32, 22);
  const DeviceArray<float> on_device(b.values);
  SpmmPlanOptions closed;
  closed.candidates = {{"cusparse"}};
  for (const SpmmPlanOptions& options : {SpmmPlanOptions{}, closed}) {
    SpmmPlan plan(a, 32, options);
    // This is not the memory that the plan was timed with.
    DeviceArray<float> c(random_dense(400, 32, 23).values);

    plan.run(on_device.data(), c.data(), {2, -1});

    const DenseMatrix old = random_dense(400, 32, 23);
    const std::vector<float> found = c.download();
    double worst = 0;
    for (std::int64_t row = 0; row < 400; ++row) {
      for (std::int64_t col = 0; col < 32; ++col) {
        double sum = -double{old.at(row, col)}, scale = std::abs(sum);
        for (std::int64_t k = a.row_offsets[row]; k < a.row_offsets[row + 1]; ++k) {
          const double term = 2.0 * a.values[k] * b.at(a.col_indices[k], col);
          sum += term, scale += std::abs(term);
        }
        worst = std::max(worst, std::abs(found[row * 32 + col] - sum) / scale);
      }
    }
    CHECK(worst < 0x1p-9);  // two operands rounded to TF32, and sums
    CHECK(worst > 0);
  }
}

TEST_CASE("a plan refuses invalid options with the reason") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(30, 20, 0.2, 24);
  const auto plan = [&](std::int64_t n, SpmmPlanOptions options) { SpmmPlan(a, n, options); };
  SpmmPlanOptions unknown, none, hostly, misfit;
  unknown.candidates = {{"acc_spm"}};
  none.candidates.clear();
  hostly.candidates = {{"mma_csr"}};
  misfit.rows = Permutation::identity(7);

  CHECK_NOTHROW(plan(1, kOneKernel));
  CHECK_THROWS_WITH_AS(plan(0, kOneKernel), "B has 0 columns; it needs at least one", Error);
  CHECK_THROWS_WITH_AS(plan(9'000'000'000'000'000'000, kOneKernel),
                       doctest::Contains("fits no memory"), Error);
  CHECK_THROWS_WITH_AS(plan(4, unknown), doctest::Contains("acc_spmm"), Error);
  CHECK_THROWS_WITH_AS(plan(4, none), "no kernel is named; a plan needs at least one", Error);
  CHECK_THROWS_WITH_AS(plan(4, hostly), doctest::Contains("mma_csr: it has no device half"),
                       Unsupported);
  CHECK_THROWS_WITH_AS(plan(4, misfit), "the order has 7 rows, but A has 30", Error);
}

TEST_CASE("a run refuses invalid operands with the reason, and later runs work") {
  if (no_gpu()) return;
  const CsrMatrix a = random_sparse(20, 20, 0.2, 25);
  const DenseMatrix b = random_dense(20, 8, 26);
  SpmmPlan plan(a, 8, kOneKernel);
  SpmmPlanOptions options = kOneKernel;
  options.converts_b = options.converts_c = true;
  SpmmPlan converting(a, 8, options);
  const DeviceArray<float> on_device(b.values);
  DeviceArray<float> memory(std::size_t{400});
  const float* from = on_device.data();
  float* to = memory.data();

  CHECK_THROWS_WITH_AS(plan.run(static_cast<const float*>(nullptr), to), "B is a null pointer",
                       Error);
  CHECK_THROWS_WITH_AS(plan.run(from, static_cast<float*>(nullptr)), "C is a null pointer", Error);
  CHECK_THROWS_WITH_AS(plan.run({from, Order::kRowMajor, 7}, to),
                       "B is 20 x 8 in row order: its leading dimension is 7, not 8 or more",
                       Error);
  CHECK_THROWS_WITH_AS(plan.run(from, {to, Order::kColumnMajor, 19}),
                       "C is 20 x 8 in column order: its leading dimension is 19, not 20 or more",
                       Error);
  CHECK_THROWS_WITH_AS(plan.run({from, Order::kColumnMajor}, to), doctest::Contains("converts_b"),
                       Error);
  CHECK_THROWS_WITH_AS(plan.run(from, {to, Order::kRowMajor, 9}), doctest::Contains("converts_c"),
                       Error);
  CHECK_THROWS_WITH_AS(plan.run(to, to + 100), doctest::Contains("overlap"), Error);
  CHECK_THROWS_WITH_AS(converting.run({to, Order::kRowMajor, 16}, {to, Order::kRowMajor, 16}),
                       doctest::Contains("overlap"), Error);
  CHECK_THROWS_WITH_AS(plan.emulate(DenseMatrix(19, 8)), "B is 19 x 8, but has to be 20 x 8",
                       Error);

  // Side by side in one array, columns 0 to 7 and 8 to 15.
  DeviceArray<float> both(laid_out(b, {Order::kRowMajor, 8}, 0));
  CHECK_NOTHROW(
      converting.run({both.data(), Order::kRowMajor, 16}, {both.data() + 8, Order::kRowMajor, 16}));
  CHECK_NOTHROW(plan.run(to, to + 160));
  CHECK_NOTHROW(plan.run(from, to));
  const std::vector<float> found = both.download(), c = memory.download();
  const DenseMatrix expected = plan.emulate(b);
  for (std::int64_t row = 0; row < 20; ++row) {
    for (std::int64_t col = 0; col < 8; ++col) {
      CHECK(found[row * 16 + 8 + col] == expected.at(row, col));
      CHECK(c[row * 8 + col] == expected.at(row, col));
    }
  }
}

}  // namespace
}  // namespace tessera
