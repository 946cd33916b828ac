// A plan chooses by time (kernels/device/measured_choice.hpp). For few products it chooses by the
// policy "model" of formats/base/choice.hpp, and packs what it has chosen. For more, an order found
// on the GPU may be one candidate more (order_choice.hpp).

#include "kernels/spmm/plan/spmm_plan.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "formats/base/choice.hpp"
#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "formats/gpu/gpu_permute.hpp"
#include "kernels/device/gather_values.hpp"
#include "kernels/device/limits_of_gpu.hpp"
#include "kernels/device/measured_choice.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/packed_on_gpu.hpp"
#include "kernels/spmm/plan/extents.hpp"
#include "kernels/spmm/plan/value_places.hpp"
#include "kernels/spmm/plan/worth_timing.hpp"
#include "kernels/spmm/product_counts.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"
#include "reorder/gpu_reordering.hpp"

namespace tessera {
namespace {

/// B [cols x n] and C [rows x n] of the timed products. B's values are near 0.01 (1 in FP16), like
/// those of a user: power, and with it the clock, depends on them.
struct TimedOperands {
  DeviceArray<std::byte> b, c;

  TimedOperands(std::int64_t rows, std::int64_t cols, std::int64_t n, const Storage& storage)
      : b(static_cast<std::size_t>(cols * n) * bytes_of(storage.b)),
        c(static_cast<std::size_t>(rows * n) * bytes_of(storage.c)) {
    cuda_check(cudaMemset(b.data(), 0x3c, b.size()), "filling B");
  }
};

/// A in CSR on the device, where it can be ordered and packed.
class MatrixOnDevice {
 public:
  explicit MatrixOnDevice(const CsrMatrix& a)
      : row_offsets_(a.row_offsets),
        col_indices_(a.col_indices),
        values_(a.values),
        view_{a.rows, a.cols, a.nnz(), row_offsets_.data(), col_indices_.data(), values_.data()} {}

  StreamBuffer order(const std::string& name) const {
    const auto& orders = Registry<GpuReordering>::instance();
    require<Unsupported>(orders.contains(name), "no order {} is found on GPUs", name);
    return orders.make(name)->order(
        {view_.rows, view_.cols, view_.nnz, view_.row_offsets, view_.col_indices}, nullptr);
  }
  PackedOnGpu packed(const StreamBuffer& order, const std::string& format,
                     const Params& params) const {
    const auto& builders = Registry<GpuFormat>::instance();
    require<Unsupported>(builders.contains(format), "{} is not built on GPUs", format);
    const GpuPermuted in_order(view_, order.as<std::int32_t>(), nullptr);
    return {view_.rows, view_.cols, view_.nnz,
            builders.make(format, params)->build(in_order.view(), {}, nullptr)};
  }

  CsrMatrix downloaded() const {
    return {view_.rows, view_.cols, row_offsets_.download(), col_indices_.download(),
            values_.download()};
  }

