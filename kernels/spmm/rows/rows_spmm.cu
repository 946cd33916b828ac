// Device half of rows_spmm: its launches. The kernel is kernel.cuh. See
// kernels/spmm/rows/rows_spmm.cpp.

#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/gpu_spmm.hpp"
#include "kernels/overlap_param.hpp"
#include "kernels/spmm/rows/direct.cuh"
#include "kernels/spmm/rows/kernel.cuh"
#include "kernels/storage_params.hpp"

namespace tessera {
namespace {

using namespace rows_spmm;

using Kernel = void (*)(Arguments);

/// The kernels of units in parts; null for others.
template <class Numbers, bool kAligned, class Index>
Kernel kernel_of_parts(const Schedule& schedule) {
  const int lanes = schedule.lanes, part_lanes = schedule.part_lanes();
  if constexpr (Numbers::kCols == 4) {
    // One column is never aligned.
    if (part_lanes == 1)
      return lanes == 8    ? multiply<Numbers, 8, 8, false, Index, 1>
             : lanes == 16 ? multiply<Numbers, 16, 16, false, Index, 1>
                           : multiply<Numbers, 32, 32, false, Index, 1>;
    if (part_lanes == 4)
      return lanes == 8    ? multiply<Numbers, 8, 2, kAligned, Index, 1>
             : lanes == 16 ? multiply<Numbers, 16, 4, kAligned, Index, 1>
                           : multiply<Numbers, 32, 8, kAligned, Index, 1>;
  }
  if (part_lanes == 2)
    return lanes == 8    ? multiply<Numbers, 8, 4, kAligned, Index, 1>
           : lanes == 16 ? multiply<Numbers, 16, 8, kAligned, Index, 1>
                         : multiply<Numbers, 32, 16, kAligned, Index, 1>;
  return nullptr;
}

/// The kernels whose units are rows of FP32 in turn, which are aligned.
Kernel turning_kernel_of(const Schedule& schedule) {
  if (schedule.wide == 4) return multiply_rows<Fp32Numbers, 32, true, 4, true>;
  return schedule.lanes == 8    ? multiply_rows<Fp32Numbers, 8, true, 2, true>
         : schedule.lanes == 16 ? multiply_rows<Fp32Numbers, 16, true, 2, true>
                                : multiply_rows<Fp32Numbers, 32, true, 2, true>;
}

/// The kernels whose units are rows.
template <class Numbers, bool kAligned>
Kernel direct_kernel_of(const Schedule& schedule) {
  if constexpr (std::is_same_v<Numbers, Fp32Numbers> && kAligned)
    if (schedule.turns > 1) return turning_kernel_of(schedule);
  if constexpr (Numbers::kCols == 4) {
    if (schedule.wide == 4) return multiply_rows<Numbers, 32, kAligned, 4>;
  } else {
    if (schedule.lanes == 4) return multiply_rows<Numbers, 4, kAligned, 1>;
  }
  if (schedule.wide == 1) return multiply_rows<Numbers, 8, kAligned, 1>;
  return schedule.lanes == 8    ? multiply_rows<Numbers, 8, kAligned, 2>
         : schedule.lanes == 16 ? multiply_rows<Numbers, 16, kAligned, 2>
                                : multiply_rows<Numbers, 32, kAligned, 2>;
}

/// The kernels of units without parts.
template <class Numbers, bool kAligned>
Kernel whole_kernel_of(const Schedule& schedule) {
  using Whole = std::int32_t;
  if (schedule.direct) return direct_kernel_of<Numbers, kAligned>(schedule);
  if constexpr (Numbers::kCols == 4)
    if (schedule.wide == 4) return multiply<Numbers, 32, 1, kAligned, Whole, 4>;
  if (schedule.wide == 2) return multiply<Numbers, 32, 1, kAligned, Whole, 2>;
  return schedule.lanes == 8    ? multiply<Numbers, 8, 1, kAligned, Whole, 1>
         : schedule.lanes == 16 ? multiply<Numbers, 16, 1, kAligned, Whole, 1>
                                : multiply<Numbers, 32, 1, kAligned, Whole, 1>;
}

template <class Numbers, bool kAligned>
Kernel kernel_of(const Schedule& schedule, bool has_offsets) {
  using Whole = std::int32_t;
  if constexpr (Numbers::kCols == 4) {
    if (schedule.lanes == 2)
      return schedule.parts == 2 ? multiply<Numbers, 2, 2, false, Whole, 1>
                                 : multiply<Numbers, 2, 1, kAligned, Whole, 1>;
  }
  if (!schedule.in_parts()) return whole_kernel_of<Numbers, kAligned>(schedule);
  return has_offsets ? kernel_of_parts<Numbers, kAligned, std::uint16_t>(schedule)
                     : kernel_of_parts<Numbers, kAligned, Whole>(schedule);
}

template <bool kAligned>
Kernel kernel_of(const Schedule& schedule, bool has_offsets, ElementType b) {
  if (b == ElementType::kFp16)
    return kernel_of<HalfNumbers<PackedFp16>, kAligned>(schedule, has_offsets);
  if (b == ElementType::kBf16)
    return kernel_of<HalfNumbers<PackedBf16>, kAligned>(schedule, has_offsets);
  return kernel_of<Fp32Numbers, kAligned>(schedule, has_offsets);
}

/// The kernel that scales its sums; null where none is compiled.
template <bool kAligned>
Kernel scaled_kernel_of(const Schedule& schedule, const Storage& storage) {
  if (schedule.in_parts() || storage != Storage{ElementType::kFp16, ElementType::kFp32})
    return nullptr;
  return whole_kernel_of<ScaledFp16Numbers, kAligned>(schedule);
}

/// The first nonzero of each row, and the end of the last one's, in 32 bits.
std::vector<std::uint32_t> row_begins(const CsrMatrix& a) {
  return {a.row_offsets.begin(), a.row_offsets.end()};
}

class RowsMultiplication final : public GpuMultiplication {
 public:
  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Launches& launches,
                     const Storage& storage, Overlap overlap)
      : RowsMultiplication(a, n, launches, storage, make_plan(a, launches)) {
    overlaps_ = overlap != Overlap::kNone && can_overlap_;
    arguments_.ends_first = overlap == Overlap::kLate;
  }

