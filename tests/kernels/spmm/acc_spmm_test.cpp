// acc_spmm's options: one table refuses those without a kernel and selects the kernel of the
// others.

#include "kernels/spmm/acc_spmm/acc_spmm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spmm/acc_spmm/variants.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

using acc_spmm::AccSpmmOptions;
using acc_spmm::Pipeline;
using acc_spmm::Variant;

AccSpmmOptions options_of(const Params::Given& given) {
  return AccSpmmOptions(Params::resolve("kernel acc_spmm", acc_spmm::params(), given));
}

TEST_CASE("acc_spmm refuses combinations of options that have no kernel") {
  const auto& registry = Registry<SpmmKernel>::instance();
  const auto refused = [&](Params::Given params) {
    CHECK_THROWS_AS(registry.make("acc_spmm", params), Unsupported);
  };
  const std::string dtc = "dtc", me_tcf = "me_tcf", split = "tf32x3", wt = "wt", ca = "ca";
  const std::string registers = "registers", least_bubble = "least_bubble";

  refused({{"precision", split}, {"pipeline", dtc}});
  refused({{"precision", split}, {"pipeline", least_bubble}});
  refused({{"precision", split}, {"balance", dtc}});
  refused({{"precision", split}, {"format", me_tcf}});
  refused({{"precision", split}, {"pipeline", registers}, {"store", wt}});
  refused({{"promote", std::int64_t{2}}, {"cache", ca}});
  refused({{"format", me_tcf}, {"stages", std::int64_t{3}}});
  refused({{"balance", dtc}, {"cache", ca}});
  refused({{"balance", dtc}, {"format", me_tcf}});
  refused({{"pipeline", registers}, {"cache", std::string("cg")}});
  refused({{"pipeline", registers}, {"format", me_tcf}});
  refused({{"pipeline", registers}, {"balance", dtc}});
  refused({{"store", wt}, {"stages", std::int64_t{3}}});
  refused({{"store", wt}, {"cache", ca}});
  refused({{"store", wt}, {"format", me_tcf}});
  refused({{"store", wt}, {"balance", dtc}});
  refused({{"pipeline", least_bubble}, {"stages", std::int64_t{3}}});
  const std::string block = "block", none = "none", adaptive = "adaptive", plain = "default";
  refused({{"buffers", block}});
  refused({{"pipeline", registers}, {"buffers", block}});
  refused({{"pipeline", registers}, {"balance", adaptive}});  // has no kernel with shares
  refused({{"pipeline", least_bubble}, {"cache", plain}});
  refused({{"pipeline", least_bubble}, {"buffers", block}, {"cache", plain}, {"store", wt}});
  refused({{"pipeline", dtc}, {"buffers", block}, {"cache", plain}, {"balance", adaptive}});
  CHECK_NOTHROW(registry.make(
      "acc_spmm",
      {{"pipeline", least_bubble}, {"buffers", block}, {"balance", adaptive}, {"store", wt}}));
  CHECK_NOTHROW(registry.make(
      "acc_spmm", {{"pipeline", dtc}, {"buffers", block}, {"cache", plain}, {"balance", none}}));
  CHECK_NOTHROW(registry.make("acc_spmm", {{"store", wt}}));
  CHECK_NOTHROW(registry.make("acc_spmm", {{"pipeline", registers}, {"store", wt}}));
  CHECK_NOTHROW(registry.make("acc_spmm", {{"precision", split}, {"cache", std::string("cg")}}));
}

TEST_CASE("the message for options without a kernel names them and those that have one") {
  const Params::Given given = {{"pipeline", std::string("registers")},
                               {"format", std::string("me_tcf")}};

  CHECK_THROWS_WITH_AS(options_of(given),
                       doctest::Contains("pipeline = registers, buffers = warp, stages = 2"),
                       Unsupported);
  CHECK_THROWS_WITH_AS(options_of(given), doctest::Contains("format = me_tcf"), Unsupported);
  CHECK_THROWS_WITH_AS(
      options_of(given),
      doctest::Contains("For pipeline = registers it has: buffers = warp, format = bit_tcf, "
                        "stages = 2, cache = ca, store = wb"),
      Unsupported);
}

