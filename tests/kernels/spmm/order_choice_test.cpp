// The decision of a plan for or against an order of A's rows: what it costs on the matrices that
// were measured, and what it says.
#include "kernels/spmm/plan/order_choice.hpp"

#include <doctest/doctest.h>

#include "formats/base/order_model.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm/product_counts.hpp"
#include "kernels/spmm_kernel.hpp"
#include "tests/support.hpp"

namespace tessera {
namespace {

CountedKernel counted(const char* kernel, const WorkCounts& counts,
                      const Params::Given& given = {}) {
  return {kernel, Registry<SpmmKernel>::instance().resolve(kernel, given), counts};
}

/// A mesh of 160,000 rows whose fetched rows of B have few nonzeros.
const WorkCounts kMesh{{"n", 128},
                       {"rows", 160'000},
                       {"cols", 160'000},
                       {"nonzeros", 2'100'000},
                       {"condensed_columns", 1'200'000},
                       {"tc_blocks", 150'000},
                       {"longest_window", 20},
                       {"longest_row", 100}};

SpmmPreparation choice(std::int64_t products, const WorkCounts& counts = kMesh) {
  return choose_order({counted("tessera_spmm", counts), counted("rows_spmm", counts)}, products);
}

TEST_CASE("nothing is spent on an order for one product, for few, and where nobody says how many") {
  for (const std::int64_t products : {0, 1, 20}) CHECK(choice(products).order.empty());
  CHECK(choice(0).reason == "how often A is multiplied is not stated");
  CHECK(choice(1).reason == "no order pays for itself in 1 product");
  CHECK(choice(20).predicted_preparation_us == 0);
}

TEST_CASE("an order is chosen from that number of products on that pays for it") {
  const SpmmPreparation once = choice(21);
  REQUIRE(once.predicted_us > once.predicted_in_order_us);
  const double paid =
      once.predicted_preparation_us / (once.predicted_us - once.predicted_in_order_us);
  CHECK(once.order.empty());
  CHECK(choice(static_cast<std::int64_t>(paid)).order.empty());
  CHECK(choice(static_cast<std::int64_t>(paid) + 1).order == "matched");
  CHECK(choice(10'000).reason.starts_with("the order matched is expected to save "));
}

TEST_CASE("an order is chosen for a shuffled mesh of long rows among all kernels of a plan") {
  const CsrMatrix mesh = load_matrix("shuffle(of=elasticity3d(nx=14))", false).matrix;
  const WorkCounts counts = product_counts(mesh, 128);
  std::vector<CountedKernel> kernels;
  for (const char* kernel : {"tessera_spmm", "rows_spmm", "tall_spmm", "dense_spmm"})
    kernels.push_back(counted(kernel, counts));
  CHECK(choose_order(kernels, 100'000'000).order == "matched");
}

TEST_CASE("no order is chosen where rows of B are full, whatever the number of products") {
  WorkCounts full = kMesh;
  full["condensed_columns"] = 135'000, full["tc_blocks"] = 17'000;
  CHECK(choice(1 << 30, full).order.empty());
  CHECK(choice(1 << 30, full).reason == "the order matched is expected to save nothing");
}

TEST_CASE("no order is chosen without a formula, and the reason names what lacks one") {
  const auto reason_of = [](const std::vector<CountedKernel>& kernels) {
    const SpmmPreparation found = choose_order(kernels, 1'000'000);
    CHECK(found.order.empty());
    return found.reason;
  };
  CHECK(reason_of({counted("rows_spmm", kMesh)}) == "tessera_spmm is not among the candidates");
  CHECK(reason_of({counted("tessera_spmm", kMesh), counted("csr_spmm", kMesh)}) ==
        "there is no formula for the time of csr_spmm");
  CHECK(reason_of({counted("tessera_spmm", kMesh, {{"precision", std::string("tf32x3")}})}) ==
        "the formula of tessera_spmm is fitted to its default parameters");
}

TEST_CASE("an order is expected to empty no row of B, and to take longer for more nonzeros") {
  const auto model = Registry<OrderModel>::instance().make("matched");
  double last = 0;
  for (const double nonzeros : {0.0, 1.2e6, 4e6, 4e7}) {
    WorkCounts counts = kMesh;
    counts["nonzeros"] = nonzeros;
    const OrderForecast forecast = model->forecast(counts);
    CHECK(forecast.counts.at("condensed_columns") <= counts.at("condensed_columns"));
    CHECK(forecast.counts.at("tc_blocks") <= counts.at("tc_blocks"));
    CHECK(forecast.preparation_us > last);
    last = forecast.preparation_us;
  }
}

}  // namespace
}  // namespace tessera
