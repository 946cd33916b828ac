#include "experiments/run/run_point.hpp"

#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "experiments/backends/backend.hpp"
#include "experiments/backends/check_result.hpp"
#include "experiments/backends/find_order.hpp"
#include "experiments/backends/restore.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/run/advice.hpp"
#include "experiments/run/analysis.hpp"
#include "experiments/run/describe.hpp"
#include "experiments/run/latest.hpp"
#include "experiments/run/record.hpp"
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

std::unique_ptr<ValueFamily> value_family(const Variant& values) {
  return make_registered<ValueFamily>(values);
}

Loaded load(const std::string& matrix, const OperandValues& operands) {
  const auto family = value_family(operands.values);
  Loaded loaded{load_matrix(matrix), {}, "", to_text(operands.values)};
  const CsrMatrix& file = loaded.file.matrix;
  if (const std::string chosen = family->chosen_for(file); !chosen.empty()) loaded.values = chosen;
  loaded.matrix = {file.rows, file.cols, file.row_offsets, file.col_indices,
                   family->a_values(file, operands.seed)};
  // The content is the file's, the family's and the seed's: no need to hash the values.
  loaded.hash =
      hash_text(fmt::format("{} {} {}", loaded.file.content_hash, loaded.values, operands.seed));
  return loaded;
}

std::string order_key_of(const Point& point, const Loaded& source) {
  return source.hash + "|" + key_of(point.reorder);
}

