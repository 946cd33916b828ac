// Our own SDDMM for scattered matrices: FP32 on CUDA cores, by nonzeros, whatever the lengths of
// rows.
//
// Where a condensed column has about one nonzero, a tensor core has nothing to share: a product is
// the fetching of one row of Y for every nonzero. Groups of eight lanes take runs of as many
// nonzeros each (COO), so that no row is too long or too short. A group keeps its row of X in
// registers until the row changes, and has the rows of Y of its next one to four nonzeros on the
// way. Every element of S is one dot product in a fixed order: the same bits every time.

#include "kernels/sddmm/rows/rows_sddmm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/vector_clones.hpp"
#include "kernels/sddmm_kernel.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

namespace rows_sddmm {

std::vector<ParamSpec> params() {
  std::vector<ParamSpec> specs{{"run",
                                std::int64_t{0},
                                "nonzeros that a group of eight lanes multiplies one after "
                                "another; 0: 4 to 32, by their number",
                                {"0", "4", "8", "16", "32"}}};
  std::ranges::copy(sddmm::option_params(), std::back_inserter(specs));
  return specs;
}

}  // namespace rows_sddmm

namespace {

using namespace rows_sddmm;

/// The sums of the lanes: element i of vector v of lane l is at (v kLanes + l) width + i of x and y
/// [vectors * kLanes * width].
TESSERA_VECTOR_CLONES
void add_lanes(const float* x, const float* y, std::int64_t vectors, int width,
               float* __restrict sums) {
  for (std::int64_t v = 0; v < vectors; ++v)
    for (int l = 0; l < kLanes; ++l)
      for (int i = 0; i < width; ++i) {
        const std::int64_t at = (v * kLanes + l) * width + i;
        sums[l] = std::fma(x[at], y[at], sums[l]);
      }
}

/// A dot product of two padded rows as the device half adds it.
float dot(const float* x, const float* y, std::int64_t vectors, int width) {
  std::array<float, kLanes> sums{};
  add_lanes(x, y, vectors, width, sums.data());
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l)
      sums[static_cast<std::size_t>(l)] =
          add_on_gpu(sums[static_cast<std::size_t>(l)], sums[static_cast<std::size_t>(l + half)]);
  return sums[0] + 0.0f;  // -0 becomes 0
}

class RowsSddmm final : public SddmmKernel {
 public:
  explicit RowsSddmm(RowsSddmmOptions options) : options_(options) {}

  std::string format() const override { return Coo::kFormat; }
  int version() const override { return 1; }
  Arithmetic arithmetic() const override { return {.storage = options_.storage}; }
  bool scales_by_a() const override { return options_.scales_by_a; }

  std::vector<float> emulate(const PackedMatrix& packed, const DenseMatrix& x, const DenseMatrix& y,
                             const Generation&) const override {
    require_sddmm_shapes(packed, x, y);
    const auto& a = packed_as<Coo>(packed);
    const sddmm::StoredOperands stored(x, y, options_.storage.b);
    const std::int64_t vectors = options_.schedule(a.nnz(), x.cols).all_vectors();
    const int width = kVectorBytes / options_.bytes();
    std::vector<float> s(static_cast<std::size_t>(a.nnz()));
    parallel_for(a.nnz(), 4096, [&](std::int64_t begin, std::int64_t end) {
      const auto size = static_cast<std::size_t>(vectors * kLanes * width);
      std::vector<float> of_x(size, 0.0f), of_y(size, 0.0f);
      std::int32_t row = -1;
      for (std::int64_t i = begin; i < end; ++i) {
        if (a.row_indices[i] != row)
          std::ranges::copy(stored.x.row(a.row_indices[i]), of_x.begin());
        row = a.row_indices[i];
        std::ranges::copy(stored.y.row(a.col_indices[i]), of_y.begin());
        s[i] =
            sddmm::finished(options_, dot(of_x.data(), of_y.data(), vectors, width), a.values[i]);
      }
    });
    return s;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t k) const override {
    return describe_work(packed_as<Coo>(packed), options_, k);
  }

 private:
  RowsSddmmOptions options_;
};

const Register<SddmmKernel> entry{{
    .name = "rows_sddmm",
    .summary = "COO on CUDA cores, eight lanes a nonzero, runs of equal length (FP32 sums, ours)",
    .params = rows_sddmm::params(),
    .make =
        [](const Params& params) { return std::make_unique<RowsSddmm>(RowsSddmmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
