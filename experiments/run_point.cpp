#include "experiments/run_point.hpp"

#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "experiments/advice.hpp"
#include "experiments/analysis.hpp"
#include "experiments/backend.hpp"
#include "experiments/check_result.hpp"
#include "experiments/describe.hpp"
#include "experiments/find_order.hpp"
#include "experiments/latest.hpp"
#include "experiments/machine.hpp"
#include "experiments/record.hpp"
#include "experiments/restore.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "formats/values/value_family.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Loaded {
  LoadedMatrix file;
  CsrMatrix matrix;    // with the values of the point
  std::string hash;    // of that, and of the family of B
  std::string values;  // the family that it came down to
};

struct Ordered {
  FoundOrder found;
  CsrMatrix matrix;
  double apply_s = 0;

  const Order& order() const { return found.order; }
};

struct Packed {
  std::unique_ptr<PackedMatrix> matrix;
  double pack_s = 0;
};

std::string key_of(const Variant& variant) {
  std::string key = variant.name;
  for (const auto& [name, value] : variant.params.values())
    key += fmt::format(" {}={}", name, to_text(value));
  return key;
}

std::unique_ptr<ValueFamily> value_family(const Point& point) {
  return Registry<ValueFamily>::instance().make(point.values.name, point.values.params);
}

Loaded load(const Point& point) {
  const auto family = value_family(point);
  Loaded loaded{load_matrix(point.matrix), {}, "", to_text(point.values)};
  const CsrMatrix& file = loaded.file.matrix;
  if (const std::string chosen = family->chosen_for(file); !chosen.empty()) loaded.values = chosen;
  loaded.matrix = {file.rows, file.cols, file.row_offsets, file.col_indices,
                   family->a_values(file, point.seed)};
  // The content is the file's, the family's and the seed's: no need to hash the values.
  loaded.hash =
      hash_text(fmt::format("{} {} {}", loaded.file.content_hash, loaded.values, point.seed));
  return loaded;
}

std::string order_key_of(const Point& point, const Loaded& source) {
  return source.hash + "|" + key_of(point.reorder);
}

/// Versions of what decides the values and the speed: the reordering, and the kernel, or what picks
/// it, or, where only A is packed, the format.
Json versions(const Point& point) {
  const auto of = [](const auto& registry, const Variant& variant) {
    return registry.make(variant.name, variant.params)->version();
  };
  Json json{{"reorder_version", of(Registry<Reordering>::instance(), point.reorder)}};
  const Task task = backend_traits(point.backend).task;
  if (task == Task::kPack) json["format_version"] = of(Registry<Format>::instance(), point.format);
  if (task == Task::kMultiply && point.kernel.name == kAuto)
    json.update(choice_versions());
  else if (task == Task::kMultiply)
    json["kernel_version"] = of(Registry<SpmmKernel>::instance(), point.kernel);
  return json;
}

