#include "experiments/run/run_point.hpp"

#include <chrono>
#include <new>
#include <utility>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/backends/later_product.hpp"
#include "experiments/backends/restore.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/run/advice.hpp"
#include "experiments/run/describe.hpp"
#include "experiments/run/point_identity.hpp"
#include "experiments/run/point_inputs.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/loop_threads.hpp"
#include "formats/base/parallel.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

/// Parallel loops of this thread on as many threads as a point asks for.
class ThreadScope {
 public:
  explicit ThreadScope(std::int64_t threads) : threads_(checked(threads)) {}

 private:
  static int checked(std::int64_t threads) {
    require<Unsupported>(threads <= num_threads(), "{} threads are requested, this process has {}",
                         threads, num_threads());
    return static_cast<int>(threads);
  }

  ThreadsOfLoops threads_;
};

/// The terms of all sums of A B.
std::int64_t count_products(const CsrMatrix& a, const CsrMatrix& b) {
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += b.row_length(k);
  return products;
}

/// Operations over a time in us, in units of 10^9 a second; nothing without a time.
std::optional<double> giga_rate(double operations, double time_us) {
  if (time_us > 0) return operations / (1e3 * time_us);
  return std::nullopt;
}

std::optional<double> nonzeros_per_s(const CsrMatrix& matrix, double time_us) {
  if (time_us > 0) return 1e6 * static_cast<double>(matrix.nnz()) / time_us;
  return std::nullopt;
}

Record base_record(const Point& point, const PointIdentity& identity) {
  return {.params = identity.params(),
          .params_hash = params_hash(point),
          .point_id = identity.point_id(""),
          .finished_at = utc_now()};
}

/// An emulated C: where two points agree in this, so do all its bits.
struct EmulationKey {
  OrderKey order;
  std::string b;       // a dense one, or X and Y, by n and seed, a sparse one by name
  std::string format;  // or the mask of a sparse C
  std::string kernel;
  std::string generation;
  GpuLimits gpu;  // by which a kernel may plan its sums

  bool operator==(const EmulationKey&) const = default;
};