/// Versions of what decides the values and the speed: the reordering, and the kernel, or what picks
/// it, or, where only A is packed, the format.
Json versions(const Point& point) {
  Json json{{"reorder_version", make_registered<Reordering>(point.reorder)->version()}};
  if (const auto* packing = std::get_if<Packing>(&point.task))
    json["format_version"] = make_registered<Format>(packing->format)->version();
  if (const auto* product = std::get_if<SparseProduct>(&point.task))
    json["kernel_version"] = make_registered<SpgemmKernel>(product->kernel)->version();
  if (const auto* product = std::get_if<DenseProduct>(&point.task)) {
    if (product->kernel.name == kAuto)
      json.update(choice_versions());
    else
      json["kernel_version"] = make_registered<SpmmKernel>(product->kernel)->version();
  }
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

/// Whether B is a matrix of its own that has to be loaded.
bool has_right_matrix(const Point& point) {
  const auto* product = std::get_if<SparseProduct>(&point.task);
  return product && product->right != kSelf && product->right != kTranspose;
}

/// Of all that a point loads, by the hash of each matrix.
template <class HashOf>
std::string joint_hash(const Point& point, HashOf hash_of) {
  const std::string hash = hash_of(point.matrix);
  return has_right_matrix(point) ? hash + " x " + hash_of(sparse_product(point).right) : hash;
}

Json matrix_json(const Loaded& loaded) {
  return {{"name", loaded.file.source.name},
          {"hash", loaded.file.content_hash},
          {"rows", loaded.matrix.rows},
          {"cols", loaded.matrix.cols},
          {"nnz", loaded.matrix.nnz()},
          {"source", loaded.file.source.canonical},
          {"synthetic", loaded.file.source.synthetic()},
          {"values", loaded.values}};
}

/// Terms of all sums of A B.
std::int64_t count_products(const CsrMatrix& a, const CsrMatrix& b) {
  std::int64_t products = 0;
  for (const std::int32_t k : a.col_indices) products += b.row_length(k);
  return products;
}

/// A A of a reordered A is the reordered A A only where rows and columns moved alike.
void require_one_order(const Point& point, const Order& order) {
  const bool is_one = order.cols ? *order.cols == order.rows : order.rows.is_identity();
  require<Unsupported>(is_one,
                       "reordering {} does not move rows and columns alike, and both factors of "
                       "A A are the reordered A",
                       point.reorder.name);
}

void add_reason(std::string& reason, const std::string& more) {
  if (!more.empty()) reason += (reason.empty() ? "" : "; ") + more;
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
  LastValueCache<Loaded> loaded;
  LastValueCache<Ordered> ordered;
  LastValueCache<KernelChoice> chosen;  // in the place of kernel "auto"
  LastValueCache<Packed> packed;
  LastValueCache<Json> statistics;           // of the reordered matrix
  LastValueCache<ModelCounts> model_counts;  // of the same
  LastValueCache<DenseMatrix> b;             // rows in the order of the file
  LastValueCache<DenseMatrix> b_permuted;    // rows in the order of the reordered columns
  LastValueCache<DenseMatrix> emulated;      // C, rows in the order of the packed matrix
  LastValueCache<Loaded> right;              // a sparse B of its own, in the order of the file
  LastValueCache<CsrMatrix> right_ordered;  // the transpose, or that B, in the order of A's columns
  LastValueCache<CsrMatrix> emulated_sparse;  // C
  std::optional<DenseMatrix> given_b;
  DenseMatrix last_c;

  const Loaded& load_for(const Point& point) {
    const OperandValues operands = operand_values(point);
    return loaded.get(
        fmt::format("{}|{}|{}", point.matrix, to_text(operands.values), operands.seed),
        [&] { return load(point.matrix, operands); });
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

  const Json& statistics_for(bool square, const std::string& order_key,
                             const CsrMatrix& reordered) {
    return statistics.get(fmt::format("{}|{}", order_key, square),
                          [&] { return describe(reordered, square); });
  }

  /// What the papers' models say; A is counted once for every N and device.
  Json analysis_for(const Point& point, const std::string& order_key, const CsrMatrix& reordered) {
    const ModelCounts& counts =
        model_counts.get(order_key, [&] { return count_for_models(reordered, false); });
    return analysis_json(analyse(counts, dense_product(point).n, find_device(point.device)));
  }

  /// The point with a kernel in the place of "auto"; the record tells which and why.
  Point with_kernel(Point point, const std::string& order_key, const CsrMatrix& reordered,
                    Json& record) {
    const AdviceRequest request = advice_request(point);
    const std::string key =
        fmt::format("{}|{}|{}|{}", order_key, request.n, request.device, request.options.warm);
    const KernelChoice& choice = chosen.get(key, [&] { return choose_kernel(reordered, request); });
    record["advice"] = choice.fields;
    record["prep"]["advise_s"] = choice.seconds;
    auto& product = std::get<DenseProduct>(point.task);
    product.kernel = choice.kernel;
    product.format = choice.format;
    return point;
  }

  const Packed& pack_for(const Variant& format, const std::string& order_key,
                         const Ordered& source) {
    return packed.get(order_key + "|" + key_of(format), [&] {
      const auto made = make_registered<Format>(format);
      const Stopwatch watch;
      Packed result{made->pack(source.matrix), 0};
      result.pack_s = watch.seconds();
      return result;
    });
  }

  const Loaded& right_for(const SparseProduct& product) {
    const auto key = fmt::format("{}|{}|{}", product.right, to_text(product.values), product.seed);
    return right.get(key, [&] {
      // Another stream than A's drawn values.
      return load(product.right, {product.values, mix_bits(product.seed)});
    });
  }

  /// The sparse B, rows in the order of the columns of the reordered A.
  const CsrMatrix& sparse_b_for(const Point& point, const std::string& order_key,
                                const Ordered& a) {
    const SparseProduct& product = sparse_product(point);
    if (product.right == kSelf) {
      require<Unsupported>(a.matrix.rows == a.matrix.cols, "A A needs a square A, and A is {} x {}",
                           a.matrix.rows, a.matrix.cols);
      require_one_order(point, a.order());
      return a.matrix;
    }
    const auto key = fmt::format("{}|{}", order_key, product.right);
    if (product.right == kTranspose)
      return right_ordered.get(key, [&] { return transpose(a.matrix); });
    const CsrMatrix& b = right_for(product).matrix;
    require<Unsupported>(a.matrix.cols == b.rows, "A has {} columns and B {} rows", a.matrix.cols,
                         b.rows);
    if (!a.order().cols) return b;
    return right_ordered.get(key, [&] { return permute_rows(b, *a.order().cols); });
  }

  std::string hash_of_all(const Point& point) {
    return joint_hash(point, [&](const std::string& matrix) {
      return (matrix == point.matrix ? load_for(point) : right_for(sparse_product(point)))
          .file.content_hash;
    });
  }

  const DenseMatrix& b_for(const DenseProduct& product, const CsrMatrix& a) {
    const auto key =
        fmt::format("{}|{}|{}|{}", a.cols, product.n, product.seed, to_text(product.values));
    return b.get(key, [&] {
      // Another stream than A's drawn values.
      if (!given_b)
        return value_family(product.values)->b(a.cols, product.n, mix_bits(product.seed));
      require(given_b->rows == a.cols && given_b->cols == product.n,
              "B is {} x {}, but A has {} columns and n is {}", given_b->rows, given_b->cols,
              a.cols, product.n);
      return *given_b;
    });
  }

  void run(const Point& point, Json& record);
  void multiply(const Point& point, const Loaded& source, const Ordered& order,
                const Backend& backend, const SpmmKernel& kernel, Json& record);
  void multiply_sparse(const Point& point, const Loaded& source, const Ordered& order,
                       const Backend& backend, Json& record);
  void check_sparse(const SparseMultiplication& m, const SparseProductResult& result,
                    const std::string& c_key, Json& record);
  void pack(const Point& point, const Loaded& source, const Ordered& order, const Backend& backend,
            Json& record);
  void reorder(const Point& point, const Loaded& source, const Backend& backend, Json& record);
  void check(const Point& point, const Loaded& source, const Ordered& ordered,
             const Multiplication& m, BackendResult& result, const std::string& c_key,
             Json& record);
};

void PointRunner::State::run(const Point& point, Json& record) {
  const BackendChoice choice = find_backend(point.backend);
  record.update(versions(point));
  if (choice.backend) record["origin"] = choice.backend->origin();

  const Loaded& source = load_for(point);
  record["point_id"] = tessera::point_id(point, hash_of_all(point));
  record["matrix"] = matrix_json(source);
  if (has_right_matrix(point)) record["right"] = matrix_json(right_for(sparse_product(point)));
  record["prep"] = {{"load_s", source.file.load_s}, {"load_from_cache", source.file.from_cache}};
  require<Unsupported>(choice.missing.empty(), "{}", choice.missing);

  if (std::holds_alternative<Ordering>(point.task))
    return reorder(point, source, *choice.backend, record);
  const Ordered& order = order_for(point, source);
  record["prep"].update(to_json(order.found));
  record["prep"]["apply_s"] = order.apply_s;
  if (std::holds_alternative<Packing>(point.task))
    return pack(point, source, order, *choice.backend, record);
  if (std::holds_alternative<SparseProduct>(point.task))
    return multiply_sparse(point, source, order, *choice.backend, record);
  const Point known = dense_product(point).kernel.name == kAuto
                          ? with_kernel(point, order_key_of(point, source), order.matrix, record)
                          : point;
  const auto kernel = make_registered<SpmmKernel>(dense_product(known).kernel);
  multiply(known, source, order, *choice.backend, *kernel, record);
}

void PointRunner::State::multiply(const Point& point, const Loaded& source, const Ordered& order,
                                  const Backend& backend, const SpmmKernel& kernel, Json& record) {
  const std::string order_key = order_key_of(point, source);
  const DenseProduct& product = dense_product(point);
  const Packed& a = pack_for(dense_product(point).format, order_key, order);
  record["prep"]["pack_s"] = a.pack_s;
  record["prep"].update(describe(*a.matrix));

  const DenseMatrix* operand = &b_for(dense_product(point), source.matrix);
  if (order.order().cols)
    operand = &b_permuted.get(fmt::format("{}|{}|{}", order_key, product.n, product.seed),
                              [&] { return permute_rows(*operand, *order.order().cols); });

  if (backend_traits(point.backend).predicts)
    record["analysis"] = analysis_for(point, order_key, order.matrix);
  const Multiplication multiplication{point, kernel, *a.matrix, *operand, order.order().rows};
  BackendResult result = backend.run(multiplication);
  record.update(result.fields);
  if (result.time_us > 0)
    record["gflops"] = 2.0 * static_cast<double>(source.matrix.nnz()) *
                       static_cast<double>(product.n) / (1e3 * result.time_us);
  record["status"] = result.fault.empty() ? "ok" : "wrong";
  if (!result.fault.empty()) record["reason"] = result.fault;
  if (result.c && point.check.enabled) {
    const auto c_key =
        fmt::format("{}|{}|{}|{}|{}|{}", order_key, key_of(product.format), key_of(product.kernel),
                    product.n, product.seed, result.generation);
    check(point, source, order, multiplication, result, c_key, record);
  }
}

void PointRunner::State::multiply_sparse(const Point& point, const Loaded& source,
                                         const Ordered& order, const Backend& backend,
                                         Json& record) {
  const std::string order_key = order_key_of(point, source);
  const CsrMatrix& a = order.matrix;
  const CsrMatrix& b = sparse_b_for(point, order_key, order);
  const SparseProduct& product = sparse_product(point);
  const auto kernel = make_registered<SpgemmKernel>(product.kernel);
  const SparseMultiplication multiplication{point, *kernel, a, b};
  const SparseProductResult result = backend.multiply(multiplication);
  record.update(result.fields);
  if (const auto path = kernel->path_of(a, b)) {
    record["winner"] = path->kernel;
    record["predicted_us"] = path->predicted_us;
  }
  if (result.pack_s > 0) record["prep"]["pack_s"] = result.pack_s;
  const std::int64_t products = count_products(a, b);
  const double flops = 2 * static_cast<double>(products);
  record["products"] = products;
  if (result.time_us > 0) record["gflops"] = flops / (1e3 * result.time_us);
  if (result.pool_us > 0) record["pool_gflops"] = flops / (1e3 * result.pool_us);
  record["status"] = "ok";
  if (!result.c) return;
  record["nnz_c"] = result.c->nnz();
  if (result.c->nnz() > 0)
    record["compression"] = static_cast<double>(products) / static_cast<double>(result.c->nnz());
  if (!point.check.enabled) return;
  const auto c_key = fmt::format("{}|{}|{}|{}", order_key, product.right, key_of(product.kernel),
                                 result.generation);
  check_sparse(multiplication, result, c_key, record);
}

void PointRunner::State::check_sparse(const SparseMultiplication& m,
                                      const SparseProductResult& result, const std::string& c_key,
                                      Json& record) {
  const CheckedResult checked =
      check_result({m.kernel, m.a, m.b, result.generation}, *result.c, m.point.check.against_fp32);
  std::string reason = checked.reason;
  if (!checked.fields.is_null()) {  // C is a matrix
    record["check"] = checked.fields;
    if (m.point.backend == "emulate") {
      emulated_sparse.put(c_key, *result.c);
    } else {
      try {
        const CsrMatrix& expected = emulated_sparse.get(
            c_key, [&] { return m.kernel.emulate(m.a, m.b, find_generation(result.generation)); });
        record["bits"] = compare_bits(*result.c, expected);
        reason = launch_fault(0, true, record["bits"]);
        add_reason(reason, checked.reason);
      } catch (const Unsupported&) {
        // A closed library has no emulation; the oracle still checks it.
      }
    }
  }
  if (reason.empty()) return;
  record["status"] = "wrong";
  record["reason"] = reason;
}

void PointRunner::State::pack(const Point& point, const Loaded& source, const Ordered& order,
                              const Backend& backend, Json& record) {
  const auto format = make_registered<Format>(packing(point).format);
  PackingResult result = backend.pack({point, *format, order.matrix});
  record.update(result.fields);
  const bool on_gpu = backend_traits(point.backend).needs_gpu;
  record["prep"][on_gpu ? "pack_gpu_s" : "pack_s"] = 1e-6 * result.time_us;
  record["prep"].update(describe(*result.packed));
  record["prep"]["arrays"] = describe_arrays(*result.packed);
  if (result.time_us > 0)
    record["nnz_per_s"] = 1e6 * static_cast<double>(source.matrix.nnz()) / result.time_us;
  record["statistics"] =
      statistics_for(packing(point).square, order_key_of(point, source), order.matrix);

  std::string fault = round_trip_fault(result.packed->unpack(), order.matrix);
  record["check"] = {{"round_trip_exact", fault.empty()}};
  if (on_gpu) record["check"]["host_bytes"] = result.fault.empty();
  if (!result.fault.empty()) fault += (fault.empty() ? "" : "; ") + result.fault;
  record["status"] = fault.empty() ? "ok" : "wrong";
  if (!fault.empty()) record["reason"] = fault;
}

void PointRunner::State::reorder(const Point& point, const Loaded& source, const Backend& backend,
                                 Json& record) {
  const auto reordering = make_registered<Reordering>(point.reorder);
  Watch watch = watch_for(point);
  const OrderingResult result = [&] {
    const ThreadScope threads(ordering(point).threads);
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
  const CheckedResult checked = check_result(
      source.matrix, b_for(dense_product(point), source.matrix), c,
      {m.kernel, m.a, order.order().rows, result.generation}, point.check.against_fp32);
  record["check"] = checked.fields;
  std::string reason = launch_fault(result.unwritten, result.guards_intact,
                                    record.contains("bits") ? record["bits"] : Json());
  add_reason(reason, result.fault);
  add_reason(reason, checked.reason);
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
    return tessera::point_id(point, state_->hash_of_all(point));
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
  try {
    record["point_id"] = known_point_id(point);
  } catch (const Error&) {
    record["point_id"] = point_id(point, "");  // not even where a matrix is, is known
  }
  record["status"] = status;
  record["reason"] = reason;
  return record;
}

std::string known_point_id(const Point& point) {
  return point_id(point, joint_hash(point, [](const std::string& matrix) {
                    return known_content_hash(find_matrix(matrix));
                  }));
}

std::string point_id(const Point& point, const std::string& content_hash) {
  return hash_text(
      fmt::format("{}|{}|{}", to_json(point).dump(), content_hash, versions(point).dump()));
}

}  // namespace tessera
