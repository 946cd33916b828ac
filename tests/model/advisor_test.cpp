// The ranking of planted work descriptions, its bound against the simulator, and its answers for
// matrices.
#include "model/advisor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/run/advice.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/model.hpp"
#include "model/simulator/simulator.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

using advisor::Alternative;
using advisor::Described;
using advisor::fastest_in_given_order;
using advisor::lower_bound;
using advisor::products_until_paid;
using advisor::rank;

constexpr int kThreadBlocks = 264;

/// A launch whose warps each issue some instructions, then some MMAs, then load some sectors that
/// no other warp loads.
struct Planted final : LaunchTrace {
  Planted(int instructions_of, int mmas_of, int sectors_of)
      : instructions(instructions_of), mmas(mmas_of), sectors(sectors_of) {}

  bool next(std::int64_t thread_block, int, WarpCursor&, WarpTrace& trace) const override {
    for (int i = 0; i < instructions; i += 1000) trace.issue(1000);
    for (int i = 0; i < mmas; i += 100) trace.mma(100);
    if (mmas > 0) trace.wait_mma();
    for (int i = 0; i < sectors; i += 32) {
      trace.load(0);
      trace.touch(static_cast<std::uint64_t>(32 * (thread_block * sectors + i)), 32 * 32);
      trace.wait(0);
    }
    return false;
  }

  int instructions, mmas, sectors;
};

WorkDescription planted(int instructions, int mmas = 0, int sectors = 0) {
  WorkDescription work{.kernel = "planted",
                       .mma_type = "tf32",
                       .mma_shape = "m16n8k8",
                       .flops_per_mma = 2 * 16 * 8 * 8};
  work.thread_blocks.assign(kThreadBlocks, {.mma = mmas, .b_bytes = 32 * sectors});
  work.launches.push_back({.name = "planted",
                           .thread_blocks = kThreadBlocks,
                           .threads_per_block = 32,
                           .registers_per_thread = 32,
                           .trace = std::make_shared<Planted>(instructions, mmas, sectors)});
  return work;
}

Alternative alternative(const std::string& name, WorkDescription work, bool keeps_order = true) {
  return {name, keeps_order, [work = std::move(work)] { return Described{.work = work}; }};
}

std::vector<std::string> names_of(const Decision& decision,
                                  const std::vector<Alternative>& alternatives) {
  std::vector<std::string> names;
  for (const Rating& one : decision.ranked) names.push_back(alternatives[one.candidate].name);
  return names;
}

const Device& h200() { return find_device("h200"); }