  std::vector<int> registers() const override {
    std::vector<int> registers;
    for (const OneLaunch& launch : launches_) registers.push_back(registers_of(launch.aligned));
    return registers;
  }
  float* values() override { return values_.data(); }
  bool place_rows(const std::int32_t* places) override {
    arguments_.places = places;
    return true;
  }
  bool narrow(const Narrowing& narrowing) override {
    if (narrowing.col_scales != nullptr) {
      for (const OneLaunch& launch : launches_)
        if (launch.scaled_aligned == nullptr) return false;
      for (OneLaunch& launch : launches_) {
        launch.aligned = launch.scaled_aligned, launch.any = launch.scaled_any;
        load_now(launch.aligned, launch.any);
      }
    }
    arguments_.narrowing = narrowing;
    return true;
  }

  void launch(int, const Operands& operands, cudaStream_t stream) override {
    arguments_.b = operands.b, arguments_.c = operands.c, arguments_.scaling = operands.scaling;
    const bool aligned = aligned_to_16_bytes(arguments_.n, operands, b_bytes_);
    arguments_.early.set_b(operands.b, aligned && arguments_.narrowing.word == nullptr);
    const bool overlaps =
        arguments_.narrowing.word == nullptr ? overlaps_ : arguments_.narrowing.overlaps;
    for (const OneLaunch& launch : launches_) {
      const dim3& grid = aligned ? launch.aligned_grid : launch.any_grid;
      if (grid.x == 0 || grid.y == 0) continue;
      cuda_check(
          tessera::launch(aligned ? launch.aligned : launch.any, grid, launch.threads, 0, stream,
                          overlaps || (launch.is_second && can_overlap_), arguments_),
          "launching rows_spmm");
    }
  }

 private:
  struct OneLaunch {
    Kernel aligned, any;
    Kernel scaled_aligned, scaled_any;  // the same with sums that are scaled, or null
    dim3 aligned_grid, any_grid;
    int threads;
    bool is_second;  // beside the launch before it

    OneLaunch(const Schedule& schedule, const Storage& storage, bool has_offsets,
              std::int64_t units, std::int64_t n, bool is_second)
        : aligned(kernel_of<true>(schedule, has_offsets, storage.b)),
          any(kernel_of<false>(schedule, has_offsets, storage.b)),
          scaled_aligned(scaled_kernel_of<true>(schedule, storage)),
          scaled_any(scaled_kernel_of<false>(schedule, storage)),
          aligned_grid(grid_of(schedule, units, n)),
          any_grid(grid_of(without_turns(schedule), units, n)),
          threads(schedule.threads),
          is_second(is_second) {
      require<Unsupported>(schedule.chunks(n) <= kMaxGridY,
                           "rows_spmm takes at most {} columns of B, not {}",
                           kMaxGridY * schedule.columns(), n);
      load_now(aligned, any);
    }

