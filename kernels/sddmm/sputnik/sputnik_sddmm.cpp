// Sputnik's SDDMM (Gale et al., SC 2020): one-dimensional tiles of S, strips of nonzeros of one
// row; FP32 on CUDA cores.
//
// As in the paper: a subwarp computes a strip, and its lanes share the columns of X and Y, which
// they load by 16 bytes; every lane has a partial sum for each nonzero of the strip, and shuffles
// add those of the lanes. The number of strips of a row is not known before the launch: the grid
// has as many for each row as the longest one needs, and thread blocks without nonzeros leave at
// once. Rows are taken by their lengths, the longest first (row swizzle). Departures: column
// indices are read where they are used instead of from shared memory; rows that do not begin at
// multiples of 16 bytes are loaded by 4 bytes in the same lanes; any M, N and K.

#include "kernels/sddmm/sputnik/sputnik_sddmm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

namespace sputnik_sddmm {

Schedule Schedule::of(const CsrMatrix& a, std::int64_t k) {
  int lanes = 8;
  while (lanes < 32 && lanes * kLaneCols < k) lanes *= 2;
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) longest = std::max(longest, a.row_length(row));
  return {lanes, a.rows, (longest + kStrip - 1) / kStrip};
}

std::vector<std::int32_t> swizzled_rows(const CsrMatrix& a) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(a.rows));
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, std::greater(),
                           [&](std::int32_t row) { return a.row_length(row); });
  return rows;
}

}  // namespace sputnik_sddmm

namespace {

using namespace sputnik_sddmm;

/// A dot product as the device half adds it.
float dot(std::span<const float> x, std::span<const float> y, std::size_t lanes) {
  std::array<float, 32> sums{};
  for (std::size_t k = 0; k < x.size(); ++k) {
    float& sum = sums[k / kLaneCols % lanes];
    sum = std::fma(x[k], y[k], sum);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) sums[l] = add_on_gpu(sums[l], sums[l + half]);
  return sums[0] + 0.0f;  // -0 becomes 0
}

class SputnikSddmm final : public SddmmKernel {
 public:
  explicit SputnikSddmm(const sddmm::SddmmOptions& options) : options_(options) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {}; }
  bool scales_by_a() const override { return options_.scales_by_a; }

  std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x, const DenseMatrix& y,
                             const Generation&) const override {
    require_sddmm_shapes(packed, x, y);
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const auto lanes = static_cast<std::size_t>(Schedule::of(a, x.cols).lanes);
    std::vector<float> s(static_cast<std::size_t>(a.nnz()));
    parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t i = a.row_offsets[row]; i < a.row_offsets[row + 1]; ++i)
          s[i] = sddmm::finished(options_, dot(x.row(row), y.row(a.col_indices[i]), lanes),
                                 a.values[i]);
    });
    return s;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t k) const override {
    return describe_work(packed_as<CsrPacked>(packed).matrix, options_, k);
  }

 private:
  sddmm::SddmmOptions options_;
};

const Register<SddmmKernel> entry{{
    .name = "sputnik_sddmm",
    .summary = "CSR, part of a warp per strip of 32 nonzeros of a row (Sputnik, FP32)",
    .params = {sddmm::factor_param()},
    .make =
        [](const Params& params) {
          return std::make_unique<SputnikSddmm>(sddmm::SddmmOptions(params));
        },
}};

}  // namespace
}  // namespace tessera
