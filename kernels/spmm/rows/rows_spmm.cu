// Device half of rows_spmm: its launches. The kernel is kernel.cuh. See
// kernels/spmm/rows/rows_spmm.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/spmm/rows/kernel.cuh"

namespace tessera {
namespace {

using namespace rows_spmm;

using Kernel = void (*)(Arguments);

template <class Numbers, bool kAligned>
Kernel kernel_of(const Schedule& schedule) {
  if constexpr (Numbers::kCols == 4) {
    // One column is never aligned.
    if (schedule.part_lanes() == 1)
      return schedule.lanes == 2 ? multiply<Numbers, 2, 2, false> : multiply<Numbers, 8, 8, false>;
    if (schedule.lanes == 2) return multiply<Numbers, 2, 1, kAligned>;
    if (schedule.part_lanes() == 4) return multiply<Numbers, 8, 2, kAligned>;
  }
  if (schedule.part_lanes() == 2) return multiply<Numbers, 8, 4, kAligned>;
  return schedule.lanes == 8    ? multiply<Numbers, 8, 1, kAligned>
         : schedule.lanes == 16 ? multiply<Numbers, 16, 1, kAligned>
                                : multiply<Numbers, 32, 1, kAligned>;
}

template <bool kAligned>
Kernel kernel_of(const Schedule& schedule, ElementType b) {
  if (b == ElementType::kFp16) return kernel_of<HalfNumbers<PackedFp16>, kAligned>(schedule);
  if (b == ElementType::kBf16) return kernel_of<HalfNumbers<PackedBf16>, kAligned>(schedule);
  return kernel_of<Fp32Numbers, kAligned>(schedule);
}

class RowsMultiplication final : public GpuMultiplication {
 public:
  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Schedule& schedule,
                     const Storage& storage)
      : RowsMultiplication(a, n, schedule, storage, make_plan(a, schedule)) {}

  std::vector<int> registers() const override { return {registers_of(aligned_)}; }
  float* values() override { return values_.data(); }
  bool place_rows(const std::int32_t* places) override {
    arguments_.places = places;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    if (grid_.x == 0 || grid_.y == 0) return;
    arguments_.b = operands.b, arguments_.c = operands.c, arguments_.scaling = operands.scaling;
    const Kernel run = aligned_to_16_bytes(arguments_.n, operands, b_bytes_) ? aligned_ : any_;
    run<<<grid_, kThreads, 0, stream>>>(arguments_);
    cuda_check(cudaGetLastError(), "launching rows_spmm");
  }

 private:
  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Schedule& schedule,
                     const Storage& storage, const Plan& plan)
      : aligned_(kernel_of<true>(schedule, storage.b)),
        any_(kernel_of<false>(schedule, storage.b)),
        b_bytes_(bytes_of(storage.b)),
        grid_(static_cast<unsigned>(std::ssize(plan.units) / schedule.units_per_block()),
              static_cast<unsigned>(schedule.chunks(n))),
        units_(plan.units),
        split_rows_(plan.split_rows),
        slots_(static_cast<std::size_t>(schedule.chunks(n) * plan.num_slots * schedule.lanes *
                                        schedule.lane_cols / 4)),
        arrivals_(std::vector<std::uint32_t>(
            static_cast<std::size_t>(schedule.chunks(n)) * plan.split_rows.size(), 0)),
        col_indices_(a.col_indices),
        values_(a.values),
        arguments_{.units = units_.data(),
                   .split_rows = split_rows_.data(),
                   .num_slots = plan.num_slots,
                   .num_split_rows = std::ssize(plan.split_rows),
                   .slots = slots_.data(),
                   .arrivals = arrivals_.data(),
                   .col_indices = col_indices_.data(),
                   .values = values_.data(),
                   .n = static_cast<std::uint32_t>(n),
                   .row_bytes = static_cast<std::uint32_t>(n * static_cast<std::int64_t>(b_bytes_)),
                   .b = nullptr,
                   .c = nullptr,
                   .c_in_16_bits = storage.c != ElementType::kFp32,
                   .scaling = {},
                   .places = nullptr} {
    load_now(aligned_, any_);
  }

  Kernel aligned_, any_;
  std::size_t b_bytes_;  // of an element of B
  dim3 grid_;
  DeviceArray<Unit> units_;
  DeviceArray<SplitRow> split_rows_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  DeviceArray<std::int32_t> col_indices_;
  DeviceArray<float> values_;
  Arguments arguments_;
};

class GpuRowsSpmm final : public GpuSpmm {
 public:
  explicit GpuRowsSpmm(Params params) : params_(std::move(params)) {}

  std::unique_ptr<GpuMultiplication> upload(const PackedMatrix& packed,
                                            std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Schedule schedule = schedule_of(params_, a, n);
    require<Unsupported>(schedule.chunks(n) <= kMaxGridY,
                         "rows_spmm takes at most {} columns of B, not {}",
                         kMaxGridY * schedule.columns(), n);
    return std::make_unique<RowsMultiplication>(a, n, schedule, storage_of(params_));
  }

 private:
  Params params_;
};

const Register<GpuSpmm> entry{{
    .name = "rows_spmm",
    .summary = "device half of rows_spmm",
    .make = [](const Params& params) { return std::make_unique<GpuRowsSpmm>(params); },
}};

}  // namespace
}  // namespace tessera
