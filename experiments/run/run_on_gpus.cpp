#include "experiments/run/run_on_gpus.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/backends/group_product.hpp"
#include "experiments/backends/restore.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/run/point_identity.hpp"
#include "experiments/run/point_inputs.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/spmm/distributed/distributed_spmm.hpp"
#include "model/device.hpp"
#include "model/link_rates.hpp"
#include "reorder/metis_parts.hpp"

namespace tessera {
namespace {

Params::Given given(const SharedParams& params) {
  return {params.values().begin(), params.values().end()};
}

/// Everything that the backends read.
struct Product {
  const Point& point;
  const GpusRequest& request;
  const CsrMatrix& a;  // in the point's order
  const DenseMatrix& b;
  const DistributedSpmm& kernel;
  const Distribution& distribution;
};

/// The device whose links exchange rows: of a measured product, an H200's stand for all.
const Device& linked_device(const Point& point) {
  return find_device(point.device.empty() ? "h200" : point.device);
}

DistributedOptions options_of(const Point& point, const GpusRequest& request, const CsrMatrix& a) {
  const DenseProduct& product = dense_product(point);
  require(std::ranges::count(partition_choices(), request.partition) > 0,
          "partition is '{}'; it is one of {}", request.partition,
          fmt::join(partition_choices(), ", "));
  DistributedOptions options{.parts = request.gpus,
                             .kernel = product.kernel.name,
                             .params = given(product.kernel.params),
                             .format = given(product.format.params),
                             .exchange = request.exchange,
                             .rates = exchange_rates(linked_device(point)),
                             .gpus_of_host = gpus_per_host(linked_device(point))};
  if (request.partition == "nonzeros") options.balance = Balance::kNonzeros;
  if (request.partition == "metis") options.of_row = metis_parts(a, request.gpus);
  return options;
}

Json exchange_json(const Distribution& distribution) {
  Json json{{"way", name_of(distribution.exchange)},
            {"reason", distribution.reason},
            {"bytes", distribution.bytes_exchanged()},
            {"bound_bytes", distribution.bound_bytes()}};
  if (distribution.bound_bytes() > 0)
    json["over_bound"] = static_cast<double>(distribution.bytes_exchanged()) /
                         static_cast<double>(distribution.bound_bytes());
  return json;
}

/// The share of a part, as every backend reports it.
Json share_json(const Product& p, int part) {
  std::int64_t rows = 0, nonzeros = 0;
  for (std::int32_t row = 0; row < p.a.rows; ++row) {
    if (p.distribution.partition.of_row[static_cast<std::size_t>(row)] != part) continue;
    ++rows;
    nonzeros += p.a.row_length(row);
  }
  const ExchangeLists& lists = p.distribution.travelling;
  return {{"rows", rows},
          {"nonzeros", nonzeros},
          {"sent_bytes", lists.sent(part) * p.distribution.row_bytes},
          {"received_bytes", lists.received(part) * p.distribution.row_bytes}};
}

/// Predicts every part by the point's backend, and the exchange from the device's links.
void predict(const Product& p, Record& record, Json& gpus) {
  const auto backend = find_backend(p.point.backend).backend;
  const Device& device = linked_device(p.point);
  DenseMatrix width;  // a prediction reads the width of B alone
  width.cols = p.b.cols;
  const auto time_of = [&](const CsrMatrix& matrix) {
    if (matrix.nnz() == 0) return 0.0;
    const auto packed = p.kernel.pack(matrix);
    const Permutation rows = Permutation::identity(matrix.rows);
    return backend->run({p.point, p.kernel.kernel(), *packed, width, rows}).time_us;
  };
  PredictionPart slowest;
  for (int number = 0; number < p.request.gpus; ++number) {
    const PartOfProduct part = part_of(p.a, p.distribution, number);
    const bool gathers = p.distribution.exchange == Exchange::kNeeded;
    const double own_us = time_of(part.local), received_us = time_of(part.remote);
    const double travel_us =
        exchange_us(exchange_rates(device),
                    bytes_of_part(p.distribution.travelling, number, p.distribution.row_bytes,
                                  gathers, gpus_per_host(device)));
    const bool overlaps = p.distribution.exchange != Exchange::kGathered;
    const double us = overlaps ? overlapped_us(own_us, travel_us, received_us) : travel_us + own_us;
    Json share = share_json(p, number);
    share.update({{"device", device.name},
                  {"own_us", own_us},
                  {"exchange_us", travel_us},
                  {"received_us", received_us}});
    gpus.push_back(std::move(share));
    if (us < slowest.time_us) continue;
    slowest = {us,
               fmt::format("GPU {}'s {}", number, travel_us > own_us ? "exchange" : "product"),
               {{{"own rows of B", own_us, fmt::format("{} nonzeros", part.local.nnz())},
                 {"exchange", travel_us, overlaps ? "meanwhile" : "before"},
                 {"received rows", received_us,
                  fmt::format("{} nonzeros, afterwards", part.remote.nnz())}}}};
  }
  record.found.prediction = std::move(slowest);
}

/// C by the point's backend, with the generation of its tensor cores.
struct Computed {
  DenseMatrix c;
  std::string generation;
  std::string fault = {};
};

Computed emulate(const Product& p, Record& record, Json& gpus) {
  const Device& device = find_device(p.point.device);
  const Stopwatch watch;
  Computed computed{.c = p.kernel.emulate(CsrPacked(p.a), p.b, find_generation(device.generation)),
                    .generation = device.generation};
  record.found.emulate_s = watch.seconds();
  for (int part = 0; part < p.request.gpus; ++part) {
    Json share = share_json(p, part);
    share["device"] = device.name;
    gpus.push_back(std::move(share));
  }
  return computed;
}

Computed measure(const Product& p, Record& record, Json& gpus, Json& exchange) {
  const auto& registry = Registry<GroupProduct>::instance();
  const BackendChoice backend = find_backend(p.point.backend);
  require<Unsupported>(backend.missing.empty(), "{}", backend.missing);
  require<Unsupported>(registry.contains("nccl"), "this build has no CUDA half");
  GroupResult result =
      registry.make("nccl")->multiply({p.a, p.b, p.kernel, p.distribution, p.point.measure});
  record.found.time = TimePart{.summary = result.time, .l2 = "warm"};
  exchange["library"] = result.library;
  for (std::size_t rank = 0; rank < result.members.size(); ++rank) {
    const GroupMember& member = result.members[rank];
    Json share = share_json(p, static_cast<int>(rank));
    share.update({{"gpu", member.gpu},
                  {"own_us", member.own_us},
                  {"exchange_us", member.exchange_us},
                  {"received_us", member.received_us}});
    gpus.push_back(std::move(share));
  }
  Computed computed{
      .c = std::move(result.c), .generation = result.generation, .fault = result.fault};
  record.bits = compare_bits(
      computed.c, p.kernel.emulate(CsrPacked(p.a), p.b, find_generation(computed.generation)));
  const std::string fault = launch_fault(result.unwritten, result.guards_intact, record.bits);
  if (!fault.empty()) computed.fault = fault;
  return computed;
}

void run(const Point& point, const GpusRequest& request, PointInputs& inputs, Record& record,
         Json& gpus, Json& exchange, DenseMatrix& restored) {
  const DenseProduct& product = dense_product(point);
  const BackendChoice backend = find_backend(point.backend);
  require<Unsupported>(backend.missing.empty(), "{}", backend.missing);
  record.origin = backend.backend->origin();
  const LoadedInput& source = inputs.a(point);
  record.matrix = matrix_part(source);
  record.prep =
      PreparationPart{.load_s = source.file.load_s, .load_from_cache = source.file.from_cache};
  const OrderedInput& a = inputs.ordered(point, source);
  add_order(a.found, *record.prep);
  const DenseMatrix& b = inputs.ordered_dense_b(product, source, a);

  const Stopwatch cutting;
  DistributedSpmm kernel(options_of(point, request, a.matrix), product.n);
  kernel.set_gpu(backend.backend->gpu_limits(point));
  const Distribution distribution = distribute(a.matrix, product.n, kernel.options());
  record.prep->apply_s = a.apply_s;
  exchange = exchange_json(distribution);
  exchange["partition_s"] = cutting.seconds();

  const Product all{point, request, a.matrix, b, kernel, distribution};
  record.status = "ok";
  const BackendTraits traits = backend_traits(point.backend);
  if (!traits.computes_c) {
    predict(all, record, gpus);
  } else {
    Computed computed =
        traits.measures ? measure(all, record, gpus, exchange) : emulate(all, record, gpus);
    const CsrPacked packed(a.matrix);
    restored = restore_rows(std::move(computed.c), a.order().rows);
    const CheckedResult checked =
        check_result(source.matrix, inputs.dense_b(product, source), restored,
                     {kernel, packed, a.order().rows, computed.generation});
    if (checked.check) record.check = *checked.check;
    add_fault(record, computed.fault);
    add_fault(record, checked.reason);
  }
  const double us = record.found.time         ? record.found.time->summary.median
                    : record.found.prediction ? record.found.prediction->time_us
                                              : 0;
  if (us > 0)
    record.gflops =
        2e-3 * static_cast<double>(source.matrix.nnz()) * static_cast<double>(product.n) / us;
}

}  // namespace

const std::vector<std::string>& partition_choices() {
  static const std::vector<std::string> choices{"time", "nonzeros", "metis"};
  return choices;
}

GpusAttempt run_on_gpus(const Point& point, const GpusRequest& request,
                        std::optional<DenseMatrix> given_b) {
  require(dense_product(point).kernel.name != kAuto,
          "a product on several GPUs needs a named kernel");
  const Stopwatch watch;
  const PointIdentity identity(point);
  PointInputs inputs{PointRunnerOptions{}};
  if (given_b) inputs.use_b(std::move(*given_b));
  Record record{.params = identity.params(),
                .params_hash = params_hash(point),
                .point_id = identity.point_id(""),
                .finished_at = utc_now()};
  GpusAttempt attempt;
  Json gpus = Json::array(), exchange = Json::object();
  const auto end = [&](const char* status, const std::string& reason) {
    record.status = status;
    record.reason = reason;
  };
  try {
    run(point, request, inputs, record, gpus, exchange, attempt.c);
  } catch (const Unsupported& error) {
    end("skipped", error.what());
  } catch (const std::bad_alloc&) {
    end("oom", "out of memory");
  } catch (const OutOfMemory& error) {
    end("oom", error.what());
  } catch (const std::exception& error) {
    end("failed", error.what());
  }
  record.attempt_s = watch.seconds();
  record.finished_at = utc_now();
  attempt.record = to_json(record);
  attempt.record["params"]["gpus"] = request.gpus;
  attempt.record["params"]["partition"] = request.partition;
  attempt.record["gpus"] = std::move(gpus);
  attempt.record["exchange"] = std::move(exchange);
  return attempt;
}

}  // namespace tessera