/// Parallel loops on that many threads until it goes out of scope; 0 changes nothing.
class ThreadScope {
 public:
  explicit ThreadScope(std::int64_t threads) : before_(num_threads()) {
    require<Unsupported>(threads <= before_, "{} threads are asked for, this process has {}",
                         threads, before_);
    if (threads > 0) set_num_threads(static_cast<int>(threads));
  }
  ~ThreadScope() { set_num_threads(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

/// Empty when nothing is known of the matrix, not even where it is.
std::string content_hash_if_known(const Point& point) {
  try {
    return known_content_hash(find_matrix(point.matrix));
  } catch (const Error&) {
    return "";
  }
}

Json base_record(const Point& point) {
  return {{"schema", kRecordSchema},
          {"type", "point"},
          {"params", to_json(point)},
          {"params_hash", params_hash(point)},
          {"finished_at", utc_now()}};
}

}  // namespace

struct PointRunner::State {
  PointRunnerOptions options;
  Latest<Loaded> loaded;
  Latest<Ordered> ordered;
  Latest<KernelChoice> chosen;  // in the place of kernel "auto"
  Latest<Packed> packed;
  Latest<Json> statistics;           // of the reordered matrix
  Latest<ModelCounts> model_counts;  // of the same
  Latest<DenseMatrix> b;             // rows in the order of the file
  Latest<DenseMatrix> b_permuted;    // rows in the order of the reordered columns
  Latest<DenseMatrix> emulated;      // C, rows in the order of the packed matrix
  std::optional<DenseMatrix> given_b;
  DenseMatrix last_c;

  const Loaded& load_for(const Point& point) {
    return loaded.get(fmt::format("{}|{}|{}", point.matrix, to_text(point.values), point.seed),
                      [&] { return load(point); });
  }

  const Ordered& order_for(const Point& point, const Loaded& source) {
    return ordered.get(order_key_of(point, source), [&] {
      Watch watch = watch_for(point);
      Ordered result{find_order(source.matrix, source.file.content_hash, point.reorder, watch,
                                options.fresh_orders),
                     {},
                     0};
      const Stopwatch applying;
      result.matrix = apply(source.matrix, result.order());
      result.apply_s = applying.seconds();
      return result;
    });
  }

  /// Tells of the point's order. Nothing interrupts it: whoever wants to ends the process.
  Watch watch_for(const Point& point) const {
    if (!options.tell_order) return Watch();
    options.tell_order(point, 0);
    return Watch({}, [&](double share) { options.tell_order(point, share); });
  }

  const Json& statistics_for(const Point& point, const std::string& order_key,
                             const CsrMatrix& reordered) {
    return statistics.get(fmt::format("{}|{}", order_key, point.square),
                          [&] { return describe(reordered, point.square); });
  }

  /// What the papers' models say; A is counted once for every N and device.
  Json analysis_for(const Point& point, const std::string& order_key, const CsrMatrix& reordered) {
    const ModelCounts& counts =
        model_counts.get(order_key, [&] { return count_for_models(reordered, false); });
    return analysis_json(analyse(counts, point.n, find_device(point.device)));
  }

  /// The point with a kernel in the place of "auto"; the record tells which and why.
  Point with_kernel(Point point, const std::string& order_key, const CsrMatrix& reordered,
                    Json& record) {
    const AdviceRequest request = advice_request(point);
    const std::string key =
        fmt::format("{}|{}|{}|{}", order_key, point.n, request.device, request.options.warm);
    const KernelChoice& choice = chosen.get(key, [&] { return choose_kernel(reordered, request); });
    record["advice"] = choice.fields;
    record["prep"]["advise_s"] = choice.seconds;
    point.kernel = choice.kernel;
    point.format = choice.format;
    return point;
  }

  const Packed& pack_for(const Point& point, const std::string& order_key, const Ordered& source) {
    return packed.get(order_key + "|" + key_of(point.format), [&] {
      const auto format = Registry<Format>::instance().make(point.format.name, point.format.params);
      const Stopwatch watch;
      Packed result{format->pack(source.matrix), 0};
      result.pack_s = watch.seconds();
      return result;
    });
  }

  const DenseMatrix& b_for(const Point& point, const CsrMatrix& a) {
    const auto key = fmt::format("{}|{}|{}|{}", a.cols, point.n, point.seed, to_text(point.values));
    return b.get(key, [&] {
      // Another stream than A's drawn values.
      if (!given_b) return value_family(point)->b(a.cols, point.n, mix_bits(point.seed));
      require(given_b->rows == a.cols && given_b->cols == point.n,
              "B is {} x {}, but A has {} columns and n is {}", given_b->rows, given_b->cols,
              a.cols, point.n);
      return *given_b;
    });
  }

  void run(const Point& point, Json& record);
  void multiply(const Point& point, const Loaded& source, const Ordered& order,
                const Backend& backend, const SpmmKernel& kernel, Json& record);
  void pack(const Point& point, const Loaded& source, const Ordered& order, const Backend& backend,
            Json& record);
  void reorder(const Point& point, const Loaded& source, const Backend& backend, Json& record);
  void check(const Point& point, const Loaded& source, const Ordered& ordered,
             const Multiplication& m, BackendResult& result, const std::string& c_key,
             Json& record);
};

void PointRunner::State::run(const Point& point, Json& record) {
  const BackendChoice choice = find_backend(point.backend);
  const Task task = backend_traits(point.backend).task;
  record.update(versions(point));
  if (choice.backend) record["origin"] = choice.backend->origin();

  const Loaded& source = load_for(point);
  record["point_id"] = tessera::point_id(point, source.file.content_hash);
  record["matrix"] = {{"name", source.file.source.name},
                      {"hash", source.file.content_hash},
                      {"rows", source.matrix.rows},
                      {"cols", source.matrix.cols},
                      {"nnz", source.matrix.nnz()},
                      {"source", source.file.source.canonical},
                      {"synthetic", source.file.source.synthetic()},
                      {"values", source.values}};
  record["prep"] = {{"load_s", source.file.load_s}, {"load_from_cache", source.file.from_cache}};
  require<Unsupported>(choice.missing.empty(), "{}", choice.missing);

  if (task == Task::kReorder) return reorder(point, source, *choice.backend, record);
  const Ordered& order = order_for(point, source);
  record["prep"].update(to_json(order.found));
  record["prep"]["apply_s"] = order.apply_s;
  if (task == Task::kPack) return pack(point, source, order, *choice.backend, record);
  const Point known = point.kernel.name == kAuto
                          ? with_kernel(point, order_key_of(point, source), order.matrix, record)
                          : point;
  const auto kernel = Registry<SpmmKernel>::instance().make(known.kernel.name, known.kernel.params);
  multiply(known, source, order, *choice.backend, *kernel, record);
}

void PointRunner::State::multiply(const Point& point, const Loaded& source, const Ordered& order,
                                  const Backend& backend, const SpmmKernel& kernel, Json& record) {
  const std::string order_key = order_key_of(point, source);
  const Packed& a = pack_for(point, order_key, order);
  record["prep"]["pack_s"] = a.pack_s;
  record["prep"].update(describe(*a.matrix));

  const DenseMatrix* operand = &b_for(point, source.matrix);
  if (order.order().cols)
    operand = &b_permuted.get(fmt::format("{}|{}|{}", order_key, point.n, point.seed),
                              [&] { return permute_rows(*operand, *order.order().cols); });

  if (backend_traits(point.backend).predicts)
    record["analysis"] = analysis_for(point, order_key, order.matrix);
  const Multiplication multiplication{point, kernel, *a.matrix, *operand, order.order().rows};
  BackendResult result = backend.run(multiplication);
  record.update(result.fields);
  if (result.time_us > 0)
    record["gflops"] = 2.0 * static_cast<double>(source.matrix.nnz()) *
                       static_cast<double>(point.n) / (1e3 * result.time_us);
  record["status"] = result.fault.empty() ? "ok" : "wrong";
  if (!result.fault.empty()) record["reason"] = result.fault;
  if (result.c && point.check) {
    const auto c_key = fmt::format("{}|{}|{}|{}|{}|{}", order_key, key_of(point.format),
                                   key_of(point.kernel), point.n, point.seed, result.generation);
    check(point, source, order, multiplication, result, c_key, record);
  }
}

void PointRunner::State::pack(const Point& point, const Loaded& source, const Ordered& order,
                              const Backend& backend, Json& record) {
  const auto format = Registry<Format>::instance().make(point.format.name, point.format.params);
  PackingResult result = backend.pack({point, *format, order.matrix});
  record.update(result.fields);
  const bool on_gpu = backend_traits(point.backend).needs_gpu;
  record["prep"][on_gpu ? "pack_gpu_s" : "pack_s"] = 1e-6 * result.time_us;
  record["prep"].update(describe(*result.packed));
  record["prep"]["arrays"] = describe_arrays(*result.packed);
  if (result.time_us > 0)
    record["nnz_per_s"] = 1e6 * static_cast<double>(source.matrix.nnz()) / result.time_us;
  record["statistics"] = statistics_for(point, order_key_of(point, source), order.matrix);

  std::string fault = round_trip_fault(result.packed->unpack(), order.matrix);
  record["check"] = {{"round_trip_exact", fault.empty()}};
  if (on_gpu) record["check"]["host_bytes"] = result.fault.empty();
  if (!result.fault.empty()) fault += (fault.empty() ? "" : "; ") + result.fault;
  record["status"] = fault.empty() ? "ok" : "wrong";
  if (!fault.empty()) record["reason"] = fault;
}

void PointRunner::State::reorder(const Point& point, const Loaded& source, const Backend& backend,
                                 Json& record) {
  const auto reordering =
      Registry<Reordering>::instance().make(point.reorder.name, point.reorder.params);
  Watch watch = watch_for(point);
  const OrderingResult result = [&] {
    const ThreadScope threads(point.threads);
    return backend.reorder({point, *reordering, source.matrix, watch});
  }();
  record.update(result.fields);
  record["prep"].update(to_json(result.found));
  if (result.time_us > 0)
    record["nnz_per_s"] = 1e6 * static_cast<double>(source.matrix.nnz()) / result.time_us;
  const Stopwatch applying;
  const CsrMatrix reordered = apply(source.matrix, result.found.order);
  record["prep"]["apply_s"] = applying.seconds();
  record["statistics"] = describe(reordered, false);
  record["status"] = result.fault.empty() ? "ok" : "wrong";
  if (!result.fault.empty()) record["reason"] = result.fault;
}

void PointRunner::State::check(const Point& point, const Loaded& source, const Ordered& order,
                               const Multiplication& m, BackendResult& result,
                               const std::string& c_key, Json& record) {
  if (point.backend == "emulate") {
    emulated.put(c_key, *result.c);
  } else {
    try {
      const DenseMatrix& expected = emulated.get(
          c_key, [&] { return m.kernel.emulate(m.a, m.b, find_generation(result.generation)); });
      record["bits"] = compare_bits(*result.c, expected);
    } catch (const Unsupported&) {
      // A closed library has no emulation; the oracle still checks it.
    }
  }

  DenseMatrix c = restore_rows(std::move(*result.c), order.order().rows);
  const CheckedResult checked =
      check_result(source.matrix, b_for(point, source.matrix), c,
                   {m.kernel, m.a, order.order().rows, result.generation}, point.against_fp32);
  record["check"] = checked.fields;
  std::string reason = launch_fault(result.unwritten, result.guards_intact,
                                    record.contains("bits") ? record["bits"] : Json());
  if (!result.fault.empty()) reason += (reason.empty() ? "" : "; ") + result.fault;
  if (!checked.reason.empty()) reason += (reason.empty() ? "" : "; ") + checked.reason;
  if (!reason.empty()) {
    record["status"] = "wrong";
    record["reason"] = reason;
  }
  last_c = std::move(c);
}

PointRunner::PointRunner(PointRunnerOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
}
PointRunner::~PointRunner() = default;

std::string PointRunner::point_id(const Point& point) {
  try {
    return tessera::point_id(point, state_->load_for(point).file.content_hash);
  } catch (const std::exception&) {
    return tessera::point_id(point, "");
  }
}

Attempt PointRunner::run(const Point& point) {
  const Stopwatch watch;
  Attempt attempt{base_record(point), false};
  Json& record = attempt.record;
  record["point_id"] = tessera::point_id(point, "");
  const auto end = [&](const char* status, const std::string& reason) {
    record["status"] = status;
    record["reason"] = reason;
  };
  try {
    state_->run(point, record);
  } catch (const Unsupported& error) {
    end("skipped", error.what());
  } catch (const std::bad_alloc&) {
    end("oom", "out of memory");
  } catch (const OutOfMemory& error) {
    end("oom", error.what());
  } catch (const Error& error) {
    end("failed", error.what());
  } catch (const std::exception& error) {
    // Not one of ours: the CUDA runtime's errors stick to the process.
    end("failed", error.what());
    attempt.restart_needed = true;
  }
  record["attempt_s"] = watch.seconds();
  record["finished_at"] = utc_now();
  return attempt;
}

const DenseMatrix& PointRunner::last_c() const { return state_->last_c; }

void PointRunner::use_b(DenseMatrix b) { state_->given_b = std::move(b); }

Json unfinished_record(const Point& point, const std::string& status, const std::string& reason) {
  Json record = base_record(point);
  record["point_id"] = point_id(point, content_hash_if_known(point));
  record["status"] = status;
  record["reason"] = reason;
  return record;
}

std::string point_id(const Point& point, const std::string& content_hash) {
  return hash_text(
      fmt::format("{}|{}|{}", to_json(point).dump(), content_hash, versions(point).dump()));
}

}  // namespace tessera