TEST_CASE("acc_spmm's options print as the parameters that give them") {
  CHECK(options_of({}).to_text() ==
        "precision = tf32, promote = 0, format = bit_tcf, pipeline = staged, buffers = warp, "
        "stages = 2, columns = 0, cache = cg, store = wb, balance = capped, max_blocks = 16, "
        "combine = ordered");
  CHECK(options_of({{"pipeline", std::string("dtc")},
                    {"buffers", std::string("block")},
                    {"store", std::string("wt")},
                    {"balance", std::string("adaptive")}})
            .to_text() ==
        "precision = tf32, promote = 0, format = bit_tcf, pipeline = dtc, buffers = block, stages "
        "= 2, columns = 0, cache = ca, store = wt, balance = adaptive, max_blocks = 16, combine = "
        "ordered");
}

bool is_compiled(const Variant& variant) {
  const acc_spmm::VariantList list = acc_spmm::list_variants(variant.pipeline);
  return std::count(list.variants.begin(), list.variants.begin() + list.count, variant) == 1;
}

TEST_CASE("every combination of options is refused or has a compiled kernel for every width of B") {
  // Windows of 3 TC blocks each, and of 0 and 40, which adaptive balance cuts into shares.
  const std::vector<std::uint32_t> even{0, 3, 6, 9}, uneven{0, 0, 40, 40, 80};
  int legal = 0, refused = 0;
  for (const char* precision : {"tf32", "tf32_raw", "tf32x3", "tf32x3_promoted"})
    for (const char* format : {"bit_tcf", "me_tcf"})
      for (const char* pipeline : {"staged", "registers", "least_bubble", "dtc"})
        for (const char* buffers : {"warp", "block"})
          for (const std::int64_t stages : {2, 3, 4})
            for (const char* cache : {"auto", "cg", "ca", "default"})
              for (const char* store : {"wb", "cg", "cs", "wt"})
                for (const char* balance : {"capped", "adaptive", "dtc"}) {
                  const Params::Given given = {{"precision", std::string(precision)},
                                               {"format", std::string(format)},
                                               {"pipeline", std::string(pipeline)},
                                               {"buffers", std::string(buffers)},
                                               {"stages", stages},
                                               {"cache", std::string(cache)},
                                               {"store", std::string(store)},
                                               {"balance", std::string(balance)}};
                  try {
                    const AccSpmmOptions options = options_of(given);
                    ++legal;
                    for (const auto& windows : {even, uneven})
                      for (const std::int64_t n : {8, 64, 100})
                        for (const bool aligned : {false, true})
                          CHECK(is_compiled(options.variant(options.cut(windows), n, aligned)));
                  } catch (const Unsupported&) {
                    ++refused;
                  }
                }
  CHECK(legal > 100);
  CHECK(refused > 1000);
}

TEST_CASE("the pipelines of acc_spmm have the number of kernels that the table gives") {
  CHECK(acc_spmm::list_variants(Pipeline::kStaged).count == 66);
  CHECK(acc_spmm::list_variants(Pipeline::kRegisters).count == 13);
  CHECK(acc_spmm::list_variants(Pipeline::kLeastBubble).count == 19);
  CHECK(acc_spmm::list_variants(Pipeline::kDtc).count == 16);
}

TEST_CASE(
    "adaptive balance takes shares where windows differ, and a window each where they do not") {
  const AccSpmmOptions options = options_of({{"pipeline", std::string("least_bubble")},
                                             {"buffers", std::string("block")},
                                             {"balance", std::string("adaptive")},
                                             {"max_blocks", std::int64_t{32}}});
  const std::vector<std::uint32_t> even{0, 3, 6, 9}, uneven{0, 1, 41, 42, 82};

  const window_tasks::Tasks windows = options.cut(even), shares = options.cut(uneven);

  CHECK(windows.num_shares() == 3);
  CHECK_FALSE(options.variant(windows, 128, true).equal_shares);
  // 1 + 30 of 40, 10 + 1 + 19 of 40 TC blocks, and the rest.
  REQUIRE(shares.num_shares() == 3);
  CHECK(options.variant(shares, 128, true).equal_shares);
  CHECK(shares.tasks[1].last == 31);
  CHECK(shares.tasks[4].last == 61);
}

}  // namespace
}  // namespace tessera