    static dim3 grid_of(const Schedule& schedule, std::int64_t units, std::int64_t n) {
      return {static_cast<unsigned>(schedule.blocks_of(units)),
              static_cast<unsigned>(schedule.chunks(n))};
    }
    static Schedule without_turns(Schedule schedule) {
      schedule.turns = 1;
      return schedule;
    }
  };

  RowsMultiplication(const CsrMatrix& a, std::int64_t n, const Launches& launches,
                     const Storage& storage, const Plan& plan)
      : b_bytes_(bytes_of(storage.b)),
        units_(plan.units),
        row_begins_(launches.most_direct < 0 ? std::vector<std::uint32_t>() : row_begins(a)),
        split_rows_(plan.split_rows),
        slots_(static_cast<std::size_t>(launches.pieces.chunks(n) * plan.num_slots *
                                        launches.pieces.lanes * launches.pieces.lane_cols / 4)),
        arrivals_(std::vector<std::uint32_t>(
            static_cast<std::size_t>(launches.pieces.chunks(n)) * plan.split_rows.size(), 0)),
        bases_(plan.bases),
        col_offsets_(plan.col_offsets),
        values_(a.values),
        arguments_{.units = units_.data(),
                   .row_begins = row_begins_.data(),
                   .rows = static_cast<std::uint32_t>(a.rows),
                   .most_direct = static_cast<std::uint32_t>(launches.most_direct),
                   .turns = static_cast<std::uint32_t>(launches.direct.turns),
                   .ends_first = false,
                   .beside_long_rows = launches.most_direct >= 0 && !plan.units.empty(),
                   .split_rows = split_rows_.data(),
                   .num_slots = plan.num_slots,
                   .num_split_rows = std::ssize(plan.split_rows),
                   .slots = slots_.data(),
                   .arrivals = arrivals_.data(),
                   .col_indices = nullptr,
                   .bases = bases_.data(),
                   .col_offsets = col_offsets_.data(),
                   .values = values_.data(),
                   .n = static_cast<std::uint32_t>(n),
                   .row_bytes = static_cast<std::uint32_t>(n * static_cast<std::int64_t>(b_bytes_)),
                   .b = nullptr,
                   .c = nullptr,
                   .c_in_16_bits = storage.c != ElementType::kFp32,
                   .scaling = {},
                   .places = nullptr,
                   .narrowing = {},
                   .early = {}} {
    if (!plan.has_offsets()) {
      // One more: a unit asks for the first column of its next row, which may have none.
      col_indices_ = DeviceArray<std::int32_t>(a.col_indices.size() + 1);
      col_indices_.upload(a.col_indices);
      arguments_.col_indices = col_indices_.data();
    }
    if (!plan.units.empty() || launches.most_direct < 0)
      launches_.emplace_back(launches.pieces, storage, plan.has_offsets(), std::ssize(plan.units),
                             n, false);
    if (launches.most_direct >= 0)
      launches_.emplace_back(launches.direct, storage, false, a.rows, n, !launches_.empty());
    const void* const columns =
        plan.has_offsets() ? static_cast<const void*>(col_offsets_.data()) : col_indices_.data();
    arguments_.early = EarlyFetch::of(
        columns, (plan.has_offsets() ? 2 : 4) * a.nnz(), values_.data(), 4 * a.nnz(),
        a.cols * n * static_cast<std::int64_t>(b_bytes_), launches_.front().aligned_grid.x);
  }

  std::size_t b_bytes_;  // of an element of B
  bool can_overlap_ = can_overlap_launches(), overlaps_ = false;
  std::vector<OneLaunch> launches_;
  DeviceArray<Unit> units_;
  DeviceArray<std::uint32_t> row_begins_;
  DeviceArray<SplitRow> split_rows_;
  DeviceArray<float4> slots_;
  DeviceArray<std::uint32_t> arrivals_;
  DeviceArray<std::uint32_t> bases_;
  DeviceArray<std::uint16_t> col_offsets_;
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
    return std::make_unique<RowsMultiplication>(a, n, launches_of(params_, a, n),
                                                storage_of(params_), overlap_of(params_));
  }

 private:
  Params params_;
};

const Register<GpuSpmm> entry{{
    .name = "rows_spmm",
    .summary = "device half of rows_spmm",
    .make = [](const Params& params) -> std::unique_ptr<GpuSpmm> {
      if (is_narrowed(params)) return narrowed::make_gpu(narrowed_recipe(params));
      return std::make_unique<GpuRowsSpmm>(params);
    },
}};

}  // namespace
}  // namespace tessera
