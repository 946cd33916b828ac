// The SDDMM of FlashSparse (Shi et al., PPoPP 2025): S by TC blocks of 8 x 16, which are vectors of
// 8 x 1 side by side, on TF32 or FP16 tensor cores.
//
// As in the paper: the operands are swapped and the result is S transposed (swap-and-transpose), so
// that the eight columns of an MMA are the eight rows of a vector; A is in ME-BCRS; MMAs are
// m16n8k4 in TF32 and m16n8k8 in FP16. Departures: S is written to the places that its nonzeros
// have in CSR, which are read from an array of 4 bytes a cell, where the paper keeps whole vectors
// for the SpMM that follows; BF16 as well; FP32 operands are rounded to nearest; any M, N and K; a
// warp takes one TC block.

#include "kernels/sddmm/flash/flash_sddmm.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/sddmm/shared/chained_dots.hpp"
#include "kernels/sddmm_kernel.hpp"

namespace tessera {

namespace flash_sddmm {

FlashSddmmOptions::FlashSddmmOptions(const Params& params)
    : SddmmOptions(params),
      precision(find_precision(storage.b == ElementType::kFp32 ? "tf32" : name_of(storage.b))) {}

std::vector<Block> blocks_of(const MeBcrs& a) {
  require<Unsupported>(a.vector_rows == kWindowRows,
                       "flash_sddmm takes vectors of 8 x 1, not of {} x 1", a.vector_rows);
  std::vector<Block> blocks;
  for (std::int64_t window = 0; window < a.num_row_windows(); ++window) {
    const std::uint32_t end = a.row_window_offset[window + 1];
    for (std::uint32_t first = a.row_window_offset[window]; first < end; first += kBlockVectors)
      blocks.push_back({.window = static_cast<std::uint32_t>(window),
                        .first = first,
                        .last = std::min(first + kBlockVectors, end),
                        .unused = 0});
  }
  return blocks;
}

std::vector<std::uint32_t> places_of(const MeBcrs& a, const CsrMatrix& csr) {
  require<Unsupported>(csr.nnz() < kNoPlace, "flash_sddmm takes less than 2^32 - 1 nonzeros");
  std::vector<std::uint32_t> places(static_cast<std::size_t>(a.num_vectors()) * kWindowRows,
                                    kNoPlace);
  for (std::int64_t row = 0; row < csr.rows; ++row) {
    const std::int64_t window = row / kWindowRows;
    std::int64_t vector = a.row_window_offset[window];  // the columns of both ascend
    for (std::int64_t i = csr.row_offsets[row]; i < csr.row_offsets[row + 1]; ++i) {
      while (a.col_indices[vector] != csr.col_indices[i]) ++vector;
      places[vector * kWindowRows + row % kWindowRows] = static_cast<std::uint32_t>(i);
    }
  }
  return places;
}

}  // namespace flash_sddmm

namespace {

using flash_sddmm::FlashSddmmOptions;

class FlashSddmm final : public SddmmKernel {
 public:
  explicit FlashSddmm(FlashSddmmOptions options) : options_(std::move(options)) {}

  std::string format() const override { return MeBcrs::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override {
    return {.sum = Arithmetic::Sum::kTensorCore,
            .type = type_of(options_.precision.conversion),
            .mma_depth = options_.depth(),
            .input_error = options_.precision.input_error,
            .storage = options_.storage};
  }
  bool scales_by_a() const override { return options_.scales_by_a; }
  std::int64_t terms(std::int64_t k) const override { return options_.mmas(k); }

  std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x, const DenseMatrix& y,
                             const Generation& generation) const override {
    require_sddmm_shapes(packed, x, y);
    const int depth = options_.depth();
    // A product is the same with its factors swapped.
    const sddmm::ChainOrder chain{
        .mmas = options_.mmas(x.cols),
        .depth = depth,
        .column_of = [=](std::int64_t mma, int slot) { return mma * depth + slot; }};
    return sddmm::chained_dots(packed.unpack(), x, y, options_, options_.precision, generation,
                               chain);
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t k) const override {
    return flash_sddmm::describe_work(packed_as<MeBcrs>(packed), options_, k);
  }

 private:
  FlashSddmmOptions options_;
};

const Register<SddmmKernel> entry{{
    .name = "flash_sddmm",
    .summary = "8 x 1 vectors on TF32 or FP16 tensor cores, swapped and transposed (FlashSparse)",
    .params = sddmm::option_params(),
    .make =
        [](const Params& params) {
          return std::make_unique<FlashSddmm>(FlashSddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
