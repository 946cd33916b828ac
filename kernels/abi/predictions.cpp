// Simulated products and advice in the C interface.

#include <cmath>
#include <limits>

#include "experiments/backends/backend.hpp"
#include "experiments/run/advice_answer.hpp"
#include "experiments/run/timeline.hpp"
#include "formats/base/stop.hpp"
#include "kernels/abi/guarded.hpp"
#include "kernels/abi/matrices.hpp"
#include "kernels/abi/options.hpp"
#include "kernels/abi/product.hpp"

using namespace tessera;
using namespace tessera::abi;

namespace tessera::abi {
namespace {

/// The name of a matrix that a caller has in memory.
constexpr const char* kInMemory = "matrix";

Point simulated_point(const NamedProduct& product, std::int64_t n, bool cold) {
  DenseProduct task;
  task.values = parse_values(kPatternAlone);
  task.n = n;
  task.format = product.format;
  task.kernel = product.kernel;
  return {.backend = "simulate",
          .matrix = kInMemory,
          .reorder = variant_of<Reordering>("none"),
          .task = task,
          .device = product.device.name,
          .measure = {.l2 = cold ? "flush" : "warm"}};
}

constexpr tessera_advice_options kDefaults{.size = sizeof(tessera_advice_options),
                                           .device = nullptr,
                                           .num_orders = 0,
                                           .orders = nullptr,
                                           .num_kernels = 0,
                                           .kernels = nullptr,
                                           .products = 1000,
                                           .max_seconds = 0,
                                           .cold = 0,
                                           .quick = 0};

}  // namespace
}  // namespace tessera::abi

tessera_status tessera_simulate(const tessera_csr* a, int64_t n, const char* kernel,
                                const char* format, const char* device, int32_t cold, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(json, "json");
    const CsrMatrix matrix = view_of(a);
    const NamedProduct product = named_product(matrix, n, kernel, format, device);
    const Point point = simulated_point(product, n, cold != 0);
    // The backend that records come from. It reads of B only its width.
    DenseMatrix b;
    b.rows = matrix.cols, b.cols = n;
    throw_if_stopped();
    Record record;
    record.found =
        find_backend("simulate")
            .backend
            ->run({point, *product.made, *product.packed, b, Permutation::identity(matrix.rows)})
            .findings;
    const Json found = to_json(record);
    *json = text_of({{"kernel", to_text(product.kernel)},
                     {"format", to_text(product.format)},
                     {"device", product.device.name},
                     {"n", n},
                     {"l2", point.measure.l2},
                     {"origin", "simulated"},
                     {"prediction", found["prediction"]},
                     {"simulation", found["simulation"]},
                     {"counters", found["counters"]}});
  });
}

tessera_status tessera_timeline(const tessera_csr* a, int64_t n, const char* kernel,
                                const char* format, const char* device, int32_t cold,
                                int64_t thread_block, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(json, "json");
    const CsrMatrix matrix = view_of(a);
    const NamedProduct product = named_product(matrix, n, kernel, format, device);
    TimelineRequest request;
    request.warm = cold == 0;
    request.progress = [](const std::string&, double) { throw_if_stopped(); };
    if (thread_block >= 0) request.thread_block = thread_block;
    const Timeline timeline =
        make_timeline(product.made->work(*product.packed, n), product.device, request);
    *json =
        text_of({{"about", describe(timeline, simulated_point(product, n, cold != 0), kInMemory)},
                 {"thread_blocks", thread_blocks_csv(timeline)},
                 {"operations", operations_csv(timeline)},
                 {"balance", balance_csv(timeline)}});
  });
}

void tessera_advice_options_init(tessera_advice_options* options) {
  if (options != nullptr) *options = kDefaults;
}

tessera_status tessera_advise(const tessera_csr* a, int64_t n, const tessera_advice_options* given,
                              char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require_pointer(json, "json");
    // An advice that is cut short is an answer: no loop is to end the call without one.
    const StopFlag flag = stop_flag();
    const StopFlagScope unstopped(nullptr);
    const CsrMatrix matrix = view_of(a);
    const tessera_advice_options options = options_of(given, kDefaults);
    require(options.max_seconds >= 0, "max_seconds takes 0 or more, not {}", options.max_seconds);
    AdviceQuestion question{.n = n,
                            .device = device_of(options.device).name,
                            .orders = texts_of("orders", options.num_orders, options.orders),
                            .kernels = texts_of("kernels", options.num_kernels, options.kernels),
                            .products = options.products,
                            .cold = options.cold != 0,
                            .quick = options.quick != 0};
    if (options.max_seconds > 0) question.max_seconds = options.max_seconds;
    question.interrupted = [flag] { return flag != nullptr && *flag != 0; };
    *json = text_of(
        to_json(answer(matrix, kInMemory, content_hash(matrix), question), kInMemory, question));
  });
}
