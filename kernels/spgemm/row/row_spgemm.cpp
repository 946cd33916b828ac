#include "kernels/spgemm/row/row_spgemm.hpp"

#include <algorithm>

#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "kernels/spgemm/row/masked.hpp"
#include "kernels/spgemm/row/trace.hpp"
#include "kernels/spgemm/shared/product_sketch.hpp"
#include "kernels/spgemm_kernel.hpp"

namespace tessera {
namespace {

using namespace row_spgemm;

class RowSpgemm final : public SpgemmKernel {
 public:
  explicit RowSpgemm(const RowSpgemmOptions& options) : is_wide_(options.is_wide) {}

  int version() const override { return 7; }
  Arithmetic arithmetic() const override {
    return {.sum = is_wide_ ? Arithmetic::Sum::kFp64 : Arithmetic::Sum::kFp32};
  }
  CsrMatrix emulate(const CsrMatrix& a, const CsrMatrix& b, const Generation&) const override {
    return is_wide_ ? rounded(multiply_rows(widened(a), widened(b))) : multiply_rows(a, b);
  }
  CsrMatrix emulate_masked(const CsrMatrix& a, const CsrMatrix& b, const CsrMatrix& mask,
                           const Generation& generation) const override {
    if (is_wide_) return SpgemmKernel::emulate_masked(a, b, mask, generation);
    return row_spgemm::emulate_masked(a, b, mask);
  }
  WorkDescription work(const CsrMatrix& a, const CsrMatrix& b) const override {
    require<Unsupported>(!is_wide_, "row_spgemm describes its work in FP32 alone");
    return row_spgemm::describe_work(a, b);
  }
  WorkCounts count_work(const spgemm::ProductSketch& product) const override {
    constexpr std::int64_t kLanes = 32;  // rows of so few products need no bitmap
    const CsrMatrix &a = product.a(), &b = product.b();
    Thresholds many = thresholds_for(a.nnz(), b.nnz(), b.rows);
    many.takes_hubs = true;
    constexpr std::int64_t kLongSegments = 2048;  // mean length of those of B's rows
    std::int64_t in_large_rows = 0, longest_row = 0, hub_products = 0, wide_products = 0;
    for (std::int32_t row = 0; row < a.rows; ++row) {
      const std::int64_t products = product.row_products[row], length = a.row_length(row);
      if (is_hub(products, length, many)) {
        hub_products += products;
        continue;
      }
      if (products > kLanes) in_large_rows += length;
      if (products >= kLongSegments * std::max(length, std::int64_t{1})) wide_products += products;
      longest_row = std::max(longest_row, length);
    }
    return {{"products", static_cast<double>(product.products)},
            {"nonzeros_of_a", static_cast<double>(a.nnz())},
            {"nonzeros_of_c", product.nonzeros_of_c},
            {"nonzeros_of_large_rows", static_cast<double>(in_large_rows)},  // of A
            {"longest_row_of_a", static_cast<double>(longest_row)},  // of those that are no hubs
            {"hub_products", static_cast<double>(hub_products)},
            {"wide_products", static_cast<double>(wide_products)}};  // of long rows of B
  }

 private:
  bool is_wide_;
};

const Register<SpgemmKernel> entry{{
    .name = "row_spgemm",
    .summary = "ours for scattered rows: marks columns in bitmaps, places sums by their rank, FP32",
    .params = {{"precision",
                std::string("fp32"),
                "type of the values of A and B, of the sums and of C; fp64 keeps "
                "structure alone and has no mask",
                {"fp32", "fp64"}},
               {"reuse", false,
                "true: a product keeps its structure, for further products with other values"},
               {"keeps", std::string("structure"),
                "with reuse, a product keeps its structure (the tasks; columns are found again), "
                "lists of products (the indices of each product's factors: 4 bytes, 6 or 8 for the "
                "largest matrices), portions of them (their segments of B's rows, and the place of "
                "each in shared memory: 2 bytes), with products the faster of these two, or "
                "positions (the place of each product's sum: 2 bytes)",
                names_of(kKeeps)},
               {"workspace_limit",
                std::int64_t{0},
                "memory of a product beside C in bytes, at most; A's rows are then multiplied in "
                "slices; 0: no limit",
                {},
                0}},
    .make =
        [](const Params& params) { return std::make_unique<RowSpgemm>(RowSpgemmOptions(params)); },
}};

}  // namespace
}  // namespace tessera