/// C against its emulation; nothing where C is the emulation, which is kept, or where a closed
/// library has none: the oracle still checks it.
template <class Matrix, class Emulate>
std::optional<BitComparison> compare_with_emulation(LastValueCache<Matrix, EmulationKey>& emulated,
                                                    const EmulationKey& key, const Point& point,
                                                    const Matrix& c, Emulate emulate) {
  if (point.backend == "emulate") {
    emulated.put(key, c);
    return std::nullopt;
  }
  try {
    return compare_bits(c, emulated.get(key, emulate));
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

/// An error of this program's, or a lack of memory. Others are the CUDA runtime's, and stick to the
/// process.
bool is_own(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

/// The kernel and format picked for kernel "auto".
struct AdviceKey {
  OrderKey order;
  std::int64_t n = 0;
  std::string device;
  bool warm = false;

  bool operator==(const AdviceKey&) const = default;
};

}  // namespace

struct PointRunner::State {
  PointInputs inputs;
  DeviceTurn* turn = nullptr;
  std::size_t user = 0;
  std::function<void()> has_turn = {};
  bool lost_device = false;  // in the point that is worked on
  LastValueCache<KernelChoice, AdviceKey> chosen = {};
  // Rows in the order of the packed matrix.
  LastValueCache<DenseMatrix, EmulationKey> emulated = {};
  LastValueCache<CsrMatrix, EmulationKey> emulated_sparse = {};  // a sparse C, or S
  DenseMatrix last_c = {};
  SkipPart at = {};     // the part of the request that is worked on
  double waited_s = 0;  // for the GPU, in the point that is worked on
  void run(const Point& point, const PointIdentity& identity, Record& record);

  /// What `ask` returns. To ask may wait for the start of the driver, as the other threads' points
  /// do; the thread that opens the device starts it.
  template <class Ask>
  auto awaited(const Point& point, Ask ask) {
    const Stopwatch watch;
    if (turn != nullptr && backend_traits(point.backend).needs_gpu) turn->wait_until_open();
    auto answer = ask();
    if (turn != nullptr) waited_s += watch.seconds();
    return answer;
  }

  /// What `work` returns; where it needs the device, while no other thread uses it.
  template <class Work>
  auto in_turn(const Point& point, const Backend& backend, Work work) {
    std::optional<DeviceTurn::Held> held;
    if (turn != nullptr && backend_traits(point.backend).needs_gpu)
      waited_s += held.emplace(*turn, user).waited_s();
    if (held && has_turn) has_turn();
    try {
      return work();
    } catch (const std::exception& error) {
      // While the turn is held: no other point is to fail of this one's loss. A library may call it
      // a lack of memory, or a case that it does not take.
      lost_device = !is_own(error) || backend.has_lost_device();
      if (held && lost_device) turn->close();
      throw;
    }
  }

  /// One function per task.
  void run_task(const DenseProduct&, const Point& point, const LoadedInput& source,
                Backend& backend, Record& record);
  void run_task(const SparseProduct& product, const Point& point, const LoadedInput& source,
                const Backend& backend, Record& record);
  void run_task(const SampledProduct& product, const Point& point, const LoadedInput& source,
                const Backend& backend, Record& record);
  void run_task(const Packing& packing, const Point& point, const LoadedInput& source,
                const Backend& backend, Record& record);
  void run_task(const Ordering& ordering, const Point& point, const LoadedInput& source,
                const Backend& backend, Record& record);

  void prepare_while_opening(const Point& point, const LoadedInput& source);
  const OrderedInput& ordered(const Point& point, const LoadedInput& source, Record& record);
  Point with_kernel(Point point, const OrderedInput& a, Record& record);
  void check(const Multiplication& m, const GpuLimits& gpu, const LoadedInput& source,
             const OrderedInput& a, BackendResult& result, Record& record);
  void check(const SparseMultiplication& m, const OrderedInput& a,
             const SparseProductResult& result, Record& record);
  void check(const SampledMultiplication& m, const OrderedInput& a,
             const SampledProductResult& result, Record& record);
};

void PointRunner::State::run(const Point& point, const PointIdentity& identity, Record& record) {
  record.versions = identity.versions();
  at = {"matrix", point.matrix};
  const LoadedInput& source = inputs.a(point);
  record.point_id = identity.point_id(inputs.content_hash(point));
  record.matrix = matrix_part(source);
  if (has_right_matrix(point)) {
    at.name = sparse_product(point).right;
    record.right = matrix_part(inputs.right(sparse_product(point)));
  }
  record.prep = {.load_s = source.file.load_s, .load_from_cache = source.file.from_cache};
  prepare_while_opening(point, source);
  at = {"backend", point.backend};
  const BackendChoice choice = awaited(point, [&] { return find_backend(point.backend); });
  require<Unsupported>(choice.missing.empty(), "{}", choice.missing);

  std::visit([&](const auto& task) { run_task(task, point, source, *choice.backend, record); },
             point.task);
  record.origin = choice.backend->origin();
}

/// Makes the inputs of a dense product while the device is not there yet, which run_task() finds
/// then.
void PointRunner::State::prepare_while_opening(const Point& point, const LoadedInput& source) {
  const auto* product = std::get_if<DenseProduct>(&point.task);
  if (turn == nullptr || turn->is_open() || product == nullptr || product->kernel.name == kAuto ||
      !backend_traits(point.backend).needs_gpu)
    return;
  at = {"order", point.reorder.name};
  const OrderedInput& a = inputs.ordered(point, source);
  at = {"format", product->format.name};
  inputs.packed(product->format, a);
  inputs.ordered_dense_b(*product, source, a);
}

const OrderedInput& PointRunner::State::ordered(const Point& point, const LoadedInput& source,
                                                Record& record) {
  at = {"order", point.reorder.name};
  const OrderedInput& a = inputs.ordered(point, source);
  add_order(a.found, *record.prep);
  record.prep->apply_s = a.apply_s;
  return a;
}

/// The point with a kernel in the place of "auto"; the record says which and why.
Point PointRunner::State::with_kernel(Point point, const OrderedInput& a, Record& record) {
  const AdviceRequest request = advice_request(point);
  const KernelChoice& choice = chosen.get({a.key, request.n, request.device, request.options.warm},
                                          [&] { return choose_kernel(a.matrix, request); });
  record.advice = choice.fields;
  record.prep->advise_s = choice.seconds;
  auto& product = std::get<DenseProduct>(point.task);
  product.kernel = choice.kernel;
  product.format = choice.format;
  return point;
}

void PointRunner::State::run_task(const DenseProduct& requested, const Point& given,
                                  const LoadedInput& source, Backend& backend, Record& record) {
  const OrderedInput& a = ordered(given, source, record);
  at = {"kernel", requested.kernel.name};
  const Point point = requested.kernel.name == kAuto ? with_kernel(given, a, record) : given;
  const DenseProduct& product = dense_product(point);
  const auto kernel = make_registered<SpmmKernel>(product.kernel);
  const GpuLimits gpu = awaited(point, [&] { return backend.gpu_limits(point); });
  kernel->set_gpu(gpu);
  at = {"format", product.format.name};
  const PackedInput& packed = inputs.packed(product.format, a);
  at = {"kernel", product.kernel.name};
  record.prep->pack_s = packed.pack_s;
  add_packed(*packed.matrix, *record.prep);
  const DenseMatrix& b = inputs.ordered_dense_b(product, source, a);

  if (backend_traits(point.backend).predicts) record.analysis = inputs.analysis(point, a);
  const Multiplication multiplication{point, *kernel, *packed.matrix, b, a.order().rows};
  backend.prepare(multiplication);
  BackendResult result = in_turn(point, backend, [&] { return backend.run(multiplication); });
  result.finish();
  record.found = std::move(result.findings);
  const double flops =
      2.0 * static_cast<double>(source.matrix.nnz()) * static_cast<double>(product.n);
  record.gflops = giga_rate(flops, result.time_us);
  record.status = "ok";
  if (result.c && point.check.enabled)
    check(multiplication, gpu, source, a, result, record);
  else
    add_fault(record, result.fault);
}

void PointRunner::State::check(const Multiplication& m, const GpuLimits& gpu,
                               const LoadedInput& source, const OrderedInput& a,
                               BackendResult& result, Record& record) {
  const DenseProduct& product = dense_product(m.point);
  const EmulationKey key{a.key,
                         fmt::format("{} {}", product.n, product.seed),
                         to_text(product.format),
                         to_text(product.kernel),
                         result.generation,
                         gpu};
  record.bits = compare_with_emulation(emulated, key, m.point, *result.c, [&] {
    return emulate_c(m.kernel, m.a, m.b, find_generation(result.generation));
  });

  DenseMatrix c = restore_rows(std::move(*result.c), m.rows);
  const SpmmTruth* truth = inputs.truth(product, source);
  const CheckedResult checked =
      check_result(source.matrix, inputs.dense_b(product, source), c,
                   {m.kernel, m.a, m.rows, result.generation}, m.point.check.against_fp32, truth);
  if (checked.check) record.check = *checked.check;
  add_fault(record, launch_fault(result.unwritten, result.guards_intact, record.bits));
  add_fault(record, result.fault);
  add_fault(record, checked.reason);
  if (result.c_of_negated)
    add_fault(record, later_product_fault(
                          c, restore_rows(std::move(*result.c_of_negated), m.rows),
                          [&](const DenseMatrix& later) {
                            return check_result(source.matrix, inputs.dense_b(product, source),
                                                later, {m.kernel, m.a, m.rows, result.generation},
                                                false, truth)
                                .reason;
                          }));
  last_c = std::move(c);
}

void PointRunner::State::run_task(const SparseProduct& product, const Point& point,
                                  const LoadedInput& source, const Backend& backend,
                                  Record& record) {
  const OrderedInput& a = ordered(point, source, record);
  at = {"right factor", product.right};
  const CsrMatrix& b = inputs.sparse_b(point, a);
  at = {"kernel", product.kernel.name};
  const auto kernel = make_registered<SpgemmKernel>(product.kernel);
  const CsrMatrix* mask = inputs.sparse_mask(point, a, b);
  const SparseMultiplication multiplication{point, *kernel, a.matrix, b, mask};
  SparseProductResult result =
      in_turn(point, backend, [&] { return backend.multiply(multiplication); });
  record.found = std::move(result.findings);
  // Under a mask the kernel need not be the one that it chooses for the whole product.
  if (const auto path = mask ? std::nullopt : kernel->path_of(a.matrix, b)) {
    record.found.winner = path->kernel;
    record.predicted_us = path->predicted_us;
  }
  if (result.pack_s > 0) record.prep->pack_s = result.pack_s;
  record.products = count_products(a.matrix, b);
  const double flops = 2 * static_cast<double>(*record.products);
  record.gflops = giga_rate(flops, result.time_us);
  record.pool_gflops = giga_rate(flops, result.pool_us);
  record.status = "ok";
  add_fault(record, result.fault);
  if (!result.c) return;
  record.nnz_c = result.c->nnz();
  if (*record.nnz_c > 0)
    record.compression = static_cast<double>(*record.products) / static_cast<double>(*record.nnz_c);
  if (point.check.enabled) check(multiplication, a, result, record);
}

void PointRunner::State::check(const SparseMultiplication& m, const OrderedInput& a,
                               const SparseProductResult& result, Record& record) {
  const SparseComputation computation{m.kernel, m.a, m.b, result.generation, m.mask};
  const CheckedResult checked = check_result(computation, *result.c, m.point.check.against_fp32);
  if (checked.check) {  // C is a matrix
    record.check = *checked.check;
    const SparseProduct& product = sparse_product(m.point);
    const EmulationKey key{
        a.key, product.right, product.mask, to_text(product.kernel), result.generation, {}};
    record.bits = compare_with_emulation(emulated_sparse, key, m.point, *result.c, [&] {
      return emulate(m, find_generation(result.generation));
    });
    add_fault(record, launch_fault(0, true, record.bits));
    if (result.c_of_negated)
      add_fault(record,
                later_product_fault(*result.c, *result.c_of_negated, [&](const CsrMatrix& later) {
                  return check_result(computation, later).reason;
                }));
  }
  add_fault(record, checked.reason);
}

void PointRunner::State::run_task(const SampledProduct& product, const Point& point,
                                  const LoadedInput& source, const Backend& backend,
                                  Record& record) {
  const OrderedInput& a = ordered(point, source, record);
  at = {"kernel", product.kernel.name};
  const auto kernel = make_registered<SddmmKernel>(product.kernel);
  at = {"format", product.format.name};
  const PackedInput& packed = inputs.packed(product.format, a);
  at = {"kernel", product.kernel.name};
  record.prep->pack_s = packed.pack_s;
  add_packed(*packed.matrix, *record.prep);
  const auto& [x, y] = inputs.dense_factors(product, a);
  const SampledMultiplication multiplication{point, *kernel, a.matrix, *packed.matrix, x, y};
  SampledProductResult result =
      in_turn(point, backend, [&] { return backend.multiply(multiplication); });
  record.found = std::move(result.findings);
  const double flops = 2.0 * static_cast<double>(a.matrix.nnz()) * static_cast<double>(product.n);
  record.gflops = giga_rate(flops, result.time_us);
  record.status = "ok";
  add_fault(record, result.fault);
  if (result.s && point.check.enabled) check(multiplication, a, result, record);
}

void PointRunner::State::check(const SampledMultiplication& m, const OrderedInput& a,
                               const SampledProductResult& result, Record& record) {
  const SampledProduct& product = sampled_product(m.point);
  const EmulationKey key{a.key,
                         fmt::format("{} {}", product.n, product.seed),
                         to_text(product.format),
                         to_text(product.kernel),
                         result.generation,
                         {}};
  record.bits = compare_with_emulation(emulated_sparse, key, m.point, *result.s, [&] {
    return with_values(m.pattern,
                       m.kernel.emulate(m.a, m.x, m.y, find_generation(result.generation)));
  });
  const CheckedResult checked = check_result({m.kernel, m.pattern, m.x, m.y, result.generation},
                                             *result.s, m.point.check.against_fp32);
  record.check = *checked.check;
  add_fault(record, launch_fault(result.unwritten, result.guards_intact, record.bits));
  add_fault(record, checked.reason);
  if (result.s_of_negated)
    add_fault(
        record, later_product_fault(*result.s, *result.s_of_negated, [&](const CsrMatrix& later) {
          return check_result({m.kernel, m.pattern, m.x, m.y, result.generation}, later).reason;
        }));
}

void PointRunner::State::run_task(const Packing& packing, const Point& point,
                                  const LoadedInput& source, const Backend& backend,
                                  Record& record) {
  const OrderedInput& a = ordered(point, source, record);
  const auto format = make_registered<Format>(packing.format);
  at = {"format", packing.format.name};
  PackingResult result = in_turn(point, backend, [&] {
    return backend.pack({point, *format, a.matrix});
  });
  record.found = std::move(result.findings);
  PreparationPart& prep = *record.prep;
  const bool on_gpu = backend_traits(point.backend).needs_gpu;
  (on_gpu ? prep.pack_gpu_s : prep.pack_s) = 1e-6 * result.time_us;
  add_packed(*result.packed, prep);
  prep.arrays = array_bytes(*result.packed);
  record.nnz_per_s = nonzeros_per_s(source.matrix, result.time_us);
  record.statistics = inputs.statistics(a, packing.square);

  const std::string fault = round_trip_fault(*result.packed, a.matrix);
  PackingCheck check{.round_trip_exact = fault.empty()};
  if (on_gpu) check.host_bytes = result.fault.empty();
  record.check = check;
  record.status = "ok";
  add_fault(record, fault);
  add_fault(record, result.fault);
}

void PointRunner::State::run_task(const Ordering& ordering, const Point& point,
                                  const LoadedInput& source, const Backend& backend,
                                  Record& record) {
  at = {"order", point.reorder.name};
  const auto reordering = make_registered<Reordering>(point.reorder);
  Watch watch = inputs.watch(point);
  OrderingResult result = in_turn(point, backend, [&] {
    const ThreadScope threads(ordering.threads);
    return backend.reorder({point, *reordering, source.matrix, watch});
  });
  record.found = std::move(result.findings);
  add_order(result.found, *record.prep);
  record.nnz_per_s = nonzeros_per_s(source.matrix, result.time_us);
  const Stopwatch applying;
  const CsrMatrix reordered = apply(source.matrix, result.found.order);
  record.prep->apply_s = applying.seconds();
  record.statistics = describe(reordered, false);
  record.status = "ok";
  add_fault(record, result.fault);
}

PointRunner::PointRunner(PointRunnerOptions options)
    : state_(new State{.inputs = PointInputs(options),
                       .turn = options.turn,
                       .user = options.user,
                       .has_turn = options.has_turn}) {}
PointRunner::~PointRunner() = default;

std::string PointRunner::point_id(const Point& point) {
  const PointIdentity identity(point);
  try {
    return identity.point_id(state_->inputs.content_hash(point));
  } catch (const std::exception&) {
    return identity.point_id("");
  }
}

Attempt PointRunner::run(const Point& point) {
  const Stopwatch watch;
  const PointIdentity identity(point);
  Attempt attempt{base_record(point, identity), false};
  Record& record = attempt.record;
  state_->waited_s = 0;
  state_->lost_device = false;
  const auto end = [&](const char* status, const std::string& reason) {
    record.status = status;
    record.reason = reason;
  };
  try {
    state_->run(point, identity, record);
  } catch (const MatrixAbsent& error) {
    end("skipped", error.what());
    record.skip = {kAbsentMatrix, error.matrix()};
  } catch (const Unsupported& error) {
    end("skipped", error.what());
    record.skip = state_->at;
  } catch (const std::bad_alloc&) {
    end("oom", "out of memory");
  } catch (const OutOfMemory& error) {
    end("oom", error.what());
  } catch (const Error& error) {
    end("failed", error.what());
  } catch (const std::exception& error) {
    end("failed", error.what());
    attempt.restart_needed = true;
  }
  if (state_->lost_device && !attempt.restart_needed) {
    attempt.restart_needed = true;
    record.skip.reset();
    end("failed", record.reason.value_or("") + " (the process has lost its device)");
  }
  record.attempt_s = watch.seconds() - state_->waited_s;
  record.finished_at = utc_now();
  return attempt;
}

const DenseMatrix& PointRunner::last_c() const { return state_->last_c; }

void PointRunner::use_b(DenseMatrix b) { state_->inputs.use_b(std::move(b)); }

Record unfinished_record(const Point& point, const std::string& status, const std::string& reason) {
  Record record = base_record(point, PointIdentity(point));
  try {
    record.point_id = known_point_id(point);
  } catch (const Error&) {
    // Not even the place of a matrix is known: the identity of the request stays.
  }
  record.status = status;
  record.reason = reason;
  return record;
}

std::string known_point_id(const Point& point) {
  return PointIdentity(point).point_id(joint_hash(
      point, [](const std::string& matrix) { return known_content_hash(find_matrix(matrix)); }));
}

}  // namespace tessera