 private:
  DeviceArray<std::int64_t> row_offsets_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  DeviceCsr view_;
};

/// A packed A with its kernel, on the device.
struct Uploaded {
  SpmmCandidate candidate;  // every parameter filled in
  std::unique_ptr<SpmmKernel> kernel;
  std::unique_ptr<PackedMatrix> packed;  // null where A was packed on the device,
  std::unique_ptr<MatrixOnDevice> a;     // which then keeps A, for emulations
  std::int64_t packed_bytes = 0;
  StreamBuffer order;  // old_of_new [rows] of an order that was found on the device, else empty
  std::unique_ptr<GpuMultiplication> gpu;
  int algorithm = 0;
  double preparation_us = 0;  // to find that order and to pack A in it, from A on the host
  double us = 0;              // median time of a product; 0 when it was not timed
};

/// The parameters of a candidate, with the types of B and C where they name none.
Params::Given with_storage(const SpmmCandidate& given, const Storage& storage) {
  Params::Given params = given.params;
  if (storage == Storage{} || params.contains("storage")) return params;
  params["storage"] = std::string(name_of(storage.b));
  if (storage.c != storage.b) params["storage_c"] = std::string(name_of(storage.c));
  return params;
}

/// Finds the order that the candidate names, and packs A in it and keeps it, all on the device.
void upload_in_order(const CsrMatrix& a, std::int64_t n, const Params& params, const Params& format,
                     Uploaded& made) {
  const auto begin = std::chrono::steady_clock::now();
  made.a = std::make_unique<MatrixOnDevice>(a);
  made.order = made.a->order(made.candidate.order);
  const PackedOnGpu packed = made.a->packed(made.order, made.kernel->format(), format);
  made.packed_bytes = packed.bytes();
  made.gpu = Registry<GpuSpmm>::instance().make(made.candidate.kernel, params)->adopt(packed, n);
  require<Unsupported>(made.gpu->place_rows(made.order.as<std::int32_t>()),
                       "{} writes rows of C only in the order of A's rows", made.candidate.kernel);
  cuda_check(cudaDeviceSynchronize(), "packing A in its order");
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  made.preparation_us = took.count();
}

Uploaded upload(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options,
                const SpmmCandidate& given) {
  const Storage& storage = options.storage;
  const auto& kernels = Registry<SpmmKernel>::instance();
  const Params params = kernels.resolve(given.kernel, with_storage(given, storage));
  Uploaded made;
  made.kernel = kernels.make(given.kernel, params);
  const Storage has = made.kernel->arithmetic().storage;
  require<Unsupported>(has == storage, "it has B in {} and C in {}, not {} and {}", name_of(has.b),
                       name_of(has.c), name_of(storage.b), name_of(storage.c));
  made.kernel->set_gpu(limits_of_gpu());
  const auto& formats = Registry<Format>::instance();
  const Params format = formats.resolve(made.kernel->format(), given.format);
  const auto& device_halves = Registry<GpuSpmm>::instance();
  require<Unsupported>(device_halves.contains(given.kernel), "it has no device half");
  made.candidate = {given.kernel,
                    {params.values().begin(), params.values().end()},
                    {format.values().begin(), format.values().end()},
                    given.order,
                    given.least_uses,
                    given.most_predicted};
  const bool reorders = options.rows.size() > 0;
  if (given.order.empty()) {
    made.packed = formats.make(made.kernel->format(), format)->pack(a);
    made.packed_bytes = stats(*made.packed).bytes;
    made.gpu = device_halves.make(given.kernel, params)->upload(*made.packed, n);
    require<Unsupported>(
        !reorders || storage.c == ElementType::kFp32 || made.gpu->place_rows(nullptr),
        "an order of rows needs C in fp32, not in {}", name_of(storage.c));
  } else {
    require<Unsupported>(!reorders, "A's rows have an order already");
    try {
      upload_in_order(a, n, params, format, made);
    } catch (const OutOfMemory& error) {  // which A's own order may have
      cudaGetLastError();
      throw Unsupported(error.what());
    }
  }
  require<Unsupported>(!options.sets_values || a.nnz() == 0 || made.gpu->values() != nullptr,
                       "{} keeps A's values in a form of its own, and they cannot be replaced",
                       given.kernel);
  return made;
}

/// Times candidates, and the algorithms of a library among each other. A single algorithm of a
/// single candidate is not timed.
class Timer {
 public:
  Timer(const CsrMatrix& a, std::int64_t n, const Storage& storage, std::size_t candidates)
      : a_(a), n_(n), storage_(storage), candidates_(candidates) {}

