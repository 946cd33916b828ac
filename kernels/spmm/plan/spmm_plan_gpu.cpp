// A plan runs the kernel of plan_choice.hpp: it converts operands, launches, replaces A's values.

#include "kernels/spmm/plan/spmm_plan.hpp"

#include <algorithm>

#include "formats/base/device_memory.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "kernels/device/gather_values.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/plan/extents.hpp"
#include "kernels/spmm/plan/plan_choice.hpp"
#include "kernels/spmm/plan/value_places.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/tensor_core/gpu_generation.hpp"

namespace tessera {
namespace {

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