TEST_CASE("the candidate with the least work ranks first, whatever its place in the list") {
  const std::vector<Alternative> slow_first{alternative("slow", planted(40'000)),
                                            alternative("fast", planted(10'000)),
                                            alternative("medium", planted(20'000))};
  const std::vector<Alternative> renamed{alternative("slow", planted(10'000)),
                                         alternative("fast", planted(40'000)),
                                         alternative("medium", planted(20'000))};

  const Decision advice = rank(slow_first, h200()), other = rank(renamed, h200());

  CHECK(names_of(advice, slow_first) == std::vector<std::string>{"fast", "medium", "slow"});
  CHECK(names_of(other, renamed) == std::vector<std::string>{"slow", "medium", "fast"});
  CHECK(advice.ranked[0].origin == Origin::kSimulated);
  CHECK(advice.ranked[0].time_us == simulator::simulate(planted(10'000), h200()).time_us);
  CHECK(advice.ties_with_chosen(advice.ranked[0]));
  CHECK_FALSE(advice.ties_with_chosen(advice.ranked[1]));
}

TEST_CASE("candidates of equal work tie, and rank in the given order") {
  const std::vector<Alternative> candidates{alternative("b", planted(10'000)),
                                            alternative("a", planted(10'000)),
                                            alternative("c", planted(10'400))};

  const Decision advice = rank(candidates, h200());

  CHECK(names_of(advice, candidates) == std::vector<std::string>{"b", "a", "c"});
  CHECK(advice.ties_with_chosen(advice.ranked[2]));
}

TEST_CASE("a candidate that its bound rules out is not simulated and ranks last with its bound") {
  int described = 0;
  std::vector<Alternative> candidates{alternative("few MMAs", planted(1000, 100))};
  candidates.push_back({"many MMAs", true, [&] {
                          ++described;
                          return Described{.work = planted(1000, 100'000)};
                        }});

  const Decision advice = rank(candidates, h200());

  REQUIRE(names_of(advice, candidates) == std::vector<std::string>{"few MMAs", "many MMAs"});
  const Rating& last = advice.ranked.back();
  CHECK(described == 1);
  CHECK(last.origin == Origin::kBound);
  CHECK(last.time_us == last.bound.time_us);
  CHECK(last.bound.time_us > advice.ranked[0].time_us);
  CHECK(last.bound_by == "tensor cores");
  CHECK_FALSE(advice.ties_with_chosen(last));
}

TEST_CASE(
    "the fastest candidate in the given order is simulated even when a reordered one is far "
    "faster") {
  const std::vector<Alternative> candidates{alternative("plain", planted(1000, 20'000)),
                                            alternative("plain, slower", planted(1000, 90'000)),
                                            alternative("ordered", planted(1000, 100), false)};

  const Decision advice = rank(candidates, h200());

  const Rating* plain = fastest_in_given_order(advice, candidates);
  REQUIRE(plain != nullptr);
  CHECK(plain->candidate == 0);
  CHECK(plain->origin == Origin::kSimulated);
  CHECK(names_of(advice, candidates).front() == "ordered");
  CHECK(advice.ranked.back().origin == Origin::kBound);
  CHECK(fastest_in_given_order(rank({candidates[2]}, h200()), {candidates[2]}) == nullptr);
}

TEST_CASE("a candidate that cannot run or be predicted is excluded with its reason") {
  WorkDescription silent = planted(1000);
  silent.launches[0].trace = nullptr;
  const std::vector<Alternative> candidates{
      alternative("silent", silent),
      {"closed", true, []() -> Described { throw Unsupported("a closed library"); }},
      alternative("open", planted(1000))};

  const Decision advice = rank(candidates, h200()),
                 turing = rank(candidates, find_device("titan-rtx"));

  CHECK(names_of(advice, candidates) == std::vector<std::string>{"open"});
  REQUIRE(advice.excluded.size() == 2);
  CHECK(advice.excluded[0].reason == "planted publishes no trace of its warps");
  CHECK(advice.excluded[1].reason == "a closed library");
  CHECK(turing.ranked.empty());
  CHECK(turing.excluded.back().reason.find("tf32") != std::string::npos);
}

TEST_CASE("a quick ranking has the times of the roofline") {
  const WorkDescription one = planted(1000, 5000, 320), two = planted(1000, 300, 9600);
  const std::vector<Alternative> candidates{alternative("one", one), alternative("two", two)};

  const Decision advice = rank(candidates, h200(), {.quick = true});

  const auto roofline = Registry<Model>::instance().make("roofline");
  REQUIRE(advice.ranked.size() == 2);
  for (const Rating& ranked : advice.ranked) {
    const Prediction expected = roofline->predict(ranked.candidate == 0 ? one : two, h200());
    CHECK(ranked.origin == Origin::kModelled);
    CHECK(ranked.time_us == expected.time_us);
    CHECK(ranked.bound_by == expected.bound_by);
  }
  CHECK(advice.ranked[0].time_us <= advice.ranked[1].time_us);
}

TEST_CASE("an interrupted ranking keeps the times that it has found") {
  const std::vector<Alternative> candidates{alternative("first", planted(10'000)),
                                            alternative("second", planted(20'000))};
  std::vector<std::string> rated;
  const auto note = [&](const Alternative& one, const Rating& rating) {
    rated.push_back(one.name + (rating.origin == Origin::kSimulated ? " simulated" : " bound"));
  };

  const Decision advice =
      rank(candidates, h200(), {.rated = note, .interrupted = [&] { return rated.size() > 2; }});
  const Decision at_once = rank(candidates, h200(), {.interrupted = [] { return true; }});

  REQUIRE(advice.ranked.size() == 2);
  CHECK(advice.ranked[0].origin == Origin::kSimulated);
  CHECK(advice.ranked[1].origin == Origin::kBound);
  CHECK(not_considered(advice, candidates) == std::vector<std::size_t>{1});
  CHECK(rated == std::vector<std::string>{"first bound", "second bound", "first simulated"});
  CHECK(at_once.ranked.empty());
  CHECK(not_considered(at_once, candidates).size() == 2);
}

TEST_CASE("a simulation that is interrupted ends at once and leaves its candidate unconsidered") {
  const std::vector<Alternative> candidates{alternative("first", planted(200'000))};
  const auto told = [&](int last, Decision& advice) {
    int calls = 0;
    advice = rank(candidates, h200(),
                  {.progress = [&](const std::string&, double) { ++calls; },
                   .interrupted = [&] { return calls >= last; }});
    return calls;
  };
  Decision whole, cut;

  CHECK(told(1'000'000, whole) > 3);
  CHECK(told(3, cut) == 3);
  REQUIRE(whole.ranked.size() == 1);
  CHECK(whole.ranked[0].origin == Origin::kSimulated);
  REQUIRE(cut.ranked.size() == 1);
  CHECK(cut.ranked[0].origin == Origin::kBound);
  CHECK(not_considered(cut, candidates) == std::vector<std::size_t>{0});
}

TEST_CASE("the number of products until an order has paid equals that worked by hand") {
  CHECK(products_until_paid(1.0, 100.0) == 10'000);
  CHECK(products_until_paid(1.0, 30.0) == 33'334);
  CHECK(products_until_paid(-0.5, 1.0) == 0);
  CHECK_FALSE(products_until_paid(1.0, 0.0).has_value());
  CHECK_FALSE(products_until_paid(1.0, -5.0).has_value());
}

TEST_CASE("the lower bound of a product equals the one worked by hand") {
  simulator::Machine m{.clock_mhz = 1000, .limits = {.sms = 2}};
  m.mma_interval = 8;
  m.sector_interval = 0.5;
  m.l2_bytes = 3200;
  m.dram_read_interval = 2;
  m.launch_gap_us = 1;
  m.launch_overhead_us = 2;
  WorkDescription work{.b_rows_bytes = 320'000};
  work.thread_blocks = {{.mma = 4000, .b_bytes = 3200}, {.mma = 1000, .b_bytes = 64'000}};
  work.launches = {{.name = "only", .thread_blocks = 2}};

  const LowerBound all = lower_bound(work, m, true);
  const LowerBound cold = lower_bound(work, m, false);
  m.dram_read_interval = 0;
  const LowerBound longest = lower_bound(work, m, true);
  work.thread_blocks.push_back({.mma = 0, .b_bytes = 0});
  work.launches = {{.name = "a", .thread_blocks = 1}, {.name = "b", .thread_blocks = 2}};
  const LowerBound two = lower_bound(work, m, true);
  work.thread_blocks.assign(3, {});
  const LowerBound idle = lower_bound(work, m, true);

  CHECK(all.bound_by == "DRAM");
  CHECK(all.time_us == doctest::Approx((320'000 - 3200) / 32.0 * 2e-3));
  CHECK(cold.time_us == doctest::Approx(320'000 / 32.0 * 2e-3));
  CHECK(longest.bound_by == "longest thread block");
  CHECK(longest.time_us == doctest::Approx(4000 * 8 / 4.0 * 1e-3 + 1));
  CHECK(two.time_us == doctest::Approx((4000 + 1000) * 8 / 4.0 * 1e-3 + 2));
  CHECK(idle.bound_by == "launch");
  CHECK(idle.time_us == doctest::Approx(4));
}

CsrMatrix some_matrix(std::uint64_t seed) { return random_sparse(700, 900, 0.02, seed); }

OfferedOrder no_order(const CsrMatrix& matrix) {
  OfferedOrder order{{"none", {}}, {}};
  order.found.order.rows = Permutation::identity(matrix.rows);
  return order;
}

OfferedOrder order_by(const std::string& name, const CsrMatrix& matrix) {
  Watch watch;
  const auto& registry = Registry<Reordering>::instance();
  return {{name, registry.resolve(name, {})}, compute_order(*registry.make(name), matrix, watch)};
}

/// The simulated time of each registered kernel that has a trace.
std::map<std::string, double> simulated_times(const CsrMatrix& matrix, std::int64_t n, bool warm) {
  std::map<std::string, double> times;
  for (const std::string& name : Registry<SpmmKernel>::instance().names()) {
    const auto kernel = Registry<SpmmKernel>::instance().make(name);
    const auto packed = Registry<Format>::instance().make(kernel->format())->pack(matrix);
    try {
      times[name] = simulator::simulate(kernel->work(*packed, n), h200(), {.warm = warm}).time_us;
    } catch (const Unsupported&) {
    }
  }
  return times;
}

TEST_CASE("no kernel is simulated faster than its bound") {
  for (const std::int64_t n : {8, 32, 100, 256}) {
    for (const bool warm : {true, false}) {
      const CsrMatrix matrix = some_matrix(static_cast<std::uint64_t>(n));
      for (const auto& [name, time_us] : simulated_times(matrix, n, warm)) {
        const auto kernel = Registry<SpmmKernel>::instance().make(name);
        const auto packed = Registry<Format>::instance().make(kernel->format())->pack(matrix);
        const WorkDescription work = kernel->work(*packed, n);
        CAPTURE(name);
        CAPTURE(n);

        const LowerBound bound = lower_bound(work, simulator::describe(h200(), work), warm);

        CHECK(bound.time_us > 0);
        CHECK(bound.time_us <= time_us);
      }
    }
  }
}

/// 32 warps that all read the same few lines again and again, so that the L1 answers.
struct Rereading final : LaunchTrace {
  static constexpr int kLoads = 200, kBytes = 4096;

  bool next(std::int64_t, int, WarpCursor&, WarpTrace& trace) const override {
    for (int i = 0; i < kLoads; ++i) {
      trace.load(i % 8);
      trace.touch(0, kBytes);
    }
    for (int i = 0; i < 8; ++i) trace.wait(i);
    return false;
  }
};

TEST_CASE("a product can be faster than its roofline, but not than its bound") {
  WorkDescription work = planted(1000);
  work.thread_blocks.assign(kThreadBlocks,
                            {.b_bytes = std::int64_t{32} * Rereading::kLoads * Rereading::kBytes});
  work.launches[0].threads_per_block = 1024;
  work.launches[0].trace = std::make_shared<Rereading>();

  const double time = simulator::simulate(work, h200()).time_us;

  CHECK(Registry<Model>::instance().make("roofline")->predict(work, h200()).time_us > time);
  const simulator::Machine machine = simulator::describe(h200(), work);
  const LowerBound bound = lower_bound(work, machine, true);
  CHECK(bound.time_us <= time);
  CHECK(bound.time_us > 0.8 * time);
  CHECK(bound.bound_by == "load units");
}

TEST_CASE("the bound is near the time of a product of MMAs alone") {
  WorkDescription work = planted(1000, 5000);
  for (ThreadBlockWork& block : work.thread_blocks) block.mma *= 8;
  work.launches[0].threads_per_block = 256;
  const simulator::Machine machine = simulator::describe(h200(), work);

  const LowerBound bound = lower_bound(work, machine, true);
  const double time = simulator::simulate(work, h200()).time_us;

  CHECK(bound.bound_by == "tensor cores");
  CHECK(bound.time_us <= time);
  CHECK(bound.time_us > 0.8 * time);
}

TEST_CASE("quick advice knows the kernels for dense matrices, and tall_spmm where it is named") {
  const CsrMatrix matrix = some_matrix(8);
  const auto names = [&](std::vector<std::string> kernels) {
    const MatrixAdvice found =
        advise(matrix, {no_order(matrix)},
               {.n = 64, .kernels = std::move(kernels), .options = {.quick = true}});
    std::set<std::string> ranked;
    for (const Rating& rating : found.decision.ranked)
      ranked.insert(found.candidate(rating).kernel.name);
    return ranked;
  };
  CHECK(names({}).contains("dense_spmm"));
  CHECK_FALSE(names({}).contains("tall_spmm"));
  CHECK(names({"tall_spmm"}).contains("tall_spmm"));
}

TEST_CASE("the advice for a matrix is the fastest of all its simulations") {
  const CsrMatrix matrix = some_matrix(7);
  for (const bool warm : {true, false}) {
    auto times = simulated_times(matrix, 64, warm);
    // Operands in FP16 have not the range of FP32.
    for (const char* name : {"smat", "magicube", "tall_spmm"}) times.erase(name);
    const auto fastest = std::ranges::min_element(times, {}, [](auto& one) { return one.second; });

    const MatrixAdvice found =
        advise(matrix, {no_order(matrix)}, {.n = 64, .options = {.warm = warm}});

    REQUIRE_FALSE(found.decision.ranked.empty());
    const Rating& first = found.decision.ranked.front();
    CHECK(found.candidate(first).kernel.name == fastest->first);
    CHECK(first.time_us == fastest->second);
    CHECK(found.decision.ranked.size() == times.size());
    CHECK(found.decision.ranked.size() + found.decision.excluded.size() == found.candidates.size());
  }
}

TEST_CASE("a kernel that narrows the range of FP32 is a candidate only when it is named") {
  const CsrMatrix matrix = some_matrix(7);
  const auto includes_smat = [&](const std::vector<std::string>& kernels) {
    const MatrixAdvice found =
        advise(matrix, {no_order(matrix)}, {.n = 64, .kernels = kernels, .options = {}});
    return std::ranges::any_of(
        found.candidates, [](const PreparedCandidate& one) { return one.kernel.name == "smat"; });
  };

  CHECK_FALSE(includes_smat({}));
  CHECK(includes_smat({"smat", "csr_spmm"}));
}

TEST_CASE("orders are ranked with the kernels, with the time of their preparation") {
  const CsrMatrix matrix = random_sparse(400, 400, 0.03, 3);

  const MatrixAdvice found = advise(matrix, {no_order(matrix), order_by("best", matrix)},
                                    {.n = 32, .kernels = {"acc_spmm"}});

  REQUIRE(found.decision.ranked.size() == 2);
  for (const Rating& one : found.decision.ranked) {
    const PreparedCandidate& candidate = found.candidate(one);
    CHECK(candidate.kernel.name == "acc_spmm");
    CHECK(candidate.format.name == "bit_tcf");
    CHECK(candidate.arithmetic == "tf32");
    CHECK(candidate.pack_s > 0);
    CHECK((candidate.apply_s > 0) == (candidate.order == 1));
    CHECK(found.preparation_s(one) >= candidate.pack_s + candidate.apply_s);
    const CsrMatrix ordered = apply(matrix, found.orders[candidate.order].found.order);
    CHECK(one.time_us == simulated_times(ordered, 32, true).at("acc_spmm"));
  }
  CHECK_THROWS_WITH_AS(advise(matrix, {no_order(matrix)}, {.kernels = {"acc_spm"}}),
                       doctest::Contains("did you mean 'acc_spmm'"), Error);
  CHECK_THROWS_WITH_AS(advise(matrix, {no_order(matrix)}, {.device = "h20"}),
                       doctest::Contains("did you mean 'h200'"), Error);
}

TEST_CASE("the described device of a GPU is found by the GPU's name") {
  CHECK(described_device("NVIDIA H200") == "h200");
  CHECK(described_device("NVIDIA A100-SXM4-80GB") == "a100-80gb");
  CHECK(described_device("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(described_device("Tesla V100-SXM2-16GB") == "v100");
  CHECK(described_device("NVIDIA GeForce RTX 4090") == "rtx-4090");
  CHECK(described_device("NVIDIA TITAN RTX") == "titan-rtx");
  CHECK(described_device("NVIDIA GeForce RTX 3080") == "");
  CHECK(described_device("NVIDIA L4") == "");
  CHECK(described_device("") == "");
}

}  // namespace
}  // namespace tessera