  void operator()(Uploaded& uploaded, SpmmTiming& timing) {
    timing.preparation_us = uploaded.preparation_us;
    const std::vector<std::string> names = uploaded.gpu->candidates();
    if (names.size() == 1 && candidates_ == 1) return;
    if (!operands_) operands_ = std::make_unique<TimedOperands>(a_.rows, a_.cols, n_, storage_);
    const Operands operands{operands_->b.data(), operands_->c.data()};
    cuda_check(cudaDeviceSynchronize(), "uploading A");
    int best = -1;
    for (int i = 0; i < static_cast<int>(names.size()); ++i) {
      try {
        uploaded.gpu->prepare(i, operands, nullptr);
      } catch (const Unsupported&) {
        continue;
      }
      const double us = median_us([&] { uploaded.gpu->launch(i, operands, nullptr); });
      if (best < 0 || us < uploaded.us) best = i, uploaded.us = us;
    }
    require<Unsupported>(best >= 0, "none of the library's algorithms takes this case");
    uploaded.gpu->prepare(best, operands, nullptr);
    uploaded.algorithm = best;
    timing.algorithm = names[best];
  }

 private:
  const CsrMatrix& a_;
  std::int64_t n_;
  Storage storage_;
  std::size_t candidates_;
  std::unique_ptr<TimedOperands> operands_;  // on the device from the first timing on
};

/// The candidates with the counts that their formulas read.
std::vector<CountedKernel> counted_kernels(const CsrMatrix& a, std::int64_t n,
                                           const SpmmPlanOptions& options) {
  const WorkCounts counts = product_counts(a, n);
  std::vector<CountedKernel> counted;
  for (const SpmmCandidate& candidate : options.candidates)
    counted.push_back({candidate.kernel,
                       Registry<SpmmKernel>::instance().resolve(
                           candidate.kernel, with_storage(candidate, options.storage)),
                       counts});
  return counted;
}

/// The candidate with the least predicted time, on the device; nothing where one has no formula, or
/// an order of its own.
std::optional<Uploaded> choose_by_model(const CsrMatrix& a, std::int64_t n,
                                        const SpmmPlanOptions& options,
                                        std::vector<SpmmTiming>& timings) {
  std::vector<Candidate> named;
  for (const SpmmCandidate& candidate : options.candidates) {
    if (!candidate.order.empty() || !Registry<CostModel>::instance().contains(candidate.kernel))
      return {};
    named.push_back({.name = candidate.kernel});
  }
  const std::vector<CountedKernel> counted = counted_kernels(a, n, options);
  // The formulas are those of an H200 whatever the GPU is: a ratio of two times is asked for.
  CostModelPolicy policy(counted, "h200");
  const Decision decision = decide(named, policy);
  if (!decision.excluded.empty()) return {};
  for (const SpmmCandidate& candidate : options.candidates)
    timings.push_back({.candidate = candidate});
  for (const Rating& one : decision.ranked) timings[one.candidate].predicted_us = one.time_us;
  for (const Rating& one : decision.ranked) {
    SpmmTiming& timing = timings[one.candidate];
    try {
      Uploaded chosen = upload(a, n, options, timing.candidate);
      timing.candidate = chosen.candidate;
      return chosen;
    } catch (const Unsupported& error) {
      timing.problem = error.what();
    }
  }
  timings.clear();
  return {};
}

/// Whether an order of A's rows is to be one candidate more.
SpmmPreparation prepare(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options) {
  for (const SpmmCandidate& candidate : options.candidates)
    if (!candidate.order.empty()) return {.reason = "a candidate names an order"};
  if (options.expected_products <= kFewProducts) return choose_order({}, options.expected_products);
  if (options.rows.size() > 0) return {.reason = "the order of A's rows is given"};
  if (options.candidates.size() == 1)
    return {.reason = "one kernel is named, and all plans of it compute the same bits"};
  return choose_order(counted_kernels(a, n, options), options.expected_products);
}

/// What the candidates' times say about an order that one of them has.
void conclude(const std::vector<SpmmTiming>& timings, const Uploaded& chosen,
              SpmmPreparation& preparation) {
  preparation.order = chosen.candidate.order;
  const auto ordered = std::ranges::find_if(
      timings, [](const SpmmTiming& timing) { return !timing.candidate.order.empty(); });
  if (ordered == timings.end() || !chosen.candidate.order.empty()) return;
  const std::string& order = ordered->candidate.order;
  preparation.reason +=
      ordered->problem.empty()
          ? fmt::format(
                "; a product takes {:.1f} us in the order {}, and {:.1f} us in A's, which "
                "is kept",
                ordered->us, order, chosen.us)
          : fmt::format("; the order {} cannot be used: {}", order, ordered->problem);
}

/// Why `least_uses` leaves a candidate out; empty where it does not.
std::string reason_to_omit(const SpmmCandidate& candidate, const CsrMatrix& a, std::int64_t n,
                           const Storage& storage) {
  constexpr std::int64_t kLeastCols = 64;
  if (candidate.least_uses <= 0) return "";
  if (storage != Storage{})
    return candidate.params.contains("precision") ? "it narrows a B in fp32" : "";
  if (n < kLeastCols)
    return fmt::format("B has {} columns, and narrowing it pays from {} on", n, kLeastCols);
  const double uses = static_cast<double>(a.nnz()) / std::max(a.cols, 1);
  if (uses >= candidate.least_uses) return "";
  return fmt::format(
      "a row of B is used {:.1f} times on average, and narrowing B pays from {:.0f} on", uses,
      candidate.least_uses);
}

/// The chosen candidate, on the device: by the policy "model" for few products, else by time.
Uploaded choose(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options,
                std::vector<SpmmTiming>& timings, SpmmPreparation& preparation) {
  preparation = prepare(a, n, options);
  const bool is_seldom = options.expected_products > 0 && options.expected_products <= kFewProducts;
  if (is_seldom && options.candidates.size() > 1)
    if (std::optional<Uploaded> chosen = choose_by_model(a, n, options, timings))
      return std::move(*chosen);
  std::vector<SpmmCandidate> candidates = options.candidates;
  if (!preparation.order.empty()) {
    candidates.push_back(
        *std::ranges::find(options.candidates, kOrderedKernel, &SpmmCandidate::kernel));
    candidates.back().order = preparation.order;
  }
  Uploaded chosen = choose_by_time<Uploaded>(
      candidates, timings, [&](const SpmmCandidate& given) { return upload(a, n, options, given); },
      Timer(a, n, options.storage, candidates.size()));
  conclude(timings, chosen, preparation);
  return chosen;
}

/// The same of those candidates that are not to be omitted; the timings of the others come last.
Uploaded choose_of_useful(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& given,
                          std::vector<SpmmTiming>& timings, SpmmPreparation& preparation) {
  SpmmPlanOptions options = given;
  options.candidates.clear();
  std::vector<SpmmTiming> omitted;
  std::vector<CountedKernel> counted;  // where a formula is asked
  if (std::ranges::any_of(given.candidates, [](const auto& one) { return one.most_predicted > 0; }))
    counted = counted_kernels(a, n, given);
  for (std::size_t i = 0; i < given.candidates.size(); ++i) {
    const SpmmCandidate& candidate = given.candidates[i];
    std::string reason = reason_to_omit(candidate, a, n, given.storage);
    if (reason.empty() && candidate.most_predicted > 0)
      reason = too_slow(counted, i, candidate.most_predicted);
    if (reason.empty())
      options.candidates.push_back(candidate);
    else
      omitted.push_back({.candidate = candidate, .problem = std::move(reason)});
  }
  require<Unsupported>(!options.candidates.empty(), "all candidates are left out: {}",
                       omitted.empty() ? "none is named" : omitted.front().problem);
  Uploaded chosen = choose(a, n, options, timings, preparation);
  timings.insert(timings.end(), omitted.begin(), omitted.end());
  return chosen;
}

/// The order, on the host.
Permutation downloaded(const StreamBuffer& order) {
  std::vector<std::int32_t> old_of_new(static_cast<std::size_t>(order.bytes()) /
                                       sizeof(std::int32_t));
  cuda_check(cudaMemcpy(old_of_new.data(), order.as<void>(),
                        static_cast<std::size_t>(order.bytes()), cudaMemcpyDeviceToHost),
             "copying an order from the device");
  return Permutation(std::move(old_of_new));
}

Placed placed(std::int64_t rows, std::int64_t cols, const Strides& strides) {
  return {rows, cols, strides.row, strides.col};
}

}  // namespace

struct SpmmPlan::State {
  int device;
  std::int64_t rows, cols, n;
  Storage storage;
  Permutation old_of_new;  // the given order of the packed rows; empty for the order of A
  std::vector<SpmmTiming> timings;
  SpmmPreparation preparation;
  // [rows] when an order is given: the row of C of each packed row, where the kernel writes it
  // there, else the packed row of each row of C. Launches read it, and are gone before it.
  DeviceArray<std::int32_t> row_places;
  bool restores_rows = false;  // from the workspace, because the kernel does not
  Uploaded uploaded;
  DeviceArray<float> b;  // [cols x n] when B may be converted, else empty
  DeviceArray<float> c;  // [rows x n] when C may be converted or its rows are restored, else empty
  bool sets_values;
  std::int64_t nnz;
  DeviceArray<std::uint32_t> places;  // [values of the packed A] as of value_places(); empty when
                                      // they are in the order of A

  State(const CsrMatrix& a, std::int64_t width, const SpmmPlanOptions& options)
      : device(current_device()),
        rows(a.rows),
        cols(a.cols),
        n(width),
        storage(options.storage),
        sets_values(options.sets_values),
        nnz(a.nnz()) {
    if (options.rows.size() > 0 && !options.rows.is_identity()) {
      old_of_new = options.rows;
      uploaded = choose_of_useful(permute_rows(a, old_of_new), n, options, timings, preparation);
      row_places = DeviceArray<std::int32_t>(old_of_new.old_of_new());
      restores_rows = !uploaded.gpu->place_rows(row_places.data());
      if (restores_rows) row_places.upload(old_of_new.inverse().old_of_new());
    } else {
      uploaded = choose_of_useful(a, n, options, timings, preparation);
    }
    if (options.converts_b) b = DeviceArray<float>(static_cast<std::size_t>(cols * n));
    if (options.converts_c || restores_rows)
      c = DeviceArray<float>(static_cast<std::size_t>(rows * n));
    load_convert_layout();
    if (sets_values) upload_places(a);
    // Copies to the device may still be in flight, and not every stream waits for them.
    cuda_check(cudaDeviceSynchronize(), "uploading A");
  }

  void upload_places(const CsrMatrix& a);
  std::unique_ptr<Format> format() const;
  void check_device() const;
  void run(const ConstDeviceMatrix& from, const Batch& of_b, const DeviceMatrix& to,
           const Batch& of_c, Scaling scaling, cudaStream_t stream);
  void set_values(const float* values, cudaStream_t stream);

 private:
  void check_apart(const void* from, const Strides& of_from, const Batch& of_b, const void* to,
                   const Strides& of_to, const Batch& of_c) const;
  void multiply(const void* from, const Strides& of_b, void* to, const Strides& of_c,
                Scaling scaling, cudaStream_t stream);
};

void SpmmPlan::State::check_apart(const void* from, const Strides& of_from, const Batch& of_b,
                                  const void* to, const Strides& of_to, const Batch& of_c) const {
  if (rows == 0) return;
  const Placed c_place = placed(rows, n, of_to);
  require(are_apart(c_place, of_c),
          "{} matrices C of {} x {} overlap when they are {} elements apart", of_c.count, rows, n,
          of_c.stride);
  if (cols == 0) return;
  const Extent b_extent(from, storage.b, placed(cols, n, of_from), of_b),
      c_extent(to, storage.c, c_place, of_c);
  const bool gaps = b_extent.has_gaps() || c_extent.has_gaps();
  require(!b_extent.meets(c_extent) || (gaps && from != to),
          "B (at {}, {} bytes) and C (at {}, {} bytes) overlap", from,
          b_extent.last - b_extent.first, static_cast<const void*>(to),
          c_extent.last - c_extent.first);
}

std::unique_ptr<Format> SpmmPlan::State::format() const {
  return Registry<Format>::instance().make(uploaded.kernel->format(), uploaded.candidate.format);
}

void SpmmPlan::State::upload_places(const CsrMatrix& a) {
  const std::vector<std::uint32_t> found =
      value_places(a, uploaded.packed ? old_of_new : downloaded(uploaded.order), *format());
  bool in_order = static_cast<std::int64_t>(found.size()) == nnz;
  for (std::size_t i = 0; in_order && i < found.size(); ++i) in_order = found[i] == i + 1;
  if (!in_order) places = DeviceArray<std::uint32_t>(found);
  load_gather_values();
}

void SpmmPlan::State::check_device() const {
  const int current = current_device();
  require(current == device, "the plan belongs to device {}, but the current device is {}", device,
          current);
}

void SpmmPlan::State::set_values(const float* values, cudaStream_t stream) {
  check_device();
  require(sets_values, "A's values cannot be replaced: the plan needs the option sets_values");
  require(values != nullptr || nnz == 0, "the values are a null pointer");
  if (nnz == 0) return;
  if (places.size() > 0)
    gather_values(values, places.data(), static_cast<std::int64_t>(places.size()),
                  uploaded.gpu->values(), stream);
  else
    cuda_check(cudaMemcpyAsync(uploaded.gpu->values(), values,
                               static_cast<std::size_t>(nnz) * sizeof(float),
                               cudaMemcpyDeviceToDevice, stream),
               "replacing A's values");
}

void SpmmPlan::State::run(const ConstDeviceMatrix& from, const Batch& of_b, const DeviceMatrix& to,
                          const Batch& of_c, Scaling scaling, cudaStream_t stream) {
  check_device();
  require(of_b.count == of_c.count && of_b.count >= 0 && of_b.stride >= 0 && of_c.stride >= 0,
          "a batch of {} matrices B, {} elements apart, and {} of C, {} apart, cannot be",
          of_b.count, of_b.stride, of_c.count, of_c.stride);
  if (of_b.count == 0) return;
  require(from.data != nullptr || cols == 0, "B is a null pointer");
  require(to.data != nullptr || rows == 0, "C is a null pointer");
  const Strides b_strides = Strides::of("B", from.order, from.ld, cols, n);
  const Strides c_strides = Strides::of("C", to.order, to.ld, rows, n);
  check_apart(from.data, b_strides, of_b, to.data, c_strides, of_c);
  require(b_strides.plain(cols, n) || b.size() > 0 || cols == 0,
          "B is not row-major without gaps: the plan needs the option converts_b");
  require(c_strides.plain(rows, n) || c.size() > 0 || rows == 0,
          "C is not row-major without gaps: the plan needs the option converts_c");
  const auto* of_first = static_cast<const std::byte*>(from.data);
  auto* to_first = static_cast<std::byte*>(to.data);
  const auto b_bytes = of_b.stride * static_cast<std::int64_t>(bytes_of(storage.b)),
             c_bytes = of_c.stride * static_cast<std::int64_t>(bytes_of(storage.c));
  for (std::int64_t i = 0; i < of_b.count; ++i)
    multiply(of_first + i * b_bytes, b_strides, to_first + i * c_bytes, c_strides, scaling, stream);
}

void SpmmPlan::State::multiply(const void* from, const Strides& of_b, void* to, const Strides& of_c,
                               Scaling scaling, cudaStream_t stream) {
  const Strides plain{n, 1};
  const bool plain_b = of_b.plain(cols, n), plain_c = of_c.plain(rows, n);
  if (!plain_b)
    convert_layout(static_cast<const float*>(from), of_b, nullptr, b.data(), plain, cols, n, {},
                   stream);
  const void* b_data = plain_b ? from : b.data();
  if (plain_c && !restores_rows) {
    uploaded.gpu->launch(uploaded.algorithm, {b_data, to, scaling}, stream);
    return;
  }
  uploaded.gpu->launch(uploaded.algorithm, {b_data, c.data()}, stream);
  convert_layout(c.data(), plain, restores_rows ? row_places.data() : nullptr,
                 static_cast<float*>(to), of_c, rows, n, scaling, stream);
}

SpmmPlan::SpmmPlan(const CsrMatrix& a, std::int64_t n, const SpmmPlanOptions& options) {
  validate(a);
  require(n >= 1, "B has {} columns; it needs at least one", n);
  element_count(std::max(a.rows, a.cols), n);  // B and C fit a memory
  require(!options.candidates.empty(), "no kernel is named; a plan needs at least one");
  require(options.rows.size() == 0 || options.rows.size() == a.rows,
          "the order has {} rows, but A has {}", options.rows.size(), a.rows);
  const auto needs_fp32 = [](bool asked, ElementType type, const char* option,
                             const char* operand) {
    require(!asked || type == ElementType::kFp32, "{} needs {} in fp32, not in {}", option, operand,
            name_of(type));
  };
  needs_fp32(options.converts_b, options.storage.b, "the option converts_b", "B");
  needs_fp32(options.converts_c, options.storage.c, "the option converts_c", "C");
  state_ = std::make_unique<State>(a, n, options);
}
SpmmPlan::~SpmmPlan() = default;
SpmmPlan::SpmmPlan(SpmmPlan&&) noexcept = default;
SpmmPlan& SpmmPlan::operator=(SpmmPlan&&) noexcept = default;

void SpmmPlan::run(const ConstDeviceMatrix& b, const DeviceMatrix& c, Scaling scaling,
                   cudaStream_t stream) {
  state_->run(b, {}, c, {}, scaling, stream);
}

void SpmmPlan::run_batch(std::int64_t count, const ConstDeviceMatrix& b, std::int64_t b_stride,
                         const DeviceMatrix& c, std::int64_t c_stride, Scaling scaling,
                         cudaStream_t stream) {
  state_->run(b, {count, b_stride}, c, {count, c_stride}, scaling, stream);
}

void SpmmPlan::set_values(const float* values, cudaStream_t stream) {
  state_->set_values(values, stream);
}

DenseMatrix SpmmPlan::emulate(const DenseMatrix& b) const {
  const State& s = *state_;
  require(b.rows == s.cols && b.cols == s.n, "B is {} x {}, but has to be {} x {}", b.rows, b.cols,
          s.cols, s.n);
  const Generation& generation = find_generation(gpu_generation());
  if (!s.uploaded.packed) {
    const Permutation order = downloaded(s.uploaded.order);
    const auto packed = s.format()->pack(permute_rows(s.uploaded.a->downloaded(), order));
    return permute_rows(s.uploaded.kernel->emulate(*packed, b, generation), order.inverse());
  }
  DenseMatrix c = s.uploaded.kernel->emulate(*s.uploaded.packed, b, generation);
  return s.old_of_new.size() == 0 ? c : permute_rows(c, s.old_of_new.inverse());
}

std::int64_t SpmmPlan::rows() const { return state_->rows; }
std::int64_t SpmmPlan::cols() const { return state_->cols; }
std::int64_t SpmmPlan::n() const { return state_->n; }
const SpmmCandidate& SpmmPlan::kernel() const { return state_->uploaded.candidate; }
const std::vector<SpmmTiming>& SpmmPlan::timings() const { return state_->timings; }
const SpmmPreparation& SpmmPlan::preparation() const { return state_->preparation; }
std::int64_t SpmmPlan::packed_bytes() const { return state_->uploaded.packed_bytes; }
std::int64_t SpmmPlan::workspace_bytes() const {
  return static_cast<std::int64_t>((state_->b.size() + state_->c.size()) * sizeof(float) +
                                   state_->row_places.size() * sizeof(std::int32_t) +
                                   state_->places.size() * sizeof(std::uint32_t)) +
         state_->uploaded.order.bytes();
}

}  // namespace tessera
